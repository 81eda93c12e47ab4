"""The flow that schedules run: an experiment by the name of its configuration."""

from typing import Any

from prefect import Flow, State, flow
from prefect.client.schemas.objects import FlowRun

from configs.load import load_config
from flows.experiment import experiment
from flows.progress import watcher
from tasks.lifeline import end_with_parent
from tasks.prefect_server import quiet_run_logs


def tell_failure(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Say in one line that a run has failed; its traceback is with the server."""
    watcher().say(f"run {flow_run.name} failed: {state.message}")


@flow(name="scheduled-experiment", persist_result=False, on_failure=[tell_failure])
def scheduled_experiment(source: str = "default", overrides: tuple[str, ...] = ()) -> str:
    """Return the report's path of a configuration that is read anew at every run.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of it, each as path.to.key=value.
    """
    end_with_parent()
    with quiet_run_logs():
        # The body alone: its stages are then stages of this run, not of a second one.
        outcome = experiment.fn(load_config(source, overrides))
        outcome.raise_if_incomplete()
    watcher().say(f"report: {outcome.paths['report']}")
    return str(outcome.paths["report"])

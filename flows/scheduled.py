"""The flow that schedules run: an experiment by the name of its configuration."""

from typing import Any

from prefect import Flow, State, flow
from prefect.client.schemas.objects import FlowRun

from configs.load import load_configs
from flows.ending import end_runs, failure_told
from flows.experiment import run_all
from flows.progress import watcher
from tasks.adapters.servers.lifeline import end_with_parent


def tell_failure(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Say in one line that a run has failed; its traceback is with the server."""
    watcher().say(f"run {flow_run.name} failed: {state.message}")


@flow(name="scheduled-experiment", persist_result=False, on_failure=[tell_failure])
def scheduled_experiment(source: str = "default", overrides: tuple[str, ...] = ()) -> str:
    """Return the reports of a configuration that is read anew at every run.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of it, each as path.to.key=value.
    """
    end_with_parent()
    configs = load_configs(source, overrides)
    with failure_told(configs):
        # Not as flows of their own: the stages are then stages of this run, not of a second one.
        outcomes = run_all(configs)
    reports = ", ".join(outcome.paths["report"] for outcome in outcomes)
    watcher().say(f"report: {reports}")
    end_runs(configs, outcomes)
    return reports

"""The flow that schedules run: an experiment by the name of its configuration."""

import os
from pathlib import Path
from typing import Any

from prefect import Flow, State, flow
from prefect.client.schemas.objects import FlowRun

from configs.errors import UserError
from configs.hook_file import read_hooks
from configs.load import load_configs
from flows.clearing import clear_leftovers
from flows.ending import end_runs, failure_told
from flows.experiment import run_all
from flows.progress import watcher
from flows.run_label import scheduled_run_name, watch_run_name
from flows.watch import watch_all
from flows.watch_ending import WatchedModel, end_watch
from tasks.adapters.servers.lifeline import end_with_parent


def tell_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Say in one line when a run was on, how it ended; its traceback is with the server."""
    watcher().say(describe_run(flow_run, state))


@flow(
    name="scheduled-experiment",
    flow_run_name=scheduled_run_name,
    persist_result=False,
    on_completion=[tell_run],
    on_failure=[tell_run],
    on_cancellation=[tell_run],
    on_crashed=[tell_run],
)
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
        check_home()
        clear_leftovers()
        # Not as flows of their own: the stages are then stages of this run, not of a second one.
        outcomes = run_all(configs)
    end_runs(configs, outcomes)
    return ", ".join(outcome.paths["report"] for outcome in outcomes)


@flow(
    name="scheduled-watch",
    flow_run_name=watch_run_name,
    persist_result=False,
    on_completion=[tell_run],
    on_failure=[tell_run],
    on_cancellation=[tell_run],
    on_crashed=[tell_run],
)
def scheduled_watch(
    model: str = "crimes", data: tuple[str, ...] = (), hooks: str | None = None
) -> str:
    """Return the history page of a model after a look at what is new.

    Parameters
    ----------
    model : the registered name of the champion.
    data : new rows, each a file, a pattern of files, or keys of the data.
    hooks : a YAML file whose hooks are told of every look.
    """
    end_with_parent()
    watched = WatchedModel(model, read_hooks(Path(hooks))) if hooks else WatchedModel(model)
    with failure_told([watched]):
        check_home()
        clear_leftovers()
        found, page = watch_all(model, data)
    end_watch(watched, found, page)
    return page


def check_home() -> None:
    """Refuse to start where the results would be lost with the run's working folder."""
    named = os.environ.get("FKD_HOME", "")
    if not Path(named).expanduser().is_absolute():
        raise UserError(
            "FKD_HOME must be the absolute path of a folder that outlives a scheduled run, got "
            f"{named!r}: a worker runs in a temporary folder which it deletes; set FKD_HOME in the "
            "deployment's job_variables (see deploy/prefect.yaml) or where the worker is started."
        )


def describe_run(flow_run: FlowRun, state: State[Any]) -> str:
    """Return a run's name, start, end, state, seconds, with its report or what went wrong."""
    start, end = flow_run.start_time or flow_run.expected_start_time, state.timestamp
    ended = f"{start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC, " if start else ""
    seconds = f" after {(end - start).total_seconds():.0f} s" if start else ""
    line = f"run {flow_run.name}: {ended}{(state.name or state.type.value).lower()}{seconds}"
    return f"{line}; {told}" if (told := _told(state)) else line


def _told(state: State[Any]) -> str:
    """Return the report of a run that went well, one sentence of any other."""
    if state.is_completed():
        return f"report: {state.result(raise_on_failure=False)}"
    # A run that failed has its error; of one that was ended from outside there is a message.
    error = state.result(raise_on_failure=False) if state.is_failed() else state.message
    return " ".join(str(error or "").split())

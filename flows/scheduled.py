"""Flows that schedules and deployments run."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect import Flow, State, flow
from prefect.client.schemas.objects import FlowRun

from configs.data import DataConfig
from configs.errors import UserError
from configs.load import load_configs, read_hooks
from configs.run import ClusterConfig
from flows.ending import end_runs, failure_told
from flows.experiment import run_all
from flows.leftovers import clear_leftovers
from flows.monitor import WatchedModel, end_watch, watch_all
from flows.progress import watcher
from flows.reproduce import chosen_trees
from flows.reproduction import judge_all
from flows.stages import patient_stage, scheduled_run_name, watch_run_name
from tasks.cluster.signals import end_with_parent
from tasks.data.load import describe_rows, load_table
from tasks.storage.settings import read_settings

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def calendar_flow(
    name: str, run_name: Callable[[], str] | None = None
) -> Callable[[Callable[_Given, _Found]], Flow[_Given, _Found]]:
    """Return a decorator: a flow that says how each of its runs ended, however it ended."""
    ends = ("on_completion", "on_failure", "on_cancellation", "on_crashed")
    told: dict[str, Any] = {end: [tell_run] for end in ends}
    return flow(name=name, flow_run_name=run_name, persist_result=False, **told)


def begin_run() -> None:
    """Look whether a run can be gone through here, clear away what killed ones have left."""
    end_with_parent()
    check_home()
    clear_leftovers()


def check_home() -> None:
    """Refuse to start where the results would be lost with the run's working folder."""
    named = os.environ.get("FKD_HOME", "")
    if not Path(named).expanduser().is_absolute():
        raise UserError(
            "FKD_HOME must be the absolute path of a folder that outlives a scheduled run, got "
            f"{named!r}: a worker runs in a temporary folder which it deletes; set FKD_HOME in the "
            "deployment's job_variables, as deploy/prefect.yaml does from the shell that deploys: "
            "export it there, then deploy again."
        )


def tell_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Say in one line when a run was on, how it ended; its traceback is with the server."""
    watcher().say(describe_run(flow_run, state))


def describe_run(flow_run: FlowRun, state: State[Any]) -> str:
    """Return a run's name, start, end, state, seconds, with its report or what went wrong."""
    start, end = flow_run.start_time or flow_run.expected_start_time, state.timestamp
    ended = f"{start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC, " if start else ""
    seconds = f" after {(end - start).total_seconds():.0f} s" if start else ""
    line = f"run {flow_run.name}: {ended}{(state.name or state.type.value).lower()}{seconds}"
    return f"{line}; {told}" if (told := _told(state)) else line


def _told(state: State[Any]) -> str:
    """Return what a run that went well has made, one sentence of any other."""
    if state.is_completed():
        made = str(state.result(raise_on_failure=False))
        return f"report: {made}" if made.endswith(".html") else made
    # A run that failed has its error; of one that was ended from outside there is a message.
    error = state.result(raise_on_failure=False) if state.is_failed() else state.message
    return " ".join(str(error or "").split())


@calendar_flow("scheduled-experiment", scheduled_run_name)
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
        cells = run_all(configs)
    end_runs(cells)
    return ", ".join(cell.row()[2] for cell in cells)


@calendar_flow("scheduled-watch", watch_run_name)
def scheduled_watch(
    model: str = "crimes",
    data: tuple[str, ...] = (),
    hooks: str | None = None,
    refit: bool = False,
) -> str:
    """Return the history page of a model after a look at what is new.

    Parameters
    ----------
    model : the registered name of the champion.
    data : new rows, each a file, a pattern of files, or keys of the data.
    hooks : a YAML file whose hooks are told of every look.
    refit : whether to refit if a band is crossed.
    """
    end_with_parent()
    watched = WatchedModel(model, read_hooks(Path(hooks))) if hooks else WatchedModel(model)
    with failure_told([watched]):
        check_home()
        clear_leftovers()
        found, page = watch_all(model, data, refit=refit)
    end_watch(watched, found, page)
    return page


@calendar_flow("scheduled-refresh", scheduled_run_name)
def scheduled_refresh(source: str = "default", overrides: tuple[str, ...] = ()) -> str:
    """Return what the tables of a configuration hold, fetched and prepared before a run needs them.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of it, each as path.to.key=value.
    """
    begin_run()
    configs = load_configs(source, overrides)
    tables = {config.data.model_dump_json(): config.data for config in configs}
    return "; ".join(_refresh(data) for data in tables.values())


@patient_stage
def _refresh(data: DataConfig) -> str:
    """Return how many rows a table has, once its files are here and verified."""
    loaded = load_table(data, read_settings())
    told = f"{data.problem}: {describe_rows(loaded.provenance)}"
    watcher().say(told)
    return told


@calendar_flow("scheduled-reproduction")
def scheduled_reproduction(names: tuple[str, ...] = ("all",), quick: bool = True) -> str:
    """Return the page with the paper's claims, judged anew; fail where one could not be judged.

    Parameters
    ----------
    names : E0 to E10, preprocessing, or all.
    quick : few rows, few folds, short grids.
    """
    begin_run()
    return str(judge_all(chosen_trees(names, is_quick=quick), ClusterConfig()).page)

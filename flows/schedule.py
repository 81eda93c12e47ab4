"""Flows that a deployment or `fkd schedule` runs at set times."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect import Flow, State, flow
from prefect.client.schemas.objects import FlowRun

from configs.cluster import ClusterConfig
from configs.data import DataConfig
from configs.errors import UserError
from configs.load import load_configs, read_hooks
from flows.experiment import run_all
from flows.messages import run_log
from flows.monitor import WatchedModel, end_watch, watch_all
from flows.outcome import end_runs, failure_hooks
from flows.reproduce import judge_all
from flows.run import chosen_trees, clear_leftovers
from flows.stages import scheduled_run_name, step, watch_run_name
from tasks.cluster.signals import end_with_parent
from tasks.data.load import describe_rows, load_table
from tasks.storage.settings import read_settings

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def calendar_flow(
    name: str, run_name: Callable[[], str] | None = None
) -> Callable[[Callable[_Given, _Found]], Flow[_Given, _Found]]:
    """Return a decorator for a flow that logs the end of each of its runs."""
    ends = ("on_completion", "on_failure", "on_cancellation", "on_crashed")
    hooks: dict[str, Any] = {end: [log_end] for end in ends}
    return flow(name=name, flow_run_name=run_name, persist_result=False, **hooks)


def _prepare_run() -> None:
    """End this process with its parent, check FKD_HOME and remove files of killed processes."""
    end_with_parent()
    check_home()
    clear_leftovers()


def check_home() -> None:
    """Raise a UserError if results would be lost with the temporary folder of the run."""
    named = os.environ.get("FKD_HOME", "")
    if not Path(named).expanduser().is_absolute():
        raise UserError(
            "FKD_HOME must be the absolute path of a folder that outlives a scheduled run, got "
            f"{named!r}: a worker runs in a temporary folder and deletes it. Set FKD_HOME in the "
            "deployment's job_variables. deploy/prefect.yaml takes it from the shell: export it, "
            "then deploy again."
        )


def log_end(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Log a run's name, start, end, state, duration, and its report or error, in one line."""
    start, end = flow_run.start_time or flow_run.expected_start_time, state.timestamp
    ended = f"{start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC, " if start else ""
    seconds = f" after {(end - start).total_seconds():.0f} s" if start else ""
    line = f"run {flow_run.name}: {ended}{(state.name or state.type.value).lower()}{seconds}"
    run_log().log("; ".join(filter(None, [line, _result_text(state)])))


def _result_text(state: State[Any]) -> str:
    """Return the result of a completed run, or the error of any other."""
    if state.is_completed():
        made = str(state.result(raise_on_failure=False))
        return f"report: {made}" if made.endswith(".html") else made
    # A failed run has an error, a cancelled one a message.
    error = state.result(raise_on_failure=False) if state.is_failed() else state.message
    return " ".join(str(error or "").split())


@calendar_flow("scheduled-experiment", scheduled_run_name)
def scheduled_experiment(source: str = "default", overrides: tuple[str, ...] = ()) -> str:
    """Run a configuration and return the paths of its reports.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of it, each as path.to.key=value.
    """
    end_with_parent()
    configs = load_configs(source, overrides)
    with failure_hooks(configs):
        check_home()
        clear_leftovers()
        # Called as a function: its tasks belong to this flow run.
        cells = run_all(configs)
    end_runs(cells)
    return ", ".join(cell.row()[2] for cell in cells)


@calendar_flow("scheduled-watch", watch_run_name)
def scheduled_watch(
    model: str = "crimes", data: tuple[str, ...] = (), hooks: str | None = None, refit: bool = False
) -> str:
    """Check new rows of a model and return its history page.

    Parameters
    ----------
    model : the registered name of the champion.
    data : new rows, each a file, a pattern of files, or keys of the data.
    hooks : a YAML file with hooks to call after every check.
    refit : refit if a band is crossed.
    """
    end_with_parent()
    watched = WatchedModel(model, read_hooks(Path(hooks))) if hooks else WatchedModel(model)
    with failure_hooks([watched]):
        check_home()
        clear_leftovers()
        found, page = watch_all(model, data, refit=refit)
    end_watch(watched, found, page)
    return page


@calendar_flow("scheduled-refresh", scheduled_run_name)
def scheduled_refresh(source: str = "default", overrides: tuple[str, ...] = ()) -> str:
    """Fetch and prepare the tables of a configuration, and return their rows.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of it, each as path.to.key=value.
    """
    _prepare_run()
    configs = load_configs(source, overrides)
    tables = {config.data.model_dump_json(): config.data for config in configs}
    return "; ".join(_refresh(data) for data in tables.values())


@step("fetch data", patient=True)
def _refresh(data: DataConfig) -> str:
    """Fetch and verify the files of a table, and return its number of rows."""
    loaded = load_table(data, read_settings())
    text = f"{data.problem}: {describe_rows(loaded.provenance)}"
    run_log().log(text)
    return text


@calendar_flow("scheduled-reproduction")
def scheduled_reproduction(names: tuple[str, ...] = ("all",), quick: bool = True) -> str:
    """Judge the paper's claims and return their page; fail if one could not be judged.

    Parameters
    ----------
    names : E0 to E10, preprocessing, or all.
    quick : few rows, few folds, short grids.
    """
    _prepare_run()
    return str(judge_all(chosen_trees(names, is_quick=quick), ClusterConfig()).page)

"""`fkd schedule`: serve a configuration by a schedule until it is stopped."""

import asyncio
import datetime
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from prefect import Flow, State, flow
from prefect.client.schemas.objects import FlowRun

from configs.data import DataConfig
from configs.errors import UserError
from configs.load import load_configs, read_hooks
from configs.run import ClusterConfig, check_schedule_overrides
from flows.experiment import run_all
from flows.monitor import WatchedModel, end_watch, watch_all
from flows.outcome import end_runs, failure_hooks
from flows.progress import run_log
from flows.reproduce import chosen_trees, judge_all
from flows.run import clear_leftovers
from flows.stages import scheduled_run_name, step, watch_run_name
from tasks.cluster.signals import end_with_parent
from tasks.data.load import describe_rows, load_table
from tasks.monitor.check import absolute_path, read_batches
from tasks.servers.hooks import check_hooks
from tasks.servers.servers import client_environment, prefect_server, quiet_children, set_variables
from tasks.storage.settings import ensure_writable, read_settings, without_credentials

if TYPE_CHECKING:
    # Prefect is imported after `prefect_server` has set its environment variables.
    from prefect import Flow
    from prefect.runner import Runner
    from prefect.schedules import Schedule

_EXAMPLE = 'give five fields such as --cron "0 3 * * 1" (Mondays at three, UTC)'


def serve_schedule(
    source: str, overrides: Sequence[str] = (), *, cron: str | None, every: float | None
) -> None:
    """Serve a configuration on a schedule until Ctrl-C or SIGTERM.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one; read anew at every run.
    overrides : changes of it, each as path.to.key=value.
    cron : when to run, in UTC.
    every : seconds between two runs, instead of cron.
    """
    configs = load_configs(source, overrides)
    check_schedule_overrides(overrides)
    settings = read_settings()
    ensure_writable(settings.home)
    # Runs are processes of their own, possibly with another working folder.
    with client_environment(settings), set_variables({"FKD_HOME": str(settings.home)}):
        # Before a server starts, so that a wrong expression is reported at once.
        schedule = make_schedule(cron, every)
        with prefect_server(settings) as url, quiet_children():
            from flows.schedule import scheduled_experiment

            where = str(Path(source).absolute()) if Path(source).is_file() else source
            serve_flow(
                scheduled_experiment,
                name=configs[0].name,
                schedule=schedule,
                parameters={"source": where, "overrides": list(overrides)},
                address=url,
            )


def serve_watch(
    model: str,
    data: Sequence[str],
    *,
    cron: str | None,
    every: float | None,
    hooks: Path | None = None,
    refit: bool = False,
) -> None:
    """Check new rows of a model on a schedule until Ctrl-C or SIGTERM.

    Parameters
    ----------
    model : the registered name of the champion.
    data : new rows, each a file, a pattern of files, or keys of the data; looked up at every run.
    cron : when to run, in UTC.
    every : seconds between two runs, instead of cron.
    hooks : a YAML file with hooks to call after every check, read at every run.
    refit : refit if a band is crossed.
    """
    settings = read_settings()
    if hooks is not None:
        check_hooks(read_hooks(hooks))
    from tasks.monitor.champion import watched_champion

    # A mistyped name or key would otherwise fail in every scheduled run.
    read_batches(watched_champion(settings, model).config, data)
    named = None if hooks is None else str(hooks.absolute())
    with client_environment(settings), set_variables({"FKD_HOME": str(settings.home)}):
        schedule = make_schedule(cron, every)
        with prefect_server(settings) as url, quiet_children():
            from flows.schedule import scheduled_watch

            serve_flow(
                scheduled_watch,
                name=model,
                schedule=schedule,
                parameters={
                    "model": model,
                    "data": [absolute_path(text) for text in data],
                    "hooks": named,
                    "refit": refit,
                },
                address=url,
            )


def make_schedule(cron: str | None, every: float | None) -> "Schedule":
    """Return a Prefect schedule."""
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.schedules import Cron, Interval

    if cron is None and every is not None:
        if not every >= 1:  # also refuses NaN
            raise UserError(f"--every must be at least 1 second, got {every:g}.")
        return Interval(datetime.timedelta(seconds=every))
    if cron is None or every is not None:
        raise UserError(f"A schedule needs either --cron or --every, {_EXAMPLE}.")
    try:
        CronSchedule(cron=cron)
    except ValueError as error:
        raise UserError(f"--cron must be a cron expression, got {cron!r}, {_EXAMPLE}.") from error
    return Cron(cron, timezone="UTC")


def serve_flow(
    flow: "Flow[..., Any]",
    *,
    name: str,
    schedule: "Schedule",
    parameters: Mapping[str, Any],
    address: str,
) -> None:
    """Serve a flow from this process, one run at a time, until Ctrl-C or SIGTERM."""
    from prefect.runner import Runner
    from prefect.types.entrypoint import EntrypointType

    # A run that is due during another run waits.
    runner = Runner(name=name, limit=1)
    runner.add_flow(
        flow,
        name=name,
        schedule=schedule,
        parameters=dict(parameters),
        tags=["fkd"],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    server = without_credentials(address)
    run_log().log(f"{flow.name}/{name} is served by {server}. Ctrl-C stops it")
    asyncio.run(_until_stopped(runner))
    run_log().log(f"{flow.name}/{name} is no longer served. Its schedule is paused")


async def _until_stopped(runner: "Runner") -> None:
    """Run the runner. At a signal, it cancels its runs and pauses the schedule."""
    asked = asyncio.Event()
    with _runs_out_of_reach():
        serving = asyncio.create_task(runner.start())
        # These replace the handlers that the runner has set, which end it without cleaning up.
        await asyncio.sleep(0)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, asked.set)
        waiting = asyncio.create_task(asked.wait())
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if runner.started:
            await runner.astop()
        await serving


@contextmanager
def _runs_out_of_reach() -> Iterator[None]:
    """Let Ctrl-C reach this process only. The runner ends the runs, which are its children."""
    # Children inherit the blocked signal of this thread. Another thread receives it.
    left = threading.Event()
    threading.Thread(target=left.wait, name="receiver", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        left.set()


_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def calendar_flow(
    name: str, run_name: Callable[[], str] | None = None
) -> Callable[[Callable[_Given, _Found]], Flow[_Given, _Found]]:
    """Return a decorator for a flow that logs the end of each of its runs."""
    ends = ("on_completion", "on_failure", "on_cancellation", "on_crashed")
    hooks: dict[str, Any] = {end: [log_end] for end in ends}
    return flow(name=name, flow_run_name=run_name, persist_result=False, **hooks)


def prepare_run() -> None:
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
    """Log the end of a run in one line. The server has its traceback."""
    run_log().log(describe_run(flow_run, state))


def describe_run(flow_run: FlowRun, state: State[Any]) -> str:
    """Return a run's name, start, end, state and duration, and its report or its error."""
    start, end = flow_run.start_time or flow_run.expected_start_time, state.timestamp
    ended = f"{start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC, " if start else ""
    seconds = f" after {(end - start).total_seconds():.0f} s" if start else ""
    line = f"run {flow_run.name}: {ended}{(state.name or state.type.value).lower()}{seconds}"
    return f"{line}; {text}" if (text := _result_text(state)) else line


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
    model: str = "crimes",
    data: tuple[str, ...] = (),
    hooks: str | None = None,
    refit: bool = False,
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
    prepare_run()
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
    prepare_run()
    return str(judge_all(chosen_trees(names, is_quick=quick), ClusterConfig()).page)

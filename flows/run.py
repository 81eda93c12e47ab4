"""The commands that run flows: run, sweep, reproduce, watch, schedule; and the plan of a run.

Prefect reads its environment variables when it is first imported, so it and the modules with flows
are imported after `prefect_server` or `client_environment` has set them.
"""

import asyncio
import datetime
import os
import shlex
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.cluster import ClusterConfig
from configs.errors import UserError, check_name
from configs.hooks import HooksConfig, check_schedule_overrides
from configs.load import apply_overrides, load_configs, parse_config, read_hooks
from configs.reproduction import (
    READING_KEYS,
    experiment_names,
    is_network,
    parse_experiment,
    quick,
    read_experiment,
    read_otherwise,
    without,
)
from configs.run import RunConfig
from fkd.methods.declaration import Method
from flows.command_options import Overrides
from flows.errors import check_address_space
from flows.messages import is_json, run_log, write_line
from flows.outcome import BadEndError, end_runs, failure_hooks, show_cells
from tasks.data.download import Cache
from tasks.data.load import describe_rows, remarks
from tasks.fit.job import planned_cost
from tasks.monitor.check import CROSSED, Watch, absolute_path, read_batches, watched_champion
from tasks.report.history_page import history_path
from tasks.report.page import write_report
from tasks.select.study import Study, open_study
from tasks.servers.hooks import check_hooks
from tasks.servers.prefect import client_environment, prefect_server, quiet_children, set_variables
from tasks.storage.files import sweep_leftovers
from tasks.storage.settings import ensure_writable, read_settings, without_credentials
from tasks.track.compare import read_plan, reasons

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.runner import Runner
    from prefect.schedules import Schedule

_HEADINGS = ("trials", "fits", "stored", "to do", "tasks", "Gflop", "GiB", "seconds")
# A partial download can be continued until then.
_PARTIAL_SECONDS = 7 * 24 * 3600.0


def prepare_run() -> None:
    """Check the limits of this process and remove files of killed ones."""
    check_address_space(run=True)
    clear_leftovers()


def clear_leftovers() -> int:
    """Remove files of killed processes from FKD_HOME and return their number."""
    settings, removed = read_settings(), 0
    with suppress(OSError):  # the run itself reports what cannot be written
        removed = sweep_leftovers(settings.home)
        if settings.downloads.is_dir():
            removed += Cache(settings.downloads).remove_leftovers(older_than=_PARTIAL_SECONDS)[0]
    return removed


def run_configs(configs: Sequence[RunConfig]) -> None:
    """Run configurations and print their results."""
    prepare_run()
    start = time.monotonic()
    settings = read_settings()
    ensure_writable(settings.home)
    names = configs[0].name if len(configs) == 1 else f"{len(configs)} runs"
    run_log().log(f"{names}: starting (state in {settings.home})")
    with failure_hooks(configs), prefect_server(settings):
        from flows.experiment import experiment, sweep

        try:
            cells = [experiment(configs[0])] if len(configs) == 1 else sweep(list(configs))
        except BadEndError as error:
            cells = error.cells
    seconds = time.monotonic() - start
    for cell in cells:
        cell.show()
    if len(cells) > 1:
        show_cells(cells)
    if not is_json():
        Console(highlight=False).print(f"[dim]done in {seconds:.0f} s[/dim]")
    end_runs(cells)


def rewrite_report(config: RunConfig, source: str, overrides: Sequence[str]) -> Study:
    """Write the report of a configuration from its stored results, print its path.

    `source` and `overrides` are the arguments from which the configuration was read.
    """
    study = open_study(config, read_settings())
    if jobs := study.missing():
        words = [word for override in overrides for word in ("--set", override)]
        raise UserError(
            f"{config.name} is not finished: {sum(len(job.trials) for job in jobs)} fits are "
            f"missing. Compute them with `{shlex.join(['fkd', 'run', source, *words])}`."
        )
    page = write_report(study, again=True)
    Console(markup=False, highlight=False).print(str(page), soft_wrap=True)
    return study


def show_plan(configs: Sequence[RunConfig]) -> None:
    """Print the trials, tasks and cost of each run, and how many fits are stored."""
    # Without vertical lines all columns fit into a terminal of 80 characters.
    title = "Plan (nothing is computed)"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("run", overflow="fold")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    why, rows = Counter[str](), list[str]()
    for config in configs:
        study = open_study(config, read_settings())
        cells, its_reasons = _plan_row(study)
        if config.data.source == "file":
            origin = study.loaded.provenance
            rows += [f"{config.name}: {describe_rows(origin)}", *remarks(origin)]
        table.add_row(config.name, *cells)
        why += its_reasons
        if is_json():
            planned: dict[str, Any] = dict(zip(_HEADINGS, map(float, cells), strict=True))
            write_line("info", "plan", run=config.name, **planned)
    notes = [*rows, *_plan_notes(configs, why)]
    if is_json():
        for line in notes:
            write_line("info", "log", line)
        return
    console = Console(highlight=False)
    console.print(table)
    for line in notes:
        console.print(f"[dim]{escape(line)}[/dim]", soft_wrap=True)


def _plan_row(study: Study) -> tuple[list[str], Counter[str]]:
    """Return the cells of a run, and the reasons why fits are missing."""
    config = study.config
    jobs = study.missing(again=True)
    failed = study.store.read_failures(key for job in jobs for key in job.record_keys)
    todo = sum(len(job.trials) for job in jobs)
    cost = planned_cost(jobs, study.loaded.table)
    workers = config.cluster.most_workers or os.cpu_count() or 1
    counts = [len(study.trials), study.size(), study.size() - todo, todo, len(jobs)]
    costs = [
        f"{cost.flops / 1e9:.0f}",
        f"{cost.bytes / 2**30:.2f}",
        f"{cost.seconds / min(workers, max(len(jobs), 1)):.0f}",
    ]
    return [*map(str, counts), *costs], reasons(study, jobs, read_plan(study), failed)


def _plan_notes(configs: Sequence[RunConfig], why: Counter[str]) -> list[str]:
    """Return explanations of the table."""
    lines = ["A task computes the fits that share a factorisation on one fold."]
    if why:
        lines.append(f"To do: {'; '.join(f'{n} {reason}' for reason, n in why.most_common())}.")
    lines.append("GiB: largest task. Seconds: arithmetic at this machine's speed, without start.")
    if any(entry.search for config in configs for entry in config.methods):
        lines.append("The winner of a search adds the fits of its grid.")
    if any(entry.grows(config.data.problem) for config in configs for entry in config.methods):
        lines.append("Strengths that are not given are added while they change the predictions.")
    return lines


def watch_model(
    model: str,
    /,
    *,
    data: Annotated[tuple[str, ...], Parameter(name="--data", consume_multiple=True)] = (),
    cron: str | None = None,
    every: float | None = None,
    hooks: Path | None = None,
    refit: bool = False,
) -> None:
    """Check a champion on new rows.

    Parameters
    ----------
    model
        Name of the registered model, such as crimes.
    data
        New rows: files, patterns in quotes, or keys of the data such as "states=NJ year=2019";
        "year=next" and "states=next" are the next that was not checked.
    cron
        Repeat the check at these times until Ctrl-C, such as "0 3 * * 1": Mondays at three, UTC.
    every
        Seconds between two checks, instead of cron.
    hooks
        A YAML file with `hooks` to call after every check, such as the run's configuration.
    refit
        If a band is crossed, refit on the rows of the champion and the new ones. The result is
        registered as a candidate; only a configured gate that it passes makes it the champion.
    """
    prepare_run()
    settings = read_settings()
    ensure_writable(settings.home)
    called = HooksConfig() if hooks is None else read_hooks(hooks)
    check_hooks(called)
    # Before a server starts, so that a mistyped name or file is reported at once.
    read_batches(watched_champion(settings, model).config, data)
    if cron is not None or every is not None:
        parameters = {
            "model": model,
            "data": [absolute_path(text) for text in data],
            "hooks": None if hooks is None else str(hooks.absolute()),
            "refit": refit,
        }
        _serve("scheduled_watch", model, parameters, cron, every)
        return
    with prefect_server(settings):
        from flows.monitor import WatchedModel, end_watch, watch

        watched = WatchedModel(model, called)
        with failure_hooks([watched]):
            found = watch(model, list(data), refit)
    _show_watches(found)
    end_watch(watched, found, str(history_path(settings, model)))


def _show_watches(found: Sequence[Watch]) -> None:
    """Print one line per check."""
    console = Console(highlight=False)
    for watch in found:
        if is_json():
            why = None if watch.refit is None else watch.refit.why
            fields = {"run": watch.model, "rows_from": watch.rows_from, "verdict": watch.verdict}
            write_line("info", "result", watch.reason, **fields, refit=why)
            continue
        colour = "bold red" if watch.verdict == CROSSED else "green"
        console.print(
            f"[bold]{escape(watch.rows_from)}[/bold] [{colour}]{escape(watch.reason)}[/{colour}]",
            soft_wrap=True,
        )
        if watch.refit is not None:
            console.print(f"   {escape(watch.refit.why)}", soft_wrap=True)


_EXAMPLE = 'give five fields such as --cron "0 3 * * 1" (Mondays at three, UTC)'


def serve_schedule(
    config: str = "default",
    /,
    *,
    cron: str | None = None,
    every: float | None = None,
    overrides: Overrides = (),
) -> None:
    """Run a configuration on a schedule until Ctrl-C.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one.
    cron
        Times of the runs, such as "0 3 * * 1" for Mondays at three, UTC.
    every
        Seconds between two runs, instead of cron.
    """
    prepare_run()
    configs = load_configs(config, overrides)
    check_schedule_overrides(overrides)
    source = str(Path(config).absolute()) if Path(config).is_file() else config
    parameters = {"source": source, "overrides": list(overrides)}
    _serve("scheduled_experiment", configs[0].name, parameters, cron, every)


def _serve(
    flow: str, name: str, parameters: dict[str, Any], cron: str | None, every: float | None
) -> None:
    """Serve a flow of `flows.schedule` until Ctrl-C or SIGTERM."""
    settings = read_settings()
    ensure_writable(settings.home)
    # Runs are processes of their own, possibly with another working folder.
    with client_environment(settings), set_variables({"FKD_HOME": str(settings.home)}):
        # Before a server starts, so that a wrong expression is reported at once.
        schedule = make_schedule(cron, every)
        with prefect_server(settings) as url, quiet_children():
            from flows import schedule as flows_on_schedule

            serve_flow(
                getattr(flows_on_schedule, flow),
                name=name,
                schedule=schedule,
                parameters=parameters,
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
    parameters: dict[str, Any],
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
        parameters=parameters,
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


_GROUPS = ("neural",)  # of methods that `fkd reproduce --without` names


def reproduce_paper(
    *names: str,
    without: Annotated[tuple[str, ...], Parameter(help="neural: leave out the networks")] = (),
    quick: bool = False,
    overrides: Overrides = (),
) -> None:
    """Run the paper's experiments, judge its claims and write one page with all of them.

    Parameters
    ----------
    names
        E0 to E10, preprocessing, or all (the default).
    quick
        Use few rows, few folds and short grids, to see in minutes that everything works.
    """
    prepare_run()
    start = time.monotonic()
    cluster, reading = _reproduction_settings(overrides)
    trees, unread = chosen_trees(names or ("all",), without, is_quick=quick), list[str]()
    if reading:
        trees, unread = _read_otherwise(trees, reading)
    for tree in trees:
        parse_experiment(tree)  # reports faults before any work
    settings = read_settings()
    ensure_writable(settings.home)
    run_log().log(f"{len(trees)} experiments of the paper (state in {settings.home})")
    for sentence in unread:
        run_log().log(f"left out: {sentence}")
    with prefect_server(settings):
        from flows.reproduce import IncompleteError, reproduce

        try:
            found, problem = reproduce(trees, cluster), None
        except IncompleteError as error:
            found, problem = error.found, error
    found.show(time.monotonic() - start)
    if problem is not None:
        raise problem


def chosen_trees(
    names: Sequence[str], leave_out: Sequence[str] = (), *, is_quick: bool = False
) -> list[dict[str, Any]]:
    """Return the chosen experiments as they will run, without duplicates."""
    for group in leave_out:
        try:
            check_name(group, _GROUPS, key="--without")
        except ValueError as error:
            raise UserError(f"{error}.") from None

    def reason(declared: Method) -> str | None:
        if is_network(declared) and "neural" in leave_out:
            return "--without neural leaves out the networks"
        if declared.extra is not None and declared.extra.missing():
            return f"{declared.title} needs {', '.join(declared.extra.missing())}: `make neural`"
        return None

    meant = [name for one in names for name in (experiment_names() if one == "all" else (one,))]
    trees = [without(read_experiment(name), reason) for name in dict.fromkeys(meant)]
    return [quick(tree) if is_quick else tree for tree in trees]


def _reproduction_settings(overrides: Sequence[str]) -> tuple[ClusterConfig, dict[str, Any]]:
    """Return the cluster and the keys of the data that --set changes."""
    tree = apply_overrides({}, overrides)
    if idle := sorted(set(tree) - {"cluster", "data"}):
        raise UserError(
            "--set of fkd reproduce must name keys of cluster, or of data "
            f"({', '.join(READING_KEYS)}), got {', '.join(idle)}. Other keys of the experiments "
            "are fixed."
        )
    reading = tree.pop("data", {})
    if not isinstance(reading, dict):
        raise UserError(f"--set data must name a key, such as data.drop=[], got {reading!r}.")
    # Parsed as a run, so that errors read as everywhere.
    return parse_config({"methods": ["dummy"], **tree}, "--set").cluster, reading


def _read_otherwise(
    trees: Sequence[dict[str, Any]], reading: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the experiments with changed data keys, and why others cannot have them."""
    found, unread = list[dict[str, Any]](), list[str]()
    for tree in trees:
        try:
            found.append(read_otherwise(tree, reading))
        except UserError as error:
            unread.append(str(error))
    if not found:
        raise UserError(" ".join(dict.fromkeys(unread)))
    return found, unread

"""`fkd schedule`: serve a configuration by a schedule until it is stopped."""

import asyncio
import datetime
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.errors import UserError
from configs.hooks import refuse_kept_addresses
from configs.load import load_configs, read_hooks
from flows.progress import watcher
from tasks.monitor.batches import located, read_batches
from tasks.servers.hooks import check_hooks
from tasks.servers.prefect import (
    client_environment,
    prefect_server,
    quiet_children,
    set_variables,
)
from tasks.storage.addresses import without_credentials
from tasks.storage.settings import ensure_writable, read_settings

if TYPE_CHECKING:
    # Prefect itself is imported late, after `prefect_server` has decided where its state lies.
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
    refuse_kept_addresses(overrides)
    settings = read_settings()
    ensure_writable(settings.home)
    # Runs are processes of their own, whose working folder need not be ours.
    with client_environment(settings), set_variables({"FKD_HOME": str(settings.home)}):
        # Before a server is started, so that a wrong expression is told at once.
        schedule = make_schedule(cron, every)
        with prefect_server(settings) as url, quiet_children():
            from flows.scheduled import scheduled_experiment

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
    """Look at new rows of a model on a schedule until Ctrl-C or SIGTERM.

    Parameters
    ----------
    model : the registered name of the champion.
    data : new rows, each a file, a pattern of files, or keys of the data; looked up at every run.
    cron : when to run, in UTC.
    every : seconds between two runs, instead of cron.
    hooks : a YAML file whose hooks are told of every look; read anew at every run.
    refit : whether to refit if a band is crossed.
    """
    settings = read_settings()
    if hooks is not None:
        check_hooks(read_hooks(hooks))
    from tasks.monitor.champion import watched_champion

    # A mistyped name or key would fail at every look, with nobody there to see it.
    read_batches(watched_champion(settings, model).config, data)
    named = None if hooks is None else str(hooks.absolute())
    with client_environment(settings), set_variables({"FKD_HOME": str(settings.home)}):
        schedule = make_schedule(cron, every)
        with prefect_server(settings) as url, quiet_children():
            from flows.scheduled import scheduled_watch

            serve_flow(
                scheduled_watch,
                name=model,
                schedule=schedule,
                parameters={
                    "model": model,
                    "data": [located(text) for text in data],
                    "hooks": named,
                    "refit": refit,
                },
                address=url,
            )


def make_schedule(cron: str | None, every: float | None) -> "Schedule":
    """Return the rhythm in Prefect's words, or say how to write it."""
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.schedules import Cron, Interval

    if cron is None and every is not None:
        if not every >= 1:  # also refuses NaN
            raise UserError(f"--every must be at least 1 second, got {every:g}.")
        return Interval(datetime.timedelta(seconds=every))
    if cron is None or every is not None:
        raise UserError(f"A schedule needs either --cron or --every; {_EXAMPLE}.")
    try:
        CronSchedule(cron=cron)
    except ValueError as error:
        raise UserError(f"--cron must be a cron expression, got {cron!r}; {_EXAMPLE}.") from error
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

    # A run that comes due while another is on waits for its turn.
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
    watcher().say(f"{flow.name}/{name} is served by {server}; Ctrl-C ends it")
    asyncio.run(_until_stopped(runner))
    watcher().say(f"{flow.name}/{name} is no longer served; its schedule is paused")


async def _until_stopped(runner: "Runner") -> None:
    """Run the runner; at a signal let it cancel its runs, pause the schedule, leave."""
    asked = asyncio.Event()
    with _runs_out_of_reach():
        serving = asyncio.create_task(runner.start())
        # The runner's own handler, which it has set by then, would leave its work undone.
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
    """Let Ctrl-C reach this process only: the runner ends the runs, which are its children."""
    # Children inherit the blocked signal of this thread; another thread still receives it for us.
    left = threading.Event()
    threading.Thread(target=left.wait, name="receiver", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        left.set()

"""`fkd status` and `fkd ui`: runs of FKD_HOME, and the pages of servers."""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from flows.progress import run_log
from tasks.servers.servers import (
    PrefectRefusedError,
    mlflow_server,
    prefect_server,
    upcoming_prefect_server,
)
from tasks.servers.shared_server import read_record
from tasks.storage.settings import Settings, ensure_writable, read_settings, without_credentials
from tasks.track.client import TrackingRefusedError, runs_page, tracking_uri
from tasks.track.run_index import Status, all_statuses

_UP, _DOWN, _REFUSED = "[green]up[/]", "[red]no answer[/]", "[red]login refused[/]"


def show_servers(settings: Settings, console: Console) -> None:
    """Print the configured servers. Raise a UserError if one refuses the credentials."""
    table = Table(
        title="Servers", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1)
    )
    for heading in ("server", "state", "address"):
        table.add_column(heading, overflow="fold")
    refused: list[UserError] = []
    for name, url, ask in _named(settings):
        state = _UP
        try:
            ask()
        except (TrackingRefusedError, PrefectRefusedError) as error:
            refused.append(error)
            state = _REFUSED
        except UserError:
            state = _DOWN
        table.add_row(name, state, escape(without_credentials(url)))
    if table.row_count:
        console.print(table)
    if refused:
        raise UserError(" ".join(map(str, refused)))


def _named(settings: Settings) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """Yield name, address and a check of each configured server."""
    if settings.prefect_api_url is not None:
        yield "Prefect", settings.prefect_api_url, lambda: _ask_prefect(settings)
    if (settings.mlflow_tracking_uri or "").startswith(("http://", "https://")):
        yield "MLflow", str(settings.mlflow_tracking_uri), lambda: _ask_mlflow(settings)


def _ask_prefect(settings: Settings) -> None:
    """Connect to Prefect."""
    with prefect_server(settings):
        pass


def _ask_mlflow(settings: Settings) -> None:
    """Request one experiment."""
    # The import of MLflow takes seconds.
    from tasks.track.client import TimedClient
    from tasks.track.registry import registry_call
    from tasks.track.runs import prepare_stores

    prepare_stores(settings)
    registry_call(settings, lambda: TimedClient(settings).search_experiments(max_results=1))


_COLOURS = {"running": "cyan", "finished": "green", "failed": "red", "stopped": "yellow"}
_CAUSES = 5


def show_status() -> None:
    """Print the runs of FKD_HOME with their progress and failures, and the servers."""
    settings, console = read_settings(), Console(highlight=False)
    statuses = list(all_statuses(settings))
    if statuses:
        _show_runs(statuses, console)
    else:
        home = escape(str(settings.home))
        console.print(f"No run yet under {home}. Start one with `fkd run`.", soft_wrap=True)
    show_servers(settings, console)


def _show_runs(statuses: Sequence[Status], console: Console) -> None:
    """Print one line per run, and the causes of failed fits."""
    # Without padding all columns fit into a terminal of 80 characters.
    table = Table(
        title="Fits by run", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=0
    )
    table.add_column("run", overflow="fold")
    table.add_column("state", no_wrap=True)
    for heading in ("done", "before", "failed", "to do", "per s", "s left"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("updated", no_wrap=True)
    for status in statuses:
        table.add_row(*_row(status))
    console.print(table)
    for status in statuses:
        causes = [*filter(None, [status.message]), *dict.fromkeys(status.failures)]
        for cause in causes[:_CAUSES]:
            console.print(f"[red]{status.name}[/red] {escape(cause)}", soft_wrap=True)


def _row(status: Status) -> list[str]:
    """Return the cells of a run."""
    left = status.remaining / status.rate if status.rate and status.seen == "running" else None
    return [
        status.name,
        f"[{_COLOURS[status.seen]}]{status.seen}[/]",
        str(status.done),
        str(status.stored),
        str(len(status.failures)),
        str(status.remaining),
        _rate(status.rate) if status.done else "",
        "" if left is None else f"{left:.0f}",
        _moment(status.updated),
    ]


def _rate(rate: float) -> str:
    """Return a rate with at most one decimal."""
    return f"{rate:.1f}" if rate < 100 else f"{rate:.0f}"


def _moment(updated: float) -> str:
    """Return the time of a moment today, the date of any other."""
    then, now = time.localtime(updated), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%m-%d", then)


_POLL = 1.0


def open_pages() -> None:
    """Show the addresses of all pages. Servers that are started here run until Ctrl-C."""
    settings = read_settings()
    ensure_writable(settings.home)
    with (
        suppress(KeyboardInterrupt),
        # Both servers start at the same time.
        upcoming_prefect_server(settings) as connect,
        _mlflow_page(settings) as mlflow,
    ):
        run_log().log(f"Prefect  {without_credentials(connect()).removesuffix('/api')}")
        _show_password(settings.prefect)
        run_log().log(f"MLflow   {mlflow}")
        _show_password(settings.mlflow / "server")
        _show_experiments(settings, mlflow)
        run_log().log("Ctrl-C stops the servers that were started here")
        _follow_dask(settings.home / "dask.json")
    run_log().log("The servers are stopped")


def _show_password(folder: Path) -> None:
    """Print which file contains user name and password of a server that fkd started."""
    if read_record(folder):
        run_log().log(f"         user and password in {folder / 'server.json'}")


def _show_experiments(settings: Settings, root: str) -> None:
    """Print the MLflow page of each experiment of FKD_HOME."""
    # Imported late: the import takes seconds, and the servers should start at once.
    from tasks.track.run_index import recorded_experiments

    for name, experiment in recorded_experiments(settings).items():
        run_log().log(f"  {name}  {runs_page(root, experiment)}")


@contextmanager
def _mlflow_page(settings: Settings) -> Iterator[str]:
    """Yield the address of the configured MLflow server, or start one."""
    from tasks.track.runs import prepare_stores

    store = tracking_uri(settings)
    if store.startswith(("http://", "https://")):
        yield without_credentials(store)
        return
    prepare_stores(settings)  # an interrupted server would leave a database without all tables
    with mlflow_server(settings) as server:
        yield server.url


def _follow_dask(record: Path) -> None:
    """Print the address of the Dask page whenever a run opens one, until Ctrl-C."""
    shown = dask_page(record)
    run_log().log(f"Dask     {shown or 'is shown here during a run'}")
    while True:
        time.sleep(_POLL)
        page = dask_page(record)
        if page is not None and page != shown:
            run_log().log(f"Dask     {page}")
        shown = page


def dask_page(record: Path) -> str | None:
    """Return the address of the Dask page of the active run, or None."""
    try:
        found = json.loads(record.read_bytes())
        os.kill(int(found["pid"]), 0)
        return str(found["dashboard"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

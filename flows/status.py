"""All runs of an FKD_HOME as a table."""

import time
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.server_status import show_servers
from tasks.adapters.run_status import Status, all_statuses
from tasks.adapters.settings import read_settings

_COLOURS = {"running": "cyan", "finished": "green", "failed": "red", "stopped": "yellow"}
_CAUSES = 5


def show_status() -> None:
    """Print every run of this FKD_HOME: done, failed, remaining, rate, causes; then the servers."""
    settings, console = read_settings(), Console(highlight=False)
    statuses = list(all_statuses(settings))
    if statuses:
        _show_runs(statuses, console)
    else:
        home = escape(str(settings.home))
        console.print(f"No run yet under {home}; start one by `fkd run`.", soft_wrap=True)
    show_servers(settings, console)


def _show_runs(statuses: Sequence[Status], console: Console) -> None:
    """Print one line per run, then why fits failed."""
    # One blank between columns: all of them fit into a terminal of 80 characters.
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
    """Return one run as cells."""
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
    """Return a rate with the digits that matter."""
    return f"{rate:.1f}" if rate < 100 else f"{rate:.0f}"


def _moment(updated: float) -> str:
    """Return the time of today, the day of any other."""
    then, now = time.localtime(updated), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%m-%d", then)

"""The commands that look at new rows with a champion."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from configs.errors import UserError
from flows.address_space import check_address_space
from flows.clearing import clear_leftovers
from flows.log_lines import is_json, write_line
from tasks.adapters.settings import ensure_writable, read_settings
from tasks.watch.watch_values import CROSSED, Watch

Named = Annotated[tuple[str, ...], Parameter(name="--data", consume_multiple=True)]


class BandCrossedError(UserError):
    """New rows are not like the record, and what was fitted to them was not promoted."""

    exit_code = 3


def watch_model(
    model: str,
    /,
    *,
    data: Named = (),
    cron: str | None = None,
    every: float | None = None,
) -> None:
    """Look at new rows with a champion; fit anew where something changed.

    Parameters
    ----------
    model
        The registered model's name, such as crimes.
    data
        New rows: files, patterns in quotes, or keys of the data such as "states=NJ year=2019".
    cron
        Look again by this rhythm until Ctrl-C, such as "0 3 * * 1": Mondays at three, UTC.
    every
        Instead of cron: seconds between two looks.
    """
    check_address_space(run=True)
    clear_leftovers()
    settings = read_settings()
    ensure_writable(settings.home)
    if cron is not None or every is not None:
        from flows.schedule import serve_watch

        serve_watch(model, data, cron=cron, every=every)
        return
    from tasks.watch.batches import read_batches
    from tasks.watch.watched_champion import watched_champion

    # Before a server is started: a mistyped name or file is told at once.
    read_batches(watched_champion(settings, model).config, data)
    from tasks.adapters.servers.prefect_server import prefect_server

    with prefect_server(settings):
        # Prefect reads its settings when it is first imported: only now are they in force.
        from flows.watch import watch

        found = watch(model, list(data))
    _show(found)


def show_history(model: str, /, *, out: Path | None = None) -> None:
    """Write the history of a registered model: champion by champion, drift plotted.

    Parameters
    ----------
    model
        The registered model's name, such as crimes.
    out
        Where the page is written; under FKD_HOME/history if not said.
    """
    from tasks.report.history_page import write_history

    path = write_history(read_settings(), model, out)
    Console(markup=False, highlight=False).print(str(path), soft_wrap=True)


def _show(found: list[Watch]) -> None:
    """Print one line per look; rows that crossed without a successor are exit code 3."""
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
    left = [w for w in found if w.refit is not None and not w.refit.promoted]
    if left:
        raise BandCrossedError(
            f"{', '.join(w.rows_from for w in left)} crossed the band of {left[0].model}, and what "
            "was fitted there is no champion; see above."
        )

"""`fkd watch` on the command line."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from configs.load import read_hooks
from flows.errors import check_address_space
from flows.leftovers import clear_leftovers
from flows.log_lines import is_json, write_line
from flows.monitor import WatchedModel, end_watch
from tasks.monitor.check import CROSSED, Watch
from tasks.storage.settings import ensure_writable, read_settings

Named = Annotated[tuple[str, ...], Parameter(name="--data", consume_multiple=True)]


def watch_model(
    model: str,
    /,
    *,
    data: Named = (),
    cron: str | None = None,
    every: float | None = None,
    hooks: Path | None = None,
    refit: bool = False,
) -> None:
    """Look at new rows with a champion; report whether something changed.

    Parameters
    ----------
    model
        The registered model's name, such as crimes.
    data
        New rows: files, patterns in quotes, or keys of the data such as "states=NJ year=2019";
        "year=next" and "states=next" are the next not looked at.
    cron
        Look again by this rhythm until Ctrl-C, such as "0 3 * * 1": Mondays at three, UTC.
    every
        Instead of cron: seconds between two looks.
    hooks
        A YAML file whose `hooks` are told of every look, such as the configuration of the run.
    refit
        If a band is crossed, refit on the rows of the champion and the new ones. The result is
        registered as a candidate; only a configured gate that it passes makes it the champion.
    """
    check_address_space(run=True)
    clear_leftovers()
    settings = read_settings()
    ensure_writable(settings.home)
    if cron is not None or every is not None:
        from flows.schedule import serve_watch

        serve_watch(model, data, cron=cron, every=every, hooks=hooks, refit=refit)
        return
    watched = WatchedModel(model) if hooks is None else WatchedModel(model, read_hooks(hooks))
    from tasks.monitor.batches import read_batches
    from tasks.monitor.champion import watched_champion

    # Before a server is started: a mistyped name or file is told at once.
    read_batches(watched_champion(settings, model).config, data)
    from flows.ending import failure_told
    from tasks.servers.prefect import prefect_server

    with prefect_server(settings), failure_told([watched]):
        # Prefect reads its settings when it is first imported: only now are they in force.
        from flows.monitor import watch

        found = watch(model, list(data), refit)
    _show(found)
    from tasks.report.history_page import history_path

    end_watch(watched, found, str(history_path(settings, model)))


def _show(found: list[Watch]) -> None:
    """Print one line per look."""
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

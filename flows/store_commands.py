"""Commands for the store: clean it, copy a report from it."""

import re
import time

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from tasks.storage.backends import Entry
from tasks.storage.settings import Settings, ensure_writable, read_settings
from tasks.storage.store import STORE_ID, open_store
from tasks.track.run_index import fetch_run, is_named_by_content, meant_run, referenced, shared_runs
from tasks.track.run_status import all_statuses, read_status

_UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
# A run of another machine that has just begun is known to nobody else yet.
_YOUNG_SECONDS = 86400.0


def clean_store(
    *, older_than: str | None = None, unreferenced: bool = False, dry_run: bool = False
) -> None:
    """Remove from the store what is old, or what no known run refers to; say how much it frees.

    What is removed is computed again where it is asked for. Nothing goes while a run of this
    FKD_HOME is on. Downloads are `fkd data clean`'s.

    Parameters
    ----------
    older_than
        Remove what was written longer ago, such as 30d, 12h or 8w.
    unreferenced
        Remove tables, records and predictions of no known run, older than a day. With
        --older-than only what is both goes.
    dry_run
        Only say what would be removed.
    """
    if older_than is None and not unreferenced:
        raise UserError(
            "say what shall go: --older-than 30d, --unreferenced, or both; --dry-run only tells."
        )
    settings = read_settings()
    least = _seconds(older_than) if older_than else _YOUNG_SECONDS
    _refuse_meanwhile(settings)
    chosen = _chosen(settings, least, unreferenced=unreferenced)
    store, console = open_store(settings), Console(highlight=False, markup=False)
    if not dry_run:
        for entry in chosen:
            store.remove(entry.name)
    size = sum(entry.size for entry in chosen)
    word = "would be removed from" if dry_run else "removed from"
    count = f"{len(chosen)} blob{'' if len(chosen) == 1 else 's'} ({size / 2**20:.1f} MiB)"
    console.print(f"{count} {word} the store {store.backend.address}", soft_wrap=True)


def _chosen(settings: Settings, least: float, *, unreferenced: bool) -> list[Entry]:
    """Return what shall go."""
    if unreferenced:
        least = max(least, _YOUNG_SECONDS)
    before = time.time() - least
    old = [
        entry
        for entry in open_store(settings).entries()
        if entry.changed < before and entry.name != STORE_ID and not entry.name.startswith("locks/")
    ]
    if not unreferenced:
        return old
    wanted, problems = referenced(settings)
    if problems:
        raise UserError(
            f"what runs refer to must be known, but {' '.join(problems)} Remove what is told of "
            "such runs, or choose by --older-than alone."
        )
    return [e for e in old if is_named_by_content(e.name) and e.name not in wanted]


def _refuse_meanwhile(settings: Settings) -> None:
    """Raise while a run needs what is stored."""
    running = [status.name for status in all_statuses(settings) if status.seen == "running"]
    if running:
        raise UserError(
            f"nothing may be removed while a run is on, but {', '.join(running)} is; clean when it "
            "has ended (`fkd status`)."
        )


def _seconds(text: str) -> float:
    """Return a length of time as seconds."""
    found = re.fullmatch(r"(\d+)([hdw])", text.strip())
    if found is None:
        raise UserError(
            f"--older-than must be a number of hours, days or weeks, such as 12h, 30d or 8w, got "
            f"{text!r}."
        )
    return int(found[1]) * _UNITS[found[2]]


def report_from_store(word: str | None) -> None:
    """Bring the report of a run, and all files beside it, from the shared store into this home.

    Parameters
    ----------
    word
        The run's name (the latest; NAME~1 is the one before), or the first digits of its identity.
        If None, the runs of the store are listed, the latest first.
    """
    settings, console = read_settings(), Console(highlight=False)
    if settings.shared is None:
        raise UserError(
            "FKD_STORE must be the address of a shared store for --from-store, but it is not set. "
            f"The runs of this home are in {settings.experiments}."
        )
    found, problems = shared_runs(settings)
    if word is None:
        table = Table("run", "identity", "last run", "files", title="Runs of the store")
        for one in reversed(found):
            cells = one.run.config.name, one.run.identity[:12], one.run.ran, str(len(one.files))
            table.add_row(*map(escape, cells))
        console.print(table)
    else:
        runs = {one.run.identity: one for one in found}
        run = meant_run(settings, [one.run for one in found], word, place=settings.store)
        if run is None:
            names = ", ".join(dict.fromkeys(one.run.config.name for one in reversed(found)))
            raise UserError(
                f"RUN must be a run of the store {settings.store}, got {word!r}. "
                f"Its runs are: {names or 'none'}."
            )
        status = read_status(settings, run.config.name)
        if status is not None and status.seen == "running":
            raise UserError(
                f"The report of {status.name} cannot be replaced while it runs in this home. "
                "Repeat the command when it has ended (`fkd status`)."
            )
        ensure_writable(settings.home)
        folder = fetch_run(settings, runs[run.identity])
        console.print(str(folder / "report.html"), markup=False, soft_wrap=True)
    if problems:
        raise UserError(" ".join(problems))

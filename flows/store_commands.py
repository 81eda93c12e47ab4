"""Commands for stored results: clean the store, copy a report from it, record runs in MLflow."""

import re
import time

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from tasks.report.model import report_data
from tasks.report.narrative import finding_of
from tasks.storage.backends import Entry
from tasks.storage.settings import Settings, ensure_writable, read_settings
from tasks.storage.store import STORE_ID, open_store
from tasks.track.client import TrackingUnreachableError
from tasks.track.recording import record_champion, record_files, record_trials
from tasks.track.run_index import (
    KnownRun,
    all_statuses,
    fetch_run,
    is_named_by_content,
    known_runs,
    meant_run,
    read_status,
    referenced,
    shared_runs,
)

_UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
# A run that another machine has just begun is not yet in any list.
_YOUNG_SECONDS = 86400.0


def clean_store(
    *, older_than: str | None = None, unreferenced: bool = False, dry_run: bool = False
) -> None:
    """Remove old or unused results from the store and print how much space that frees.

    Removed results are computed again when a run needs them. Nothing is removed while a run of
    this FKD_HOME is active. `fkd data clean` removes downloads.

    Parameters
    ----------
    older_than
        Remove results older than, for instance, 30d, 12h or 8w.
    unreferenced
        Remove tables, records and predictions that no known run uses, older than a day. With
        --older-than, both conditions must hold.
    dry_run
        Print how much would be removed, remove nothing.
    """
    if older_than is None and not unreferenced:
        raise UserError(
            "fkd clean needs --older-than, such as --older-than 30d, or --unreferenced, or both."
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
    """Return the entries to remove."""
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
            f"--unreferenced needs the settings of all runs, but {' '.join(problems)} Remove the "
            "folders of such runs, or use --older-than alone."
        )
    return [e for e in old if is_named_by_content(e.name) and e.name not in wanted]


def _refuse_meanwhile(settings: Settings) -> None:
    """Raise a UserError while a run is active."""
    running = [status.name for status in all_statuses(settings) if status.seen == "running"]
    if running:
        raise UserError(
            f"fkd clean must not run beside a run, but {', '.join(running)} is active. Repeat the "
            "command when it has ended (`fkd status`)."
        )


def _seconds(text: str) -> float:
    """Return a duration in seconds."""
    found = re.fullmatch(r"(\d+)([hdw])", text.strip())
    if found is None:
        raise UserError(
            f"--older-than must be a number of hours, days or weeks, such as 12h, 30d or 8w, got "
            f"{text!r}."
        )
    return int(found[1]) * _UNITS[found[2]]


def report_from_store(word: str | None) -> None:
    """Copy the report of a run and its files from the shared store to FKD_HOME.

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


def sync_all() -> None:
    """Record every run of this FKD_HOME in MLflow. Existing records stay as they are.

    Runs of one name with different settings or rows are separate runs. Runs that cannot be opened,
    because their rows or settings are gone, are named at the end.
    """
    settings = read_settings()
    runs, problems = known_runs(settings)
    if not runs and not problems:
        raise UserError(f"There is nothing to record under {settings.experiments}.")
    for run in runs:
        try:
            _sync(run, settings)
        except TrackingUnreachableError:
            raise  # the next run would fail too
        except UserError as error:
            problems.append(f"{run.config.name}: {error}")
    if problems:
        raise UserError(" ".join(problems))


def _sync(run: KnownRun, settings: Settings) -> None:
    """Record one run and print how many of its trials were new."""
    study = run.open(settings)
    added = record_trials(study, afterwards=True)
    note = ""
    if study.missing():
        note = " (the run is not finished, so that there is no champion)"
    else:
        record_champion(study, finding_of(report_data(study, curves=False)), ran=run.ran)
        record_files(study)
    Console(highlight=False).print(
        f"{study.config.name}: {added} new trial runs{note}", markup=False, soft_wrap=True
    )

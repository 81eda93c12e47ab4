"""Commands for stored results: compare, check, clean, copy a report, record runs in MLflow."""

import math
import re
import time
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from fkd.measures import REPORTED
from tasks.report.model import report_data
from tasks.report.narrative import finding_of
from tasks.select.checks import CheckOutcome, check_study
from tasks.select.results import MAE
from tasks.select.study import Study
from tasks.storage.settings import Settings, ensure_writable, read_settings
from tasks.storage.store import STORE_ID, open_store
from tasks.track.client import TrackingUnreachableError
from tasks.track.compare import (
    Difference,
    PairedTrial,
    code_differences,
    config_differences,
    data_differences,
    paired_trials,
)
from tasks.track.recording import record_champion, record_files, record_trials
from tasks.track.run_index import (
    KnownRun,
    all_statuses,
    fetch_run,
    find_study,
    identity_of,
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
    running = [status.name for status in all_statuses(settings) if status.seen == "running"]
    if running:
        raise UserError(
            f"fkd clean must not run beside a run, but {', '.join(running)} is active. Repeat the "
            "command when it has ended (`fkd status`)."
        )
    if unreferenced:
        least = max(least, _YOUNG_SECONDS)
    store, console = open_store(settings), Console(highlight=False, markup=False)
    before = time.time() - least
    chosen = [
        entry
        for entry in store.entries()
        if entry.changed < before and entry.name != STORE_ID and not entry.name.startswith("locks/")
    ]
    if unreferenced:
        used, problems = referenced(settings)
        if problems:
            raise UserError(
                f"--unreferenced needs the settings of all runs, but {' '.join(problems)} Remove "
                "the folders of such runs, or use --older-than alone."
            )
        chosen = [e for e in chosen if is_named_by_content(e.name) and e.name not in used]
    if not dry_run:
        for entry in chosen:
            store.remove(entry.name)
    size = sum(entry.size for entry in chosen)
    word = "would be removed from" if dry_run else "removed from"
    count = f"{len(chosen)} blob{'' if len(chosen) == 1 else 's'} ({size / 2**20:.1f} MiB)"
    console.print(f"{count} {word} the store {store.backend.address}", soft_wrap=True)


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


_COLOURS = {
    CheckOutcome.PASSED: "green",
    CheckOutcome.ISSUE: "bold red",
    CheckOutcome.TIP: "yellow",
    CheckOutcome.NOT_APPLICABLE: "dim",
    CheckOutcome.SKIPPED: "dim",
}


class IssueFoundError(UserError):
    """A check found an issue in a finished run."""

    exit_code = 3


def show_checks(study: Study) -> None:
    """Print the checks of a finished run; raise an error with exit code 3 if one finds an issue."""
    results = check_study(study)
    console = Console(highlight=False)
    for result in results:
        colour = _COLOURS[result.outcome]
        console.print(
            f"[bold]{result.check.code}[/bold] {escape(result.check.title)}: "
            f"[{colour}]{result.outcome}[/{colour}]"
        )
        console.print(f"   {escape(result.message)}", soft_wrap=True)
        if result.outcome in (CheckOutcome.ISSUE, CheckOutcome.TIP):
            console.print(f"   [dim]{escape(result.check.explanation)}[/dim]", soft_wrap=True)
            console.print(f"   [dim]{result.check.address}[/dim]")
    outcomes = [result.outcome for result in results]
    counts = [f"{outcomes.count(one)} {one}" for one in CheckOutcome if one in outcomes]
    console.print(f"checks: {', '.join(counts)}")
    issues = [result for result in results if result.outcome is CheckOutcome.ISSUE]
    if issues:
        codes = ", ".join(result.check.code for result in issues)
        raise IssueFoundError(f"Checks of {study.config.name} found issues: {codes}. See above.")


def compare_runs(first: str, second: str, /, *, most: int = 12) -> None:
    """Show the differences between two runs: settings, rows, code, numbers.

    Parameters
    ----------
    first, second
        A YAML file, the name of a run of this home (NAME~1 for the run before the latest), the
        first digits of its identity, its id in MLflow, its report, or a shipped configuration.
    most
        Largest number of common trials to compare, champions first.
    """
    if most < 1:
        raise UserError(f"--most must be at least 1, got {most}.")
    settings = read_settings()
    studies = [find_study(settings, word) for word in (first, second)]
    console = Console(highlight=False)
    for letter, study in zip("AB", studies, strict=True):
        console.print(
            f"[bold]{letter}[/bold] {escape(study.config.name)} {identity_of(study)[:12]}, "
            f"{len(study.results())} of {len(study.trials)} trials stored"
        )
    _show_differences(console, "Settings", config_differences(*studies))
    _show_differences(console, "Rows", data_differences(*studies))
    _show_differences(console, "Code", code_differences(*studies))
    _show_numbers(console, studies, most)


def _show_differences(console: Console, title: str, found: Sequence[Difference]) -> None:
    """Print differences, or that there are none."""
    if not found:
        console.print(f"[bold]{title}[/bold]: the same")
        return
    table = Table("", "A", "B", title=title, title_justify="left")
    for difference in found:
        table.add_row(*map(escape, (difference.what, difference.first, difference.second)))
    console.print(table)


def _show_numbers(console: Console, studies: Sequence[Study], most: int) -> None:
    """Print scores of common trials, with intervals if both runs have the same rows."""
    pairs, reason = paired_trials(*studies, most=most)
    if not pairs:
        console.print("[bold]Numbers[/bold]: no trial is stored in both runs.")
        return
    same = [pair for pair in pairs if pair.same]
    other = [pair for pair in pairs if not pair.same]
    for pair in other:
        title = f"Numbers, {escape(pair.title)}"
        table = Table("", "A", "B", "B − A", title=title, title_justify="left")
        for cells in _cells(pair):
            table.add_row(*map(escape, cells))
        console.print(table)
    if other:
        how = (
            f"Means over folds, without intervals: {reason}."
            if reason
            else "On all tested rows, B − A with a 95 % interval. Means over folds if predictions "
            "were not kept."
        )
        console.print(how, soft_wrap=True)
    if same:
        titles = ", ".join(pair.title for pair in same)
        console.print(escape(f"Both runs use the same stored fits of: {titles}."), soft_wrap=True)


def _cells(pair: PairedTrial) -> list[tuple[str, str, str, str]]:
    """Return the cells of one row per measure; the error has one row."""
    rows = []
    for i, (column, found) in enumerate(pair.means.items()):
        for measure, (first, second) in found.items():
            if measure == MAE and i:
                continue
            name = "MAE" if measure == MAE else f"{REPORTED[measure].label} {column}"
            change = f"{second - first:+.4f}"
            if math.isnan(second - first):
                a, b = ("undefined" if math.isnan(x) else f"{x:.4f}" for x in (first, second))
                rows.append((name, a, b, "undefined"))
                continue
            known = () if pair.scores is None else pair.scores[0].measures[column]
            if pair.scores is not None and (measure == MAE or measure in known):
                after, before, both = (
                    scores.mae if measure == MAE else scores.measures[column][measure]
                    for scores in pair.scores
                )
                first, second = before[0], after[0]
                change = f"{both[0]:+.4f} ({both[1]:+.4f} to {both[2]:+.4f})"
            rows.append((name, f"{first:.4f}", f"{second:.4f}", change))
    return rows

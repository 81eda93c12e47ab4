"""The command that says how two runs differ."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from fkd.measures import REPORTED
from tasks.adapters.settings import read_settings
from tasks.study.known_runs import identity_of
from tasks.study.named_runs import find_study
from tasks.study.opening import Study
from tasks.study.results import MAE
from tasks.study.run_differences import (
    Difference,
    PairedTrial,
    code_differences,
    config_differences,
    data_differences,
    paired_trials,
)


def compare_runs(first: str, second: str, /, *, most: int = 12) -> None:
    """Say what differs between two runs: settings, rows, code, numbers.

    Parameters
    ----------
    first, second
        A YAML file, the name of a run of this home (the latest; NAME~1 is the one before), the
        first digits of its identity, its id in MLflow, its report, or a shipped configuration.
    most
        So many trials that both have are compared, champions first.
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
    _show(console, "Settings", config_differences(*studies))
    _show(console, "Rows", data_differences(*studies))
    _show(console, "Code", code_differences(*studies))
    _show_numbers(console, studies, most)


def _show(console: Console, title: str, found: Sequence[Difference]) -> None:
    """Print what differs, or that nothing does."""
    if not found:
        console.print(f"[bold]{title}[/bold]: the same")
        return
    table = Table("", "A", "B", title=title, title_justify="left")
    for difference in found:
        table.add_row(*map(escape, (difference.what, difference.first, difference.second)))
    console.print(table)


def _show_numbers(console: Console, studies: Sequence[Study], most: int) -> None:
    """Print numbers of what both runs have, with intervals where the rows are the same."""
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
            else "On all tested rows, B − A with a 95 % interval, row by row; means over folds "
            "where predictions were not kept."
        )
        console.print(how, soft_wrap=True)
    if same:
        titles = ", ".join(pair.title for pair in same)
        console.print(escape(f"One and the same stored fit in both: {titles}."), soft_wrap=True)


def _cells(pair: PairedTrial) -> list[tuple[str, str, str, str]]:
    """Return one row per measure, the error once."""
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

"""The few numbers at the head of a report."""

import itertools
from dataclasses import dataclass

from fkd.measures import REPORTED
from tasks.report.contents import ReportData, ReportedInterval, SensitiveColumn
from tasks.report.effect import Comparison, compare, effect_of
from tasks.report.words import MAE_DECIMALS, change, has_own_unit, in_unit, shown


@dataclass(frozen=True)
class Tile:
    """One number with what it was before."""

    title: str
    value: str
    change: str  # what it was before, how much of the change is more than noise


def tiles_of(report: ReportData) -> tuple[Tile, ...]:
    """Return error, then the measures on every column; none without a comparison."""
    comparison = compare(report)
    if not comparison:
        return ()
    measures = [_measures(report, column, comparison) for column in report.columns]
    return (_error(report, comparison), *itertools.chain.from_iterable(measures))


def _error(report: ReportData, comparison: Comparison) -> Tile:
    """Return the error, in the target's own unit where it has one."""
    before, after = comparison.before.mae.value, comparison.after.mae.value
    if has_own_unit(report.target):
        words = in_unit(after, report.target), in_unit(before, report.target)
    else:
        words = shown(after, MAE_DECIMALS), shown(before, MAE_DECIMALS)
    changed = _changed(change(before, after), words[1], comparison.changes.mae)
    return Tile("Mean absolute error", words[0], changed)


def _measures(report: ReportData, column: SensitiveColumn, comparison: Comparison) -> list[Tile]:
    """Return the measures on one column."""
    name = column.name
    before, after = comparison.before.scores[name], comparison.after.scores[name]
    return [
        Tile(
            f"{info.label}, {info.title if len(report.columns) == 1 else column.words}",
            shown(after[measure].value, info.decimals),
            _changed(
                change(before[measure].value, after[measure].value),
                shown(before[measure].value, info.decimals),
                comparison.changes.scores[name][measure],
            ),
        )
        for measure, info in REPORTED.items()
        if measure in comparison.changes.scores[name]
    ]


def _changed(percent: str, before: str, found: ReportedInterval) -> str:
    """Return the change in words; a direction is named only where there is one."""
    effect = effect_of(found)
    if effect in ("fell", "rose"):
        return f"{effect} {percent}, from {before}".replace("fell −", "fell ").replace("+", "")
    return f"within noise of {before}"

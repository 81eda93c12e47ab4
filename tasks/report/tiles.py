"""The few numbers at the head of a report."""

import itertools
from dataclasses import dataclass

from tasks.report.contents import ReportData, SensitiveColumn
from tasks.report.text import Comparison, compare
from tasks.report.words import MAE_DECIMALS, MEASURES, change, has_own_unit, in_unit, shown


@dataclass(frozen=True)
class Tile:
    """One number with what it was before."""

    title: str
    value: str
    before: str
    change: str


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
    return Tile("Mean absolute error", *words, change(before, after))


def _measures(report: ReportData, column: SensitiveColumn, comparison: Comparison) -> list[Tile]:
    """Return the drawn measures on one column."""
    name = column.name
    before, after = comparison.before.scores[name], comparison.after.scores[name]
    return [
        Tile(
            f"{info.label}, {info.title if len(report.columns) == 1 else name}",
            shown(after[measure].value, info.decimals),
            shown(before[measure].value, info.decimals),
            change(before[measure].value, after[measure].value),
        )
        for measure, info in MEASURES.items()
        if info.drawn and measure in before and measure in after
    ]

"""The chosen model within groups of the control columns, as tables with a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass

from fkd.measures import MEASURES
from tasks.report.contents import ReportData, ReportedInterval
from tasks.report.tables import Grid, TableCell, TableRow
from tasks.report.words import ABSENT, count, joined, shown, with_interval
from tasks.study.within import CHOSEN, REFERENCE, GroupedScore

Scores = Mapping[str, Mapping[str, GroupedScore]]  # by measure, then model


@dataclass(frozen=True)
class WithinTable:
    """The numbers on one sensitive column, with what must be said beside them."""

    column: str  # in words
    grid: Grid
    notes: tuple[str, ...]


def within_tables(report: ReportData) -> tuple[WithinTable, ...]:
    """Return one table per measured column; none where no control columns were named."""
    if not report.within:
        return ()
    models = _models(report)
    return tuple(
        WithinTable(
            column.words,
            _grid(report.within.scores[column.name], models),
            (
                *_left_out(report.within.scores[column.name]),
                *_floors(report.within.noise[column.name]),
                *(
                    f"{MEASURES[name].label} could not be taken: {why}."
                    for name, why in report.within.problems[column.name].items()
                ),
            ),
        )
        for column in report.columns
    )


def within_sentence(report: ReportData) -> str:
    """Return the dependence within groups, by a measure in units of the prediction if possible."""
    if not report.within:
        return ""
    told = []
    for column in report.columns:
        scores = report.within.scores[column.name]
        if not scores:
            told.append(f"the dependence on {column.words} could not be measured")
            continue
        in_units = (name for name in scores if MEASURES[name].unit == "prediction")
        name = next(in_units, next(iter(scores)))
        told.append(f"{MEASURES[name].label} on {column.words} is {_both(scores, name, report)}")
    return f"Within groups of {joined(report.control)}, {'; '.join(told)}."


def _both(scores: Scores, name: str, report: ReportData) -> str:
    """Return a mean over groups, with that of nothing removed and the number of groups left out."""
    numbers = {model: _mean(scores[name][model], name) for model in _models(report)}
    before = f", with nothing removed {numbers[REFERENCE]}" if REFERENCE in numbers else ""
    score = scores[name][CHOSEN]
    out = len(score.left_out)
    groups = len(score.groups) + out
    left = f", {out} of {groups} groups left out" if out else f" over {groups} groups"
    return f"{numbers[CHOSEN]} on average{left}{before}"


def _models(report: ReportData) -> tuple[str, ...]:
    """Return which models stand side by side: a chosen one that removes nothing, alone."""
    alone = report.chosen is None or report.chosen.removes_nothing
    known = {
        model
        for found in (report.within.scores.values() if report.within else ())
        for models in found.values()
        for model in models
    }
    return (CHOSEN,) if alone or REFERENCE not in known else (CHOSEN, REFERENCE)


def _grid(scores: Scores, models: tuple[str, ...]) -> Grid:
    """Return groups, their mean, all rows; each measure of each model in a column."""
    pairs = [(name, model) for name in MEASURES if name in scores for model in models]
    headings = (
        "Group",
        "Rows",
        *(
            MEASURES[name].label + (", nothing removed" if model == REFERENCE else "")
            for name, model in pairs
        ),
    )
    groups = dict.fromkeys(
        (label, rows) for name, model in pairs for label, rows, _ in scores[name][model].groups
    )
    if not groups:
        return Grid(headings, ())
    found = [(name, scores[name][model]) for name, model in pairs]
    lines = [
        _row(label, rows, [_value(score, label, rows, name) for name, score in found])
        for label, rows in groups
    ]
    measured = sum(rows for _, rows in groups)
    lines.append(_row("Mean by rows", measured, [_mean(score, name) for name, score in found]))
    overall = [shown(score.overall, MEASURES[name].decimals) for name, score in found]
    every = measured + sum(rows for label, rows, _ in _out(scores) if (label, rows) not in groups)
    lines.append(_row("All rows at once", every, overall))
    return Grid(headings, tuple(lines))


def _row(label: str, rows: int, texts: list[str]) -> TableRow:
    """Return one line."""
    return TableRow((TableCell(label), TableCell(count(rows)), *map(TableCell, texts)))


def _value(score: GroupedScore, label: str, rows: int, name: str) -> str:
    """Return one group's number, a dash where the measure left it out."""
    for own, size, value in score.groups:
        if (own, size) == (label, rows):
            return shown(value, MEASURES[name].decimals)
    return ABSENT


def _mean(score: GroupedScore, name: str) -> str:
    """Return the mean over groups with its interval."""
    return with_interval(ReportedInterval(*score.mean), MEASURES[name].decimals)


def _out(scores: Scores) -> dict[tuple[str, int, str], list[str]]:
    """Return the groups left out with the reason, and by which measures."""
    found: dict[tuple[str, int, str], list[str]] = {}
    for name, models in scores.items():
        for group in models[CHOSEN].left_out:
            found.setdefault(group, []).append(MEASURES[name].label)
    return found


def _left_out(scores: Scores) -> tuple[str, ...]:
    """Return one sentence that names every group left out, none where all were measured."""
    told = [
        f"{label} ({count(rows)} rows: {why}"
        + (")" if len(labels) == len(scores) else f", for {joined(labels)})")
        for (label, rows, why), labels in _out(scores).items()
    ]
    noun = "group" if len(told) == 1 else "groups"
    return (f"Left out: {count(len(told))} {noun}: {'; '.join(told)}.",) if told else ()


def _floors(noise: Mapping[str, float]) -> tuple[str, ...]:
    """Return the noise floor of each measure in groups of these sizes."""
    return tuple(
        f"In groups of these sizes independent columns would have {label} of about {floor:.2f}, "
        f"more than on all rows at once: compare {label} between models, not groups with all rows."
        for label, floor in ((MEASURES[name].label, floor) for name, floor in noise.items())
    )

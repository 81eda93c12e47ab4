"""Fill the tables of a report: trials, the chosen model, dependence within groups."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fkd.measures import MEASURES, REPORTED
from fkd.measures.pareto import non_dominated
from tasks.report.html import (
    ABSENT,
    MAE_DECIMALS,
    count,
    duration,
    has_own_unit,
    joined,
    params_text,
    shown,
    strength_text,
    unit_decimals,
    with_interval,
    with_std,
    with_std_in_unit,
)
from tasks.report.model import ChampionSummary, Estimate, ReportData, SensitiveColumn
from tasks.select.groups import CHOSEN, REFERENCE, GroupedScore
from tasks.select.judgement import DRAWS


@dataclass(frozen=True)
class Cell:
    """The text of a cell. `value` sorts it; without a value the text does."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    cells: tuple[Cell, ...]
    chosen: bool = False

    @classmethod
    def from_texts(cls, *texts: str, chosen: bool = False) -> "Row":
        """Return a row of cells without values."""
        return cls(tuple(map(Cell, texts)), chosen)


@dataclass(frozen=True)
class Table:
    """Headings and rows, with a caption and the notes below it."""

    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    notes: tuple[str, ...] = ()


def trial_table(report: ReportData) -> Table:
    """Return one row per trial: mean ± standard deviation over folds."""
    trials, own_unit = report.trials, has_own_unit(report.target)
    columns = [
        (
            "Method",
            [Cell(one.label + " †" * one.needs_sensitive + " ‡" * one.searched) for one in trials],
        ),
        ("Strength", [Cell(strength_text(one) or ABSENT, one.strength) for one in trials]),
        ("MAE", [Cell(with_std(one.mae, MAE_DECIMALS), one.mae.mean) for one in trials]),
    ]
    if own_unit:
        texts = [with_std_in_unit(one.mae, report.target) for one in trials]
        cells = [Cell(text, one.mae.mean) for text, one in zip(texts, trials, strict=True)]
        columns.append((f"MAE in {report.target.unit}", cells))
    fronts: dict[str, list[str]] = {one.key: [] for one in trials}
    for column, measure in itertools.product(report.columns, REPORTED.values()):
        scores = [one.scores[column.name].get(measure.name) for one in trials]
        if any(scores):
            several = len(report.columns) > 1
            heading = f"{measure.label}, {column.text}" if several else measure.label
            cells = [
                Cell(with_std(score, measure.decimals), score.mean) if score else Cell("undefined")
                for score in scores
            ]
            columns.append((heading, cells))
            for key in front_of(report, column.name, measure.name):
                fronts[key].append(heading)
    found = fronts.values()
    columns.append(("On front of", [Cell(", ".join(one) or ABSENT, -len(one)) for one in found]))
    folds_differ = len({one.folds for one in trials}) > 1
    if folds_differ:
        columns.append(("Folds", [Cell(str(one.folds), one.folds) for one in trials]))
    columns.append(("Time", [Cell(duration(one.seconds), one.seconds) for one in trials]))
    headings, cell_columns = zip(*columns, strict=True)
    rows = tuple(
        Row(tuple(cells), one == report.chosen)
        for one, *cells in zip(trials, *cell_columns, strict=True)
    )
    folds = "" if folds_differ or not rows else f"{report.trials[0].folds} "
    caption = f"Mean ± standard deviation over {folds}folds. Press a heading to sort."
    if report.champion:
        caption += " The chosen model is highlighted."
    if any(trial.searched for trial in report.trials):
        caption += (
            " ‡ parameters searched on rows that most folds test on: these means are slightly "
            "optimistic."
        )
    return Table(headings, rows, caption)


def front_of(report: ReportData, column: str, measure: str) -> list[str]:
    """Return the keys of the trials on the Pareto front of error and a measure."""
    known = [trial for trial in report.trials if trial.is_known(column, measure)]
    if not known:
        return []
    mask = non_dominated([(one.mae.mean, one.scores[column][measure].mean) for one in known])
    return [trial.key for trial, best in zip(known, mask, strict=True) if best]


def parameters_of(report: ReportData) -> dict[str, list[str]]:
    """Return the parameters of the trials without their strengths, by method."""
    found: dict[str, list[str]] = {}
    for trial in report.trials:
        text = params_text(trial)
        if text and text not in found.setdefault(trial.label, []):
            found[trial.label].append(text)
    return {label: settings for label, settings in found.items() if settings}


def champion_table(report: ReportData, champion: ChampionSummary) -> Table:
    """Return the champion's numbers on held-out rows, beside those with nothing removed."""
    judged = champion.judgement
    sides, headings = [judged.held_out], ["Measure", "Chosen model"]
    # The reference of a model that removes nothing is the model itself.
    if judged.reference and report.chosen and not report.chosen.removes_nothing:
        sides += [judged.reference, *([judged.changes] if judged.changes else [])]
        headings += ["Nothing removed", "Change"]

    def row(label: str, found: Sequence[Estimate | None], decimals: int) -> Row:
        texts = [ABSENT if one is None else with_interval(one, decimals) for one in found]
        return Row.from_texts(label, *texts, *[ABSENT] * (len(headings) - 1 - len(texts)))

    rows = [row("MAE", [side.mae for side in sides], MAE_DECIMALS)]
    if has_own_unit(report.target):
        scale, unit = report.target.scale, report.target.unit
        own = [(v * scale, low * scale, high * scale) for v, low, high in (s.mae for s in sides)]
        rows.append(row(f"MAE in {unit}", own, unit_decimals(own[0][0])))
    for column in report.columns:
        found = [side.measures[column.name] for side in sides]
        rows += [
            row(f"{measure.label} on {column.text}", [f.get(name) for f in found], measure.decimals)
            for name, measure in REPORTED.items()
            if name in found[0]
        ]
    caption = (
        "The chosen model on held-out rows, in brackets the 95 % "
        f"interval (from {DRAWS} random quarters of the held-out rows)."
    )
    return Table(tuple(headings), tuple(rows), caption)


def probe_table(report: ReportData, column: SensitiveColumn) -> Table:
    """Return how well probes predict a column from the features, before and after the removal."""
    recovered = report.champion.judgement.recovered if report.champion else ()
    rows = tuple(
        Row.from_texts(row.probe, shown(row.before, 3), shown(row.after, 3))
        for row in recovered
        if row.column == column.name
    )
    caption = (
        f"Held-out R² of {column.text}: 1 is full recovery, 0 or less is no better than predicting "
        "the mean."
    )
    return Table(("Probe", "Before removal", "After removal"), rows, caption)


Scores = Mapping[str, Mapping[str, GroupedScore]]  # by measure, then model


def within_tables(report: ReportData) -> tuple[Table, ...]:
    """Return one table per measured column: dependence within groups of the control columns."""
    if not report.within or not report.champion:
        return ()
    ranged = [m.label for m in REPORTED.values() if m.group_options.get("margins") == "range"]
    tables = []
    for column in report.columns:
        scores = report.within.scores[column.name]
        caption = (
            f"Dependence on {column.text} within groups of {joined(report.control)}. The mean "
            f"weights each group by its rows, in brackets its 95 % "
            "interval (from random quarters of each group)."
        )
        if ranged:
            caption += f" {joined(ranged)} scales the column by its range in the rows of a group."
        noise = (
            (MEASURES[name].label, floor)
            for name, floor in report.within.noise[column.name].items()
        )
        notes = (
            *_left_out(scores),
            *(
                f"In groups of these sizes independent columns have a mean {label} of about "
                f"{floor:.2f}, more than on all rows. Compare {label} between models, not between "
                "groups and all rows."
                for label, floor in noise
            ),
            *(
                f"{MEASURES[name].label} could not be computed: {reason}."
                for name, reason in report.within.problems[column.name].items()
            ),
        )
        headings, rows = _group_rows(scores, compared_models(report))
        tables.append(Table(headings, rows, caption, notes))
    return tuple(tables)


def compared_models(report: ReportData) -> tuple[str, ...]:
    """Return the models within groups: a chosen model that removes nothing has no reference."""
    scores = report.within.scores.values() if report.within else ()
    known = {model for found in scores for models in found.values() for model in models}
    alone = report.chosen is None or report.chosen.removes_nothing or REFERENCE not in known
    return (CHOSEN,) if alone else (CHOSEN, REFERENCE)


def _group_rows(scores: Scores, models: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Return headings and rows of groups, their mean and all rows."""
    measures = [measure for name, measure in MEASURES.items() if name in scores]
    found = [(m.decimals, scores[m.name][model]) for m in measures for model in models]
    headings = ["Group", "Rows"]
    for measure in measures:
        headings.append(measure.label)
        headings += [f"{measure.label}, nothing removed"] * (len(models) - 1)
    groups = dict.fromkeys((label, n) for _, score in found for label, n, _ in score.groups)
    if not groups:
        return tuple(headings), ()
    rows = []
    for label, n in groups:
        texts = [
            next((shown(v, decimals) for *own, v in score.groups if own == [label, n]), ABSENT)
            for decimals, score in found
        ]
        rows.append(Row.from_texts(label, count(n), *texts))
    measured = sum(n for _, n in groups)
    every = measured + sum(n for label, n, _ in _excluded(scores) if (label, n) not in groups)
    means = (with_interval(score.mean, decimals) for decimals, score in found)
    overall = (shown(score.overall, decimals) for decimals, score in found)
    rows.append(Row.from_texts("Mean by rows", count(measured), *means))
    rows.append(Row.from_texts("All rows at once", count(every), *overall))
    return tuple(headings), tuple(rows)


def _excluded(scores: Scores) -> dict[tuple[str, int, str], list[str]]:
    """Return the excluded groups with the reason, each with the measures that exclude it."""
    found: dict[tuple[str, int, str], list[str]] = {}
    for name, models in scores.items():
        for group in models[CHOSEN].left_out:
            found.setdefault(group, []).append(MEASURES[name].label)
    return found


def _left_out(scores: Scores) -> tuple[str, ...]:
    """Return one sentence with every excluded group, none if all were measured."""
    texts = [
        f"{label} ({count(rows)} rows: {reason}"
        + (")" if len(labels) == len(scores) else f", for {joined(labels)})")
        for (label, rows, reason), labels in _excluded(scores).items()
    ]
    noun = "group" if len(texts) == 1 else "groups"
    return (f"Left out: {count(len(texts))} {noun}: {'; '.join(texts)}.",) if texts else ()

"""Fill the tables of a report: trials, the chosen model, dependence within groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fkd.measures import MEASURES, REPORTED
from fkd.measures.pareto import non_dominated
from tasks.report.formatting import (
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
from tasks.report.model import ChampionSummary, Estimate, ReportData, TrialSummary
from tasks.select.groups import CHOSEN, REFERENCE, GroupedScore


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
    pairs, fronts = _measured_pairs(report), _fronts(report)
    own_unit = has_own_unit(report.target)
    folds_differ = len({trial.folds for trial in report.trials}) > 1
    headings = (
        "Method",
        "Strength",
        "MAE",
        *([f"MAE in {report.target.unit}"] if own_unit else []),
        *(_heading(report, column, measure) for column, measure in pairs),
        "On front of",
        *(["Folds"] if folds_differ else []),
        "Time",
    )
    rows = []
    for trial in report.trials:
        mae, scores = trial.mae, [(m, trial.scores[column].get(m)) for column, m in pairs]
        cells = (
            Cell(trial.label + " †" * trial.needs_sensitive + " ‡" * trial.searched),
            Cell(strength_text(trial) or ABSENT, trial.strength),
            Cell(with_std(mae, MAE_DECIMALS), mae.mean),
            *([Cell(with_std_in_unit(mae, report.target), mae.mean)] if own_unit else []),
            *(
                Cell(with_std(score, REPORTED[measure].decimals), score.mean)
                if score
                else Cell("undefined")
                for measure, score in scores
            ),
            Cell(", ".join(fronts[trial.key]) or ABSENT, -len(fronts[trial.key])),
            *([Cell(str(trial.folds), trial.folds)] if folds_differ else []),
            Cell(duration(trial.seconds), trial.seconds),
        )
        rows.append(Row(cells, trial == report.chosen))
    caption = [
        f"Mean ± standard deviation over {'' if folds_differ else f'{report.trials[0].folds} '}"
        "folds. Press a heading to sort."
        if report.trials
        else ""
    ]
    if report.champion:
        caption.append("The chosen model is highlighted.")
    if any(trial.searched for trial in report.trials):
        caption.append(
            "‡ parameters searched on rows that most folds test on: these means are slightly "
            "optimistic."
        )
    return Table(headings, tuple(rows), " ".join(caption))


def parameters_of(report: ReportData) -> dict[str, list[str]]:
    """Return the parameters of the trials without their strengths, by method."""
    found: dict[str, list[str]] = {}
    for trial in report.trials:
        text = params_text(trial)
        if text and text not in found.setdefault(trial.label, []):
            found[trial.label].append(text)
    return {label: settings for label, settings in found.items() if settings}


def on_front(trials: Sequence[TrialSummary], column: str, measure: str) -> dict[str, bool]:
    """Return for each trial with both numbers whether it is on the Pareto front, by key."""
    known = [trial for trial in trials if trial.is_known(column, measure)]
    if not known:
        return {}
    mask = non_dominated([(t.mae.mean, t.scores[column][measure].mean) for t in known])
    return {trial.key: bool(best) for trial, best in zip(known, mask, strict=True)}


def _fronts(report: ReportData) -> dict[str, list[str]]:
    """Return the fronts that a trial is on, by key."""
    found: dict[str, list[str]] = {trial.key: [] for trial in report.trials}
    for column, measure in _measured_pairs(report):
        for key, best in on_front(report.trials, column, measure).items():
            if best:
                found[key].append(_heading(report, column, measure))
    return found


def _measured_pairs(report: ReportData) -> list[tuple[str, str]]:
    """Return column and measure of all numbers that at least one trial has."""
    return [
        (column.name, measure)
        for column in report.columns
        for measure in REPORTED
        if any(measure in trial.scores[column.name] for trial in report.trials)
    ]


def _heading(report: ReportData, column: str, measure: str) -> str:
    """Return the label of a measure, with the column if there are several."""
    label = REPORTED[measure].label
    return label if len(report.columns) == 1 else f"{label}, {report.titles[column]}"


def champion_table(report: ReportData, champion: ChampionSummary) -> Table:
    """Return the champion's numbers on held-out rows, beside those with nothing removed."""
    if report.trial(champion.trial).removes_nothing:  # its reference is the model itself
        champion = replace(champion, reference=None, changes=None)
    sides = [champion.held_out]
    headings = ["Measure", "Chosen model"]
    if champion.reference:
        sides += [champion.reference, *([champion.changes] if champion.changes else [])]
        headings += ["Nothing removed", "Change"]
    rows = [_estimates("MAE", [side.mae for side in sides], MAE_DECIMALS, headings)]
    if has_own_unit(report.target):
        scale, unit = report.target.scale, report.target.unit
        own = [(v * scale, low * scale, high * scale) for v, low, high in (s.mae for s in sides)]
        rows.append(_estimates(f"MAE in {unit}", own, unit_decimals(own[0][0]), headings))
    for column in report.columns:
        found = [side.measures.get(column.name, {}) for side in sides]
        for name, measure in REPORTED.items():
            if name in found[0]:
                label = f"{measure.label} on {column.text}"
                known = [side.get(name) for side in found]
                rows.append(_estimates(label, known, measure.decimals, headings))
    caption = (
        "The chosen model on held-out rows, in brackets the 95 % "
        f"interval ({champion.interval_method})."
    )
    return Table(tuple(headings), tuple(rows), caption)


def _estimates(
    label: str, found: Sequence[Estimate | None], decimals: int, headings: Sequence[str]
) -> Row:
    """Return a row of numbers with their intervals, filled up with dashes."""
    texts = [ABSENT if one is None else with_interval(one, decimals) for one in found]
    return Row.from_texts(label, *texts, *[ABSENT] * (len(headings) - 1 - len(texts)))


def within_tables(report: ReportData) -> tuple[Table, ...]:
    """Return one table per measured column: dependence within groups of the control columns."""
    if not report.within or not report.champion:
        return ()
    models = _models(report)
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
        notes = (
            *_left_out(scores),
            *(
                f"In groups of these sizes independent columns have a mean {label} of about "
                f"{floor:.2f}, more than on all rows. Compare {label} between models, not between "
                "groups and all rows."
                for label, floor in (
                    (MEASURES[name].label, floor)
                    for name, floor in report.within.noise[column.name].items()
                )
            ),
            *(
                f"{MEASURES[name].label} could not be computed: {reason}."
                for name, reason in report.within.problems[column.name].items()
            ),
        )
        tables.append(replace(_group_table(scores, models), caption=caption, notes=notes))
    return tuple(tables)


def within_sentence(report: ReportData) -> str:
    """Return the dependence within groups, in units of the prediction if possible."""
    if not report.within:
        return ""
    texts = []
    for column in report.columns:
        scores = report.within.scores[column.name]
        if not scores:
            texts.append(f"the dependence on {column.text} could not be measured")
            continue
        in_units = (name for name in scores if MEASURES[name].unit == "prediction")
        name = next(in_units, next(iter(scores)))
        means = {
            model: with_interval(scores[name][model].mean, MEASURES[name].decimals)
            for model in _models(report)
        }
        score = scores[name][CHOSEN]
        groups = len(score.groups) + len(score.left_out)
        left = f"over {groups} groups"
        if score.left_out:
            left = f"over {len(score.groups)} of {groups} groups"
        before = f", with nothing removed {means[REFERENCE]}" if REFERENCE in means else ""
        texts.append(
            f"the mean {MEASURES[name].label} on {column.text} is {means[CHOSEN]} {left}{before}"
        )
    return f"Within groups of {joined(report.control)}, {'; '.join(texts)}."


Scores = Mapping[str, Mapping[str, GroupedScore]]  # by measure, then model


def _models(report: ReportData) -> tuple[str, ...]:
    """Return the models of a table: a chosen model that removes nothing has no reference."""
    known = {
        model
        for found in (report.within.scores.values() if report.within else ())
        for models in found.values()
        for model in models
    }
    alone = report.chosen is None or report.chosen.removes_nothing or REFERENCE not in known
    return (CHOSEN,) if alone else (CHOSEN, REFERENCE)


def _group_table(scores: Scores, models: tuple[str, ...]) -> Table:
    """Return groups, their mean and all rows; one column per measure and model."""
    found = [(m, scores[m][model]) for m in MEASURES if m in scores for model in models]
    headings = ["Group", "Rows"]
    for name in (m for m in MEASURES if m in scores):
        headings.append(MEASURES[name].label)
        headings += [f"{MEASURES[name].label}, nothing removed"] * (len(models) - 1)
    groups = dict.fromkeys((label, n) for _, score in found for label, n, _ in score.groups)
    if not groups:
        return Table(tuple(headings), ())
    rows = []
    for label, n in groups:
        values = [
            next((value for own, size, value in score.groups if (own, size) == (label, n)), None)
            for _, score in found
        ]
        texts = (
            ABSENT if value is None else shown(value, MEASURES[name].decimals)
            for (name, _), value in zip(found, values, strict=True)
        )
        rows.append(Row.from_texts(label, count(n), *texts))
    measured = sum(n for _, n in groups)
    means = (with_interval(score.mean, MEASURES[name].decimals) for name, score in found)
    rows.append(Row.from_texts("Mean by rows", count(measured), *means))
    overall = (shown(score.overall, MEASURES[name].decimals) for name, score in found)
    every = measured + sum(n for label, n, _ in _excluded(scores) if (label, n) not in groups)
    rows.append(Row.from_texts("All rows at once", count(every), *overall))
    return Table(tuple(headings), tuple(rows))


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

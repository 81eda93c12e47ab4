"""Tables of a report, cell by cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fkd.measures import MEASURES, REPORTED
from fkd.measures.pareto import non_dominated
from tasks.report.figures import is_known
from tasks.report.formatting import (
    ABSENT,
    MAE_DECIMALS,
    count,
    duration,
    estimate_in_unit,
    has_own_unit,
    joined,
    params_words,
    shown,
    strength_words,
    unit_decimals,
    with_interval,
    with_std,
)
from tasks.report.model import (
    ChampionSummary,
    HeldOutScores,
    ReportData,
    ReportedInterval,
    TrialSummary,
)
from tasks.select.groups import CHOSEN, REFERENCE, GroupedScore


@dataclass(frozen=True)
class TableCell:
    """What is shown, with the value that sorts it (the text itself where there is none)."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class TableRow:
    """One line of a table."""

    cells: tuple[TableCell, ...]
    chosen: bool = False
    note: str = ""


@dataclass(frozen=True)
class Grid:
    """A table: headings, rows."""

    headings: tuple[str, ...]
    rows: tuple[TableRow, ...]


def trial_grid(report: ReportData) -> Grid:
    """Return one row per trial: mean ± standard deviation over folds."""
    pairs = _measured_pairs(report)
    fronts = _fronts(report)
    unit = (f"MAE in {report.target.unit}",) if has_own_unit(report.target) else ()
    headings = (
        "Method",
        "Strength",
        "MAE",
        *unit,
        *(_heading(report, column, measure) for column, measure in pairs),
        "On front of",
        *(("Folds",) if _folds_differ(report) else ()),
        "Time",
    )
    chosen = report.champion.trial if report.champion else None
    rows = tuple(
        TableRow(_trial_cells(report, trial, pairs, fronts), trial.key == chosen)
        for trial in report.trials
    )
    return Grid(headings, rows)


def _measured_pairs(report: ReportData) -> list[tuple[str, str]]:
    """Column, measure of all numbers that at least one trial has."""
    return [
        (column.name, measure)
        for column in report.columns
        for measure in REPORTED
        if any(measure in trial.scores[column.name] for trial in report.trials)
    ]


def _heading(report: ReportData, column: str, measure: str) -> str:
    """Return the measure's label, with the column where there are several."""
    label = REPORTED[measure].label
    return label if len(report.columns) == 1 else f"{label}, {_words(report, column)}"


def _words(report: ReportData, column: str) -> str:
    """Return a measured column's title, or its name."""
    return next(c.words for c in report.columns if c.name == column)


def _folds_differ(report: ReportData) -> bool:
    """Return whether some trials rest on more folds than others."""
    return len({trial.folds for trial in report.trials}) > 1


def parameters_of(report: ReportData) -> dict[str, list[str]]:
    """Return by method or variant the parameters of its trials, strengths apart."""
    found: dict[str, list[str]] = {}
    for trial in report.trials:
        words = params_words(trial)
        if words and words not in found.setdefault(trial.label, []):
            found[trial.label].append(words)
    return {label: settings for label, settings in found.items() if settings}


def _fronts(report: ReportData) -> dict[str, list[str]]:
    """By trial, the fronts it lies on."""
    found: dict[str, list[str]] = {trial.key: [] for trial in report.trials}
    for column, measure in _measured_pairs(report):
        for key, best in on_front(report.trials, column, measure).items():
            if best:
                found[key].append(_heading(report, column, measure))
    return found


def on_front(trials: Sequence[TrialSummary], column: str, measure: str) -> dict[str, bool]:
    """Return by trial key whether no other trial is better in both error and measure."""
    known = [trial for trial in trials if is_known(trial, column, measure)]
    if not known:
        return {}
    mask = non_dominated([(t.mae.mean, t.scores[column][measure].mean) for t in known])
    return {trial.key: bool(best) for trial, best in zip(known, mask, strict=True)}


def _trial_cells(
    report: ReportData,
    trial: TrialSummary,
    pairs: Sequence[tuple[str, str]],
    fronts: dict[str, list[str]],
) -> tuple[TableCell, ...]:
    """Return the cells of one trial, in the order of the headings."""
    mae = trial.mae
    own = (TableCell(estimate_in_unit(mae, report.target), mae.mean),)
    scores = [(trial.scores[column].get(measure), measure) for column, measure in pairs]
    return (
        TableCell(trial.label + " †" * trial.needs_sensitive + " ‡" * trial.searched),
        TableCell(strength_words(trial) or ABSENT, trial.strength),
        TableCell(with_std(mae, MAE_DECIMALS), mae.mean),
        *(own if has_own_unit(report.target) else ()),
        *(
            TableCell(with_std(score, REPORTED[measure].decimals), score.mean)
            if score
            else TableCell("undefined")
            for score, measure in scores
        ),
        TableCell(", ".join(fronts[trial.key]) or ABSENT, -len(fronts[trial.key])),
        *((TableCell(str(trial.folds), trial.folds),) if _folds_differ(report) else ()),
        TableCell(duration(trial.seconds), trial.seconds),
    )


def champion_grid(report: ReportData, champion: ChampionSummary) -> Grid:
    """Return the champion's numbers on held-out rows, beside those with nothing removed."""
    chosen = report.trial(champion.trial)
    if chosen.removes_nothing:  # it would stand beside itself
        champion = replace(champion, reference=None, changes=None)
    reference = champion.reference
    headings = ["Measure", "Chosen model"]
    if reference:
        headings += ["Nothing removed", "Change"]
    before = reference.mae if reference else None
    changes = champion.changes
    changed = changes.mae if changes else None
    rows = [_held_out_row("MAE", MAE_DECIMALS, champion.held_out.mae, before, changed)]
    if has_own_unit(report.target):
        rows.append(_own_unit_row(report, champion))
    for column, measure in _measured_pairs(report):
        found = champion.held_out.scores.get(column, {}).get(measure)
        before = reference.scores.get(column, {}).get(measure) if reference else None
        if found:
            label = f"{REPORTED[measure].label} on {_words(report, column)}"
            changed = changes.scores.get(column, {}).get(measure) if changes else None
            decimals = REPORTED[measure].decimals
            rows.append(_held_out_row(label, decimals, found, before, changed))
    return Grid(tuple(headings), tuple(rows))


def _held_out_row(
    label: str,
    decimals: int,
    found: ReportedInterval,
    before: ReportedInterval | None,
    changed: ReportedInterval | None,
) -> TableRow:
    """One number with its interval, then the same with nothing removed, then the change."""
    cells = [TableCell(label), TableCell(with_interval(found, decimals))]
    if before:
        cells.append(TableCell(with_interval(before, decimals)))
        cells.append(TableCell(with_interval(changed, decimals) if changed else ABSENT))
    return TableRow(tuple(cells))


def _own_unit_row(report: ReportData, champion: ChampionSummary) -> TableRow:
    """Return the error in the target's own unit."""
    scale = report.target.scale

    def own(scores: HeldOutScores) -> ReportedInterval:
        mae = scores.mae
        return ReportedInterval(mae.value * scale, mae.low * scale, mae.high * scale)

    found = own(champion.held_out)
    before = own(champion.reference) if champion.reference else None
    changed = own(champion.changes) if champion.changes else None
    label = f"MAE in {report.target.unit}"
    return _held_out_row(label, unit_decimals(found.value), found, before, changed)


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

"""Sentences on what was done, what is left, what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.report.contents import (
    HeldOutScores,
    ReportData,
    ReportedInterval,
    ReportedNoiseFloor,
    SensitiveColumn,
    TrialSummary,
)
from tasks.report.words import (
    MEASURES,
    change,
    count,
    in_unit,
    joined,
    own_number,
    setting_words,
    shown,
)


@dataclass(frozen=True)
class Comparison:
    """The champion beside what it is measured against."""

    before: HeldOutScores
    after: HeldOutScores
    against: str
    where: str


def compare(report: ReportData) -> Comparison | None:
    """Return before and after on held-out rows if both are known there, else in the folds."""
    champion, chosen, reference = report.champion, report.chosen, reference_trial(report)
    same = "the same model with nothing removed"
    if champion and champion.reference:
        return Comparison(champion.reference, champion.held_out, same, "on the held-out rows")
    if not chosen or not reference or reference is chosen:
        return None
    against = same if _is_untreated(reference, chosen) else setting_words(reference)
    before, after = _fold_means(reference), _fold_means(chosen)
    return Comparison(before, after, against, "in cross-validation")


def reference_trial(report: ReportData) -> TrialSummary | None:
    """Return the champion's setting at strength 0, else the most accurate trial."""
    chosen = report.chosen
    same = [trial for trial in report.trials if chosen and _is_untreated(trial, chosen)]
    useful = [trial for trial in report.trials if not trial.dummy]
    return next(iter([*same, *sorted(useful, key=lambda trial: trial.mae.mean)]), None)


def _is_untreated(trial: TrialSummary, chosen: TrialSummary) -> bool:
    """Whether the trial is the chosen setting with nothing removed."""
    alike = (trial.method, trial.params) == (chosen.method, chosen.params)
    return alike and bool(trial.strength_name) and trial.strength == 0


def removed_words(report: ReportData) -> str:
    """Return what was removed, as an enumeration."""
    return joined(report.removed or [c.words for c in report.columns if c.removed])


def task_sentence(report: ReportData) -> str:
    """Return what was predicted from what, what was to be removed."""
    data = report.data
    columns = f"{count(data.inputs)} columns of data" if data.inputs else "data"
    removed = removed_words(report)
    aim = f", leaning as little as possible on {removed}" if removed else ""
    return (
        f"Models were trained to predict {report.target.title} from {columns} "
        f"on {count(data.rows_used)} {data.row_noun} ({report.problem}){aim}."
    )


def result_sentences(report: ReportData) -> tuple[str, ...]:
    """Return what was chosen, what dependence is left, what that cost."""
    if not report.champion or not report.chosen:
        return (report.no_champion or "No model was chosen; the figures show what can be had.",)
    opening = f"The chosen model is {setting_words(report.chosen)}."
    comparison = compare(report)
    if not comparison:
        found = report.champion.held_out
        error = in_unit(found.mae.value, report.target)
        cost = f"Its mean absolute error on the held-out rows is {error}."
        return (opening, cost, _noise_sentence(report, found))
    return (
        opening,
        _dependence_sentence(report.columns, comparison),
        _noise_sentence(report, comparison.after),
        cost_sentence(report, comparison),
    )


def cost_sentence(report: ReportData, comparison: Comparison) -> str:
    """Return how the error changed by the removal."""
    before, after = comparison.before.mae.value, comparison.after.mae.value
    verdict = "The price is accuracy" if after > before else "It cost no accuracy"
    return (
        f"{verdict}: the mean absolute error went from {own_number(before, report.target)} "
        f"to {in_unit(after, report.target)} ({change(before, after)})."
    )


def _dependence_sentence(columns: Sequence[SensitiveColumn], comparison: Comparison) -> str:
    """How the measures on every column changed."""
    moves = [_moves(column, comparison) for column in columns]
    return f"Compared with {comparison.against} ({comparison.where}), {'; '.join(moves)}."


def _moves(column: SensitiveColumn, comparison: Comparison) -> str:
    """How the measures on one column changed."""
    before, after = comparison.before.scores[column.name], comparison.after.scores[column.name]
    both = [name for name, info in MEASURES.items() if info.drawn and name in {*before} & {*after}]
    verb = "fell" if all(after[name].value <= before[name].value for name in both) else "changed"
    moves = [
        f"{MEASURES[name].label} from {shown(before[name].value, MEASURES[name].decimals)} "
        f"to {shown(after[name].value, MEASURES[name].decimals)}"
        for name in both
    ]
    return f"its dependence on {column.words} {verb}: {joined(moves)}"


def noise_floor_of(report: ReportData, column: SensitiveColumn) -> ReportedNoiseFloor | None:
    """Return the floor at the length of the held-out rows, else that of a test fold."""
    held_out = report.champion.noise_floor if report.champion else {}
    return held_out.get(column.name, column.noise_floor)


def _noise_sentence(report: ReportData, found: HeldOutScores) -> str:
    """Which of the HGR that is left can be told from noise."""
    known = [
        (column, floor, found.scores[column.name]["hgr"].value)
        for column in report.columns
        if (floor := noise_floor_of(report, column)) and "hgr" in found.scores[column.name]
    ]
    if not known:
        return ""
    real = [column.words for column, floor, hgr in known if hgr > floor.upper]
    none = [column.words for column, floor, hgr in known if hgr <= floor.upper]
    seen = f"An independent prediction would read an HGR of about {known[0][1].mean:.2f}"
    if not none:
        return f"{seen}, so the dependence that is left is real, not noise."
    if not real:
        return f"{seen}, so the HGR that is left cannot be told from none."
    return (
        f"{seen}, so what is left on {joined(real)} is real, "
        f"what is left on {joined(none)} cannot be told from none."
    )


def _fold_means(trial: TrialSummary) -> HeldOutScores:
    """Fold means in the shape of held-out scores."""
    return HeldOutScores(
        _point(trial.mae.mean),
        {
            column: {measure: _point(score.mean) for measure, score in scores.items()}
            for column, scores in trial.scores.items()
        },
    )


def _point(value: float) -> ReportedInterval:
    """Return an interval of no width."""
    return ReportedInterval(value, value, value)

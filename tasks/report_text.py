"""Sentences on what was done, what is left, what it cost."""

from dataclasses import dataclass

from tasks.report_data import (
    HeldOutScores,
    Interval,
    NoiseFloor,
    ReportData,
    SensitiveColumn,
    TrialSummary,
)
from tasks.report_words import (
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
    """The champion beside what it would be with nothing removed."""

    before: HeldOutScores
    after: HeldOutScores
    where: str


def compare(report: ReportData) -> Comparison | None:
    """Return before and after on held-out rows if both are known there, else in the folds."""
    champion, chosen, reference = report.champion, report.chosen, reference_trial(report)
    if champion and champion.reference:
        return Comparison(champion.reference, champion.held_out, "on the held-out rows")
    if chosen and reference and reference is not chosen:
        return Comparison(_fold_means(reference), _fold_means(chosen), "in cross-validation")
    return None


def reference_trial(report: ReportData) -> TrialSummary | None:
    """Return the champion's setting at strength 0, else the most accurate trial."""
    chosen = report.chosen
    same = [
        trial
        for trial in report.trials
        if chosen
        and (trial.method, trial.params, trial.strength) == (chosen.method, chosen.params, 0)
        and trial.strength_name
    ]
    useful = sorted(
        (trial for trial in report.trials if not trial.dummy), key=lambda trial: trial.mae.mean
    )
    return next(iter([*same, *useful]), None)


def removed_words(report: ReportData) -> str:
    """Return what was removed, as an enumeration."""
    return joined(report.removed or [c.words for c in report.columns if c.removed])


def task_sentence(report: ReportData) -> str:
    """Return what was predicted from what, what was to be removed."""
    data = report.data
    columns = f"from {count(data.inputs)} columns " if data.inputs else ""
    removed = removed_words(report)
    aim = f" The aim is to predict well while leaning less on {removed}." if removed else ""
    return (
        f"Models were trained to predict {report.target.title} {columns}"
        f"on {count(data.rows_used)} {data.row_noun} of {report.problem}.{aim}"
    )


def result_sentences(report: ReportData) -> tuple[str, ...]:
    """Return what was chosen, what dependence is left, what that cost."""
    if not report.chosen:
        return (report.no_champion or "No model was chosen; the figures show what can be had.",)
    opening = f"The chosen model is {setting_words(report.chosen)}."
    comparison = compare(report)
    if not comparison:
        return (opening,)
    left = [_dependence_sentence(report, column, comparison) for column in report.columns]
    return (opening, *left, cost_sentence(report, comparison))


def cost_sentence(report: ReportData, comparison: Comparison) -> str:
    """Return how the error changed by the removal."""
    before, after = comparison.before.mae.value, comparison.after.mae.value
    verdict = "The price is accuracy" if after > before else "It cost no accuracy"
    return (
        f"{verdict}: the mean absolute error went from {own_number(before, report.target)} "
        f"to {in_unit(after, report.target)} ({change(before, after)})."
    )


def _dependence_sentence(
    report: ReportData, column: SensitiveColumn, comparison: Comparison
) -> str:
    """How the measures on one column changed, what of it is real."""
    before, after = comparison.before.scores[column.name], comparison.after.scores[column.name]
    moves = [
        f"{info.label} from {shown(before[name].value, info.decimals)} "
        f"to {shown(after[name].value, info.decimals)}"
        for name, info in MEASURES.items()
        if info.drawn and name in before and name in after
    ]
    verb = (
        "fell" if all(after[n].value <= before[n].value for n in after if n in before) else "went"
    )
    return (
        f"Measured {comparison.where}, the dependence of its predictions on {column.words} "
        f"{verb} in {joined(moves)}.{_floor_words(report, column, after.get('hgr'))}"
    )


def noise_floor_of(report: ReportData, column: SensitiveColumn) -> NoiseFloor | None:
    """Return the floor at the length of the held-out rows, else that of a test fold."""
    held_out = report.champion.noise_floor if report.champion else {}
    return held_out.get(column.name, column.noise_floor)


def _floor_words(report: ReportData, column: SensitiveColumn, hgr: Interval | None) -> str:
    """Whether the HGR that is left can be told from noise."""
    floor = noise_floor_of(report, column)
    if floor is None or hgr is None:
        return ""
    seen = f" Independent columns of {count(floor.rows)} rows read an HGR of {floor.mean:.2f}"
    if hgr.value > floor.upper:
        return f"{seen}, so what is left is real: the dependence was reduced, not abolished."
    return f"{seen}, so the HGR that is left cannot be told from none."


def _fold_means(trial: TrialSummary) -> HeldOutScores:
    """Fold means in the shape of held-out scores."""
    return HeldOutScores(
        _point(trial.mae.mean),
        {
            column: {measure: _point(score.mean) for measure, score in scores.items()}
            for column, scores in trial.scores.items()
        },
    )


def _point(value: float) -> Interval:
    """Return an interval of no width."""
    return Interval(value, value, value)

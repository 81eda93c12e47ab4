"""Sentences on the chosen model: why it was chosen, what it means to a person."""

import math

from fkd.measures import MEASURES
from tasks.report.formatting import (
    MAE_DECIMALS,
    count,
    in_unit,
    joined,
    own_number,
    shown,
    with_interval,
)
from tasks.report.model import (
    ChampionSummary,
    HeldOutScores,
    ReportData,
    ReportedInterval,
    SensitiveColumn,
    TrialSummary,
)
from tasks.report.narrative import compare, effect_of, removed_words
from tasks.report.profile_section import report_section


def policy_sentence(champion: ChampionSummary) -> str:
    """Return the rule by which the champion was chosen."""
    policy = champion.policy
    if policy.kind == "knee":
        label = _label(policy.measure)
        return (
            f"The configured rule: take the knee of the front of {label} against MAE, "
            "the setting after which a further gain in fairness costs clearly more accuracy. "
            "Errors within one standard error of the least count as equal to it. Values of "
            f"{label} within the noise floor count as 0. A constant is chosen only if every "
            "other model has a greater error."
        )
    limits = [f"{_label(name)} of at most {limit:g}" for name, limit in policy.subject_to.items()]
    if not limits:
        return f"The configured rule: take the least {_label(policy.minimise)}."
    return (
        f"The configured rule: among the trials with a mean {joined(limits)} "
        f"take the one with the least {_label(policy.minimise)}."
    )


def deciding_sentence(champion: ChampionSummary) -> str:
    """Return on which rows was chosen, with the numbers that decided where they are known."""
    rows = count(champion.rows_choosing)
    opening = f"Choosing looked at folds inside {rows} rows only"
    if not champion.deciding:
        return f"{opening}, so its numbers differ a little from those in the figures."
    numbers = [
        f"{_label(name)} {shown(value, _decimals(name))}"
        for name, value in champion.deciding.items()
    ]
    return f"{opening}, where this setting has {joined(numbers)}; the figures cover all rows."


def limit_sentences(report: ReportData) -> tuple[str, ...]:
    """Return for each limit of the policy whether the held-out rows keep it."""
    champion = report.champion
    if not champion:
        return ()
    return tuple(
        _limit_sentence(name, limit, champion.held_out.scores[column.name][name], column)
        for name, limit in champion.policy.subject_to.items()
        for column in report.columns
        if name in champion.held_out.scores.get(column.name, {})  # broken_limits has the others
    )


def _limit_sentence(
    name: str, limit: float, found: ReportedInterval, column: SensitiveColumn
) -> str:
    """Whether one limit is kept, with the doubt that the interval leaves."""
    verdict = "keeps" if found.value <= limit else "exceeds"
    doubt = ", though the interval reaches across it" if found.low <= limit < found.high else ""
    return (
        f"The {_label(name)} on {column.words} is {with_interval(found, _decimals(name))}, "
        f"which {verdict} the limit of {limit:g}{doubt}."
    )


def _label(name: str) -> str:
    """Return the measure's label."""
    return MEASURES[name].label if name in MEASURES else name.upper()


def _decimals(name: str) -> int:
    """Return how many decimals the measure deserves."""
    return MEASURES[name].decimals if name in MEASURES else MAE_DECIMALS


def recoverability_sentence(report: ReportData, column: SensitiveColumn) -> str:
    """Return what the best probe learns about a column from features before, after removal."""
    own = [row for row in report.recoverability if row.column == column.name]
    before = max(own, key=lambda row: row.before.mean)
    after = max(own, key=lambda row: row.after.mean)
    if report.chosen and report.chosen.removes_nothing:
        return (
            f"On rows it has not seen, the best probe ({before.probe}) explains "
            f"{_share(before.before.mean)} of the variation of {column.words} from the features; "
            "nothing was removed from them."
        )
    return (
        f"On rows it has not seen, the best probe ({before.probe}) explains "
        f"{_share(before.before.mean)} of the variation of {column.words} from the features before "
        f"the removal, and {_share(after.after.mean)} ({after.probe}) after it."
    )


def _share(r2: float) -> str:
    """Return an R² as a share; one below zero is worse than guessing the mean."""
    return "nothing" if r2 < 0.005 else f"{100 * r2:.0f} %"


def person_sentences(report: ReportData) -> tuple[str, ...]:
    """Return what a person should know about whom the chosen model decides."""
    champion, chosen = report.champion, report.chosen
    if not champion or not chosen:
        return ()
    left = _person_left(report, champion)
    error = in_unit(champion.held_out.mae.value, report.target)
    return (
        _person_inputs(report, chosen),
        *([left] if left else []),
        f"On average a prediction of {report.target.title} is off by {error}; "
        "in a single case it can be off by far more.",
        *_person_along(report),
    )


def _person_along(report: ReportData) -> tuple[str, ...]:
    """Return for whom errors are greatest, along every column that there is a curve for."""
    section = report_section(report)
    return tuple(column.sentences[0] for column in section.columns) if section else ()


def _person_inputs(report: ReportData, chosen: TrialSummary) -> str:
    """Whether the attribute itself enters the model, which other inputs stand in for it."""
    removed = removed_words(report)
    it = "them" if len([c for c in report.columns if c.removed]) > 1 else "it"
    if chosen.dummy:
        return "This model predicts the same for everybody."
    if chosen.needs_sensitive:
        return f"This model asks for {removed} whenever it predicts, in order to correct for {it}."
    if any(column.removed and column.is_input for column in report.columns):
        given = f"This model is given {removed} among its inputs"
        return f"{given}, then removes part of that." if _removed_some(report) else f"{given}."
    given = f"This model is not given {removed}"
    if proxies := _proxy_words(report):
        given = f"{given}, but the inputs that go along with {it} most remain: {proxies}"
    if chosen.removes_nothing:
        return f"{given}; nothing of what its inputs say about {it} has been taken out."
    if not _removed_some(report):
        return f"{given}; these rows cannot show that the removal has taken out any of that."
    return f"{given}; part of what its inputs say about {it} has been taken out."


def _removed_some(report: ReportData) -> bool:
    """Whether some measure on a removed column fell by more than noise."""
    comparison = compare(report)
    if comparison is None:
        return bool(report.chosen and not report.chosen.removes_nothing)
    return any(
        effect_of(found) == "fell"
        for column in report.columns
        if column.removed
        for found in comparison.changes.scores[column.name].values()
    )


def _proxy_words(report: ReportData) -> str:
    """Return the inputs that go along with removed columns most, with how closely."""
    found = [
        f"{name} (correlation {shown(value, 2)})"
        for column in report.columns
        if column.removed
        for name, value in column.proxies
    ]
    return joined(found)


def _person_left(report: ReportData, champion: ChampionSummary) -> str:
    """How far predictions still move with each column, on the target's own scale."""
    moves = [
        f"at a given value of {column.words} the average prediction differs from the overall "
        f"average by about {in_unit(found, report.target)}{_untreated(report, column)}"
        for column in report.columns
        if (found := _in_target_units(champion.held_out, column)) > 0
    ]
    return (
        f"Predictions still move with what was to be removed: {'; '.join(moves)}." if moves else ""
    )


def _untreated(report: ReportData, column: SensitiveColumn) -> str:
    """Return the same number with nothing removed, in brackets, where it is known."""
    reference = report.champion.reference if report.champion else None
    if report.chosen and report.chosen.removes_nothing:
        return ""
    before = _in_target_units(reference, column) if reference else math.nan
    if math.isnan(before):
        return ""
    return f" (with nothing removed: {own_number(before, report.target)})"


def _in_target_units(found: HeldOutScores, column: SensitiveColumn) -> float:
    """Return the first measure in units of the prediction, NaN if there is none."""
    scores = found.scores[column.name]
    known = (scores[name].value for name in scores if MEASURES[name].unit == "prediction")
    return next(known, math.nan)

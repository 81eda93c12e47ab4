"""What the removal changed on held-out rows: fell, rose, or no more than noise."""

from dataclasses import dataclass

from fkd.measures import REPORTED
from tasks.report.contents import HeldOutScores, ReportData, ReportedInterval, SensitiveColumn
from tasks.report.words import change, in_unit, joined, own_number, shown

FELL, ROSE, SAME = "fell", "rose", "cannot be told from unchanged"


@dataclass(frozen=True)
class Comparison:
    """The chosen model beside the same one with nothing removed, on the same held-out rows."""

    before: HeldOutScores
    after: HeldOutScores
    changes: HeldOutScores  # after minus before, with the interval of that difference


def compare(report: ReportData) -> Comparison | None:
    """Return before and after; None where nothing was removed, or nothing to compare was run."""
    champion, chosen = report.champion, report.chosen
    if not champion or not chosen or chosen.removes_nothing:
        return None
    if not champion.reference or not champion.changes:
        return None
    return Comparison(champion.reference, champion.held_out, champion.changes)


def effect_of(found: ReportedInterval) -> str:
    """Return which way a number went, as far as the interval of its change can tell."""
    if found.high < 0:
        return FELL
    return ROSE if found.low > 0 else SAME


def dependence_sentences(report: ReportData, comparison: Comparison) -> tuple[str, ...]:
    """Return how the dependence on every column changed, each direction in its own sentence."""
    told = [sentence for column in report.columns for sentence in _directions(column, comparison)]
    opening = "Compared with the same model with nothing removed (on the same held-out rows), "
    return (f"{opening}{told[0][0].lower()}{told[0][1:]}", *told[1:]) if told else ()


def _directions(column: SensitiveColumn, comparison: Comparison) -> list[str]:
    """Return what fell, what rose, what did neither, on one column."""
    moves = _moves(column.name, comparison)
    by = {effect: joined(told) for effect, told in moves.items()}
    its = f"Its dependence on {column.words}"
    sentences = {
        FELL: f"{its} fell by {by.get(FELL)}.",
        ROSE: f"{its} rose by {by.get(ROSE)}: more of it is there than with nothing removed.",
        SAME: f"{its} by {by.get(SAME)} cannot be told from unchanged.",
    }
    return [sentence for effect, sentence in sentences.items() if effect in by]


def _moves(column: str, comparison: Comparison) -> dict[str, list[str]]:
    """Return by effect the measures of one column with their numbers before and after."""
    before, after = comparison.before.scores[column], comparison.after.scores[column]
    changes = comparison.changes.scores[column]
    by_effect: dict[str, list[str]] = {}
    for name, words in REPORTED.items():
        if name in changes:
            numbers = (shown(side[name].value, words.decimals) for side in (before, after))
            told = f"{words.label} ({' to '.join(numbers)})"
            by_effect.setdefault(effect_of(changes[name]), []).append(told)
    return by_effect


def effect_word(report: ReportData, comparison: Comparison) -> str:
    """Return which way the dependence on what was removed went, in a word or two."""
    found = {
        effect
        for column in report.columns
        if column.removed
        for effect in _moves(column.name, comparison)
    }
    return " and ".join(effect for effect in (FELL, ROSE) if effect in found) or "within noise"


def cost_sentence(report: ReportData, comparison: Comparison) -> str:
    """Return how the error changed by the removal."""
    before, after = comparison.before.mae.value, comparison.after.mae.value
    first, then = (own_number(value, report.target) for value in (before, after))
    moved = f"from {first} to {in_unit(after, report.target)} ({change(before, after)})"
    effect = effect_of(comparison.changes.mae)
    if effect != SAME and first == then:
        # Of a million rows an interval is narrower than the last figure.
        return (
            f"It cost next to no accuracy: the mean absolute error {effect}, but by less than its "
            f"figures show ({in_unit(after, report.target)} before and after)."
        )
    if effect == ROSE:
        return f"The price is accuracy: the mean absolute error rose {moved}."
    if effect == FELL:
        return f"It cost no accuracy: the mean absolute error fell {moved}."
    return f"The mean absolute error went {moved}, which cannot be told from unchanged."


def standing_sentence(report: ReportData, found: HeldOutScores) -> str:
    """Return the dependence as it stands, where there is nothing to compare it with."""
    columns = [
        f"on {column.words} {joined(_numbers(found, column.name))}" for column in report.columns
    ]
    error = in_unit(found.mae.value, report.target)
    return (
        f"On the held-out rows its dependence is, {'; '.join(columns)}; "
        f"its mean absolute error is {error}."
    )


def _numbers(found: HeldOutScores, column: str) -> list[str]:
    """Return the measures on one column."""
    scores = found.scores[column]
    return [
        f"{words.label} {shown(scores[name].value, words.decimals)}"
        for name, words in REPORTED.items()
        if name in scores
    ]

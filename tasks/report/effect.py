"""What the removal changed on held-out rows: fell, rose, or no more than noise."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.report.contents import HeldOutScores, ReportData, ReportedInterval, SensitiveColumn
from tasks.report.words import MEASURES, change, in_unit, joined, own_number, shown


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
        return "fell"
    return "rose" if found.low > 0 else "cannot be told from unchanged"


def dependence_sentence(columns: Sequence[SensitiveColumn], comparison: Comparison) -> str:
    """Return how the dependence on every column changed."""
    moves = [
        f"its dependence on {column.words} {_moves(column.name, comparison)}" for column in columns
    ]
    return (
        "Compared with the same model with nothing removed (on the same held-out rows), "
        f"{'; '.join(moves)}."
    )


def _moves(column: str, comparison: Comparison) -> str:
    """Return which measures of one column fell, which rose, which did neither."""
    before, after = comparison.before.scores[column], comparison.after.scores[column]
    changes = comparison.changes.scores[column]
    by_effect: dict[str, list[str]] = {}
    for name, words in MEASURES.items():
        if words.drawn and name in changes:
            numbers = (shown(side[name].value, words.decimals) for side in (before, after))
            told = f"{words.label} ({' to '.join(numbers)})"
            by_effect.setdefault(effect_of(changes[name]), []).append(told)
    order = sorted(by_effect, key=["fell", "rose", "cannot be told from unchanged"].index)
    return joined([f"{effect} by {joined(by_effect[effect])}" for effect in order])


def cost_sentence(report: ReportData, comparison: Comparison) -> str:
    """Return how the error changed by the removal."""
    before, after = comparison.before.mae.value, comparison.after.mae.value
    moved = (
        f"from {own_number(before, report.target)} to {in_unit(after, report.target)} "
        f"({change(before, after)})"
    )
    effect = effect_of(comparison.changes.mae)
    if effect == "rose":
        return f"The price is accuracy: the mean absolute error rose {moved}."
    if effect == "fell":
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
    """Return the drawn measures on one column."""
    scores = found.scores[column]
    return [
        f"{words.label} {shown(scores[name].value, words.decimals)}"
        for name, words in MEASURES.items()
        if words.drawn and name in scores
    ]

"""Verdicts counted: what holds only against a constant apart, the error named."""

from collections.abc import Sequence
from typing import Literal, get_args

from tasks.reproduction.verdict import OURS, Verdict

Count = Literal["holds", "holds against a constant", "fails", "unclear", "not run"]
COUNTS: tuple[Count, ...] = get_args(Count)


def counted_as(verdict: Verdict) -> Count:
    """Return among which verdicts one is counted: to beat a collapsed network proves little."""
    if verdict.verdict == "holds" and verdict.collapsed:
        return "holds against a constant"
    return verdict.verdict


def is_ours(verdict: Verdict) -> bool:
    """Return whether a statement is one that the paper does not make."""
    return verdict.source == OURS


def count(verdicts: Sequence[Verdict], as_: str, *, ours: bool | None = None) -> int:
    """Return how many verdicts count as that: all, ours, or the paper's."""
    return sum(
        counted_as(verdict) == as_ and ours in (None, is_ours(verdict)) for verdict in verdicts
    )


def headline(verdicts: Sequence[Verdict], *, ours: bool) -> str:
    """Return in words how many of the paper's statements, or of ours, hold by which error."""
    found = {as_: count(verdicts, as_, ours=ours) for as_ in COUNTS}
    whose = "added here" if ours else "taken from the paper"
    constant = found["holds against a constant"]
    apart = (
        f"{constant} more hold only against a network that predicts a constant (it has collapsed "
        "to the mean), "
        if constant
        else ""
    )
    return (
        f"Of the statements {whose} {found['holds']} hold, {apart}{found['fails']} fail, "
        f"{found['unclear']} are unclear, {found['not run']} were not judged, errors being "
        f"absolute ones (MAE) as in the paper.{_by_both(verdicts, ours=ours)}"
    )


def _by_both(verdicts: Sequence[Verdict], *, ours: bool) -> str:
    """Return by which of the two errors statements on them hold, nothing where there are none."""
    compared = [
        verdict
        for verdict in verdicts
        if verdict.rmse_verdict is not None and not verdict.collapsed and ours == is_ours(verdict)
    ]
    if not compared:
        return ""
    pairs = [(v.verdict == "holds", v.rmse_verdict == "holds") for v in compared]
    return (
        f" Of {len(compared)} that compare errors at equal dependence (constants apart), "
        f"{pairs.count((True, True))} hold by MAE and by RMSE, "
        f"{pairs.count((True, False))} by MAE alone, {pairs.count((False, True))} by RMSE alone, "
        f"{pairs.count((False, False))} by neither."
    )

"""What the rows say of one claim: a word with its numbers."""

from dataclasses import dataclass
from typing import Literal, get_args

Word = Literal["holds", "fails", "unclear", "not run"]
WORDS: tuple[Word, ...] = get_args(Word)
OURS = "ours"  # the source of claims that the paper does not make


@dataclass(frozen=True)
class Verdict:
    """What the rows say of one claim on one run."""

    run: str
    says: str
    source: str
    verdict: Word
    reason: str = ""  # why it was not judged
    unit: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    folds_true: int | None = None
    folds: int | None = None
    # The claim is true between these numbers; None: on all of that side.
    true_above: float | None = None
    true_below: float | None = None
    collapsed: str = ""  # which of the compared curves is a constant without being meant as one
    # The same by the root of the mean squared error, where two errors are compared at all.
    rmse_verdict: Word | None = None
    rmse_reason: str = ""
    rmse_value: float | None = None
    rmse_low: float | None = None
    rmse_high: float | None = None
    rmse_folds_true: int | None = None
    # Where folds were cut by several seeds: the number is their mean, between these two, and lies
    # where the claim is true under so many of them.
    seeds: int | None = None
    seeds_true: int | None = None
    seeds_low: float | None = None
    seeds_high: float | None = None
    rmse_seeds_true: int | None = None
    rmse_seeds_low: float | None = None
    rmse_seeds_high: float | None = None

    @property
    def told(self) -> str:
        """The verdict with the error by which it was reached, where there are two."""
        if self.rmse_verdict is None:
            return self.verdict
        if self.rmse_verdict == self.verdict:
            return f"{self.verdict} by MAE and RMSE"
        return f"{self.verdict} by MAE, {self.rmse_verdict} by RMSE".replace(
            "not run", "not judged"
        )

"""Whether the predictions of a fit are kept beside its numbers."""

from typing import Literal

Keeping = Literal["auto", "keep", "drop"]
# 800 kB a fit. What reads predictions makes those of one model again where there are none.
AUTO_ROWS = 100_000
# Those of the held-out fold are read: judgement and report would fit again what shows them. A trial
# has one such fold, so that they take no more than all its folds do at that limit.
SHOWN_TIMES = 10


def keeps(policy: Keeping, rows: int, *, shown: bool = False) -> bool:
    """Return whether predictions of so many test rows are kept.

    Parameters
    ----------
    policy
        What was asked for.
    rows
        How many the split tests on.
    shown
        Whether the split is the held-out fold.
    """
    if policy == "auto":
        return rows <= AUTO_ROWS * (SHOWN_TIMES if shown else 1)
    return policy == "keep"

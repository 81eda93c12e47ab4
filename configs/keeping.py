"""Whether the predictions of a fit are kept beside its numbers."""

from typing import Literal

Keeping = Literal["auto", "keep", "drop"]
# 800 kB a fit. What reads predictions makes those of one model again where there are none.
AUTO_ROWS = 100_000


def keeps(policy: Keeping, rows: int) -> bool:
    """Return whether predictions of so many test rows are kept."""
    return rows <= AUTO_ROWS if policy == "auto" else policy == "keep"

"""Missing numbers of a table's inputs: what stands for them, which columns tell of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array


def medians(columns: Array) -> Array:
    """Return the median of what is present in each column, (p,); NaN where nothing is."""
    found = [_median(column[~np.isnan(column)]) for column in columns.T]
    return np.array(found, dtype=np.float64)


def filled(columns: Array, fill: Array) -> Array:
    """Return the columns with each missing number replaced by its column's fill."""
    # No copy where nothing is missing, which is the rule.
    missing = np.isnan(columns)
    return np.where(missing, fill, columns) if missing.any() else columns


def gappy(columns: Array) -> NDArray[np.bool_]:
    """Return which columns lack a number in some rows, though not in all, (p,)."""
    missing = np.isnan(columns)
    return np.asarray(missing.any(axis=0) & ~missing.all(axis=0), dtype=np.bool_)


def check_finite(names: Sequence[str], columns: Array, gaps: Sequence[str] = ()) -> None:
    """Refuse infinity, and NaN outside the columns that may have gaps, by the column's name."""
    for name, column in zip(names, columns.T, strict=True):
        # Column by column: a mask of the whole matrix would be as large as an eighth of it.
        bad = int((np.isinf(column) if name in gaps else ~np.isfinite(column)).sum(axis=0))
        if bad:
            raise ValueError(
                f"column {name} must hold finite numbers, got {bad} missing or infinite values; "
                "drop those rows or declare what a missing value means"
            )


def _median(present: Array) -> float:
    return float(np.median(present)) if len(present) else np.nan

"""Training rows whose weight is above 0, with what was passed beside them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from fkd.core.arrays import Array, IntArray, Rows
from fkd.core.border import weight_vector


@dataclass(frozen=True)
class PresentRows:
    """Which of n rows are there, how many rows each of them counts for."""

    n: int
    rows: IntArray | None = None  # their numbers, None where all are there
    w: Array | None = None  # of those that are there, None where each counts once

    @classmethod
    def of(
        cls, sample_weight: Any, n: int, *, least: int = 2, precomputed: bool = False
    ) -> "PresentRows":
        """Return the rows that weights leave.

        Parameters
        ----------
        sample_weight
            What a caller passed.
        n
            The number of samples.
        least
            How many must have a weight above 0: a single row has no spread to remove.
        precomputed
            Whether columns are rows too: none can then be left out.
        """
        if sample_weight is None:
            return cls(n)
        w = _checked(sample_weight, n, least)
        if (w > 0).all():
            # Ones have nothing to say: sums are then those without weights, bit for bit.
            return cls(n, None, None if (w == 1).all() else w)
        if precomputed:
            raise ValueError(
                "sample_weight must be above 0 where kernel='precomputed', whose columns are "
                f"training rows too, got 0 for {n - np.count_nonzero(w)} of {n}; leave out these "
                "rows with their columns"
            )
        rows = np.flatnonzero(w)
        return cls(n, rows, None if (w[rows] == 1).all() else w[rows])

    def __len__(self) -> int:
        return self.n if self.rows is None else len(self.rows)

    def inputs(self, X: Rows) -> Rows:
        """Return the checked rows that are there."""
        return X if self.rows is None else X[self.rows]

    def beside(self, name: str, data: Any) -> Any:
        """Return what stands beside the rows that are there, still as a caller passed it."""
        if data is None or self.rows is None:
            return data
        # Before rows are taken: of too many the first would be taken for all.
        if (found := _num_samples(data)) != self.n:
            raise ValueError(f"{name} must have one row per sample ({self.n}), got {found}")
        return _safe_indexing(data, self.rows)


def _checked(sample_weight: Any, n: int, least: int) -> Array:
    """Return one weight per sample, of which enough are above 0."""
    w = weight_vector(sample_weight, n)
    assert w is not None
    if (found := np.count_nonzero(w)) < least:
        raise ValueError(
            f"sample_weight must be above 0 for at least {least} row{'s' * (least > 1)}, got "
            f"{found} of {n}; a row of weight zero is left out"
        )
    return w

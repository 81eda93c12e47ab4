"""Sums over rows that stream by, all of them from one symmetric product."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.linalg import blas

from fkd.core.arrays import BLOCK_ROWS, Array, Rows, row_blocks
from fkd.core.basis_moments import BasisMoments
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import mirror_lower
from fkd.core.moments import Moments

# How features enter a sum: as kernel values in single or double precision, whitened once in the
# sum; or whitened row by row, which costs as much as the sum itself but loses the least.
Way = Literal["float32", "float64", "rows"]
WAYS: tuple[Way, ...] = ("float32", "float64", "rows")


class StreamedSums:
    """AᵀA of rows A = (F, S, y, 1, W₁, W₂, ...): raw features beside all they are summed against.

    One product of matrices gives every sum, at the speed of that product.

    Parameters
    ----------
    feature_map
        The map whose features are summed.
    way
        How they enter the sum, one of `WAYS`.
    widths
        Columns of S, then of each W.
    """

    def __init__(self, feature_map: FeatureMap, way: Way, widths: Sequence[int]) -> None:
        self._map, self._way = feature_map, way
        r, (l, *further) = feature_map.rank, widths
        starts = np.cumsum([r + l + 2, *further]).tolist()
        self._S, self._y, self._one = slice(r, r + l), r + l, r + l + 1
        self._W = [slice(start, start + p) for start, p in zip(starts, further, strict=False)]
        self._P = np.zeros((starts[-1], starts[-1]), order="F")
        self._rows = np.empty((BLOCK_ROWS, starts[-1]))

    def add(self, X: Rows, S: Array, y: Array, W: Sequence[Array] = ()) -> None:
        """Add rows X with their sensitive columns, target, further columns."""
        for rows in row_blocks(X.shape[0], BLOCK_ROWS):
            A = self._rows[: rows.stop - rows.start]
            self._map.raw(X[rows], A[:, : self._map.rank], way=self._way)
            A[:, self._S], A[:, self._y], A[:, self._one] = S[rows], y[rows], 1.0
            for place, columns in zip(self._W, W, strict=True):
                A[:, place] = columns[rows]
            self._P = blas.dsyrk(1.0, A.T, beta=1.0, c=self._P, lower=1, overwrite_c=1)

    def moments(self) -> Moments:
        """Return the sums of features, sensitive columns, target, of raw features as they are."""
        P, r = mirror_lower(self._P), self._map.rank
        return Moments(
            n=round(float(P[self._one, self._one])),
            C=P[:r, :r].copy(order="F"),
            b=P[:r, self._S].copy(),
            c=P[:r, self._y].copy(),
            g=P[:r, self._one].copy(),
            s=P[self._S, self._one].copy(),
            y=float(P[self._y, self._one]),
            yy=float(P[self._y, self._y]),
        )

    def coupled(self, index: int, p: int) -> BasisMoments:
        """Return the sums against the columns of one W, of which the first p are a basis."""
        P, r, W = mirror_lower(self._P), self._map.rank, self._W[index]
        return BasisMoments(
            n=round(float(P[self._one, self._one])),
            p=p,
            GW=P[:r, W].copy(),
            WW=P[W, W].copy(),
            g=P[:r, self._one].copy(),
            w=P[W, self._one].copy(),
            gg=float(P.diagonal()[:r].sum(axis=0)),
        )


def whitened(feature_map: FeatureMap, way: Way, moments: Moments) -> Moments:
    """Return the moments of the map's features from those of what entered the sum."""
    L = feature_map.whitening
    return moments if L is None or way == "rows" else moments.under(L)


def whitened_products(
    feature_map: FeatureMap, way: Way, sums: BasisMoments, squares: float
) -> BasisMoments:
    """Return products of the map's features likewise.

    Parameters
    ----------
    feature_map, way, sums
        As they were summed.
    squares
        The sum of all squared features, which products of raw ones do not tell.
    """
    L = feature_map.whitening
    return sums if L is None or way == "rows" else sums.under(L, squares)

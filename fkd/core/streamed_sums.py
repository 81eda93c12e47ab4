"""Sums over rows that stream by, nearly all of them from one symmetric product."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import blas

from fkd.core.arrays import BLOCK_ROWS, Array, Rows, row_blocks
from fkd.core.basis_moments import BasisMoments
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import mirror_lower
from fkd.core.moments import Moments
from fkd.core.row_weights import row_count, times_weights, weighted_sum

# How features enter a sum: as kernel values in single or double precision, whitened once in the
# sum; or whitened row by row, which costs as much as the sum itself but loses the least.
Way = Literal["float32", "float64", "rows"]
WAYS: tuple[Way, ...] = ("float32", "float64", "rows")


class StreamedSums:
    """AᵀA of rows A = (F, S, y, 1), raw features beside what they go with; FᵀW of each W.

    A row of weight w is multiplied by its root before any product, which makes it w rows.

    The first product costs nearly all. Each W has one of its own: in a product that all share, its
    width would decide how the other sums are rounded.

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
        self._S, self._y, self._one = slice(r, r + l), r + l, r + l + 1
        self._P = np.zeros((r + l + 2, r + l + 2), order="F")
        self._products = [_Products.none(r, p) for p in further]
        self._rows = np.empty((BLOCK_ROWS, r + l + 2))
        self._n: float = 0

    def add(
        self,
        X: Rows,
        S: Array,
        y: Array,
        W: Sequence[Array] = (),
        *,
        weights: Array | None = None,
    ) -> None:
        """Add rows X with their sensitive columns, target, further columns.

        Parameters
        ----------
        X, S, y, W
            Rows with what goes with them.
        weights
            How many rows each counts for, (k,); None is one.
        """
        self._n += row_count(X.shape[0], weights)
        roots = None if weights is None else np.sqrt(weights)
        for rows in row_blocks(X.shape[0], BLOCK_ROWS):
            A = self._rows[: rows.stop - rows.start]
            self._map.raw(X[rows], A[:, : self._map.rank], way=self._way)
            A[:, self._S], A[:, self._y], A[:, self._one] = S[rows], y[rows], 1.0
            root = None if roots is None else roots[rows]
            if root is not None:
                A *= root[:, None]
            for products, columns in zip(self._products, W, strict=True):
                products.add(A[:, : self._map.rank], columns[rows], root)
            self._P = blas.dsyrk(1.0, A.T, beta=1.0, c=self._P, lower=1, overwrite_c=1)

    def moments(self) -> Moments:
        """Return the sums of features, sensitive columns, target, of raw features as they are."""
        P, r = mirror_lower(self._P), self._map.rank
        return Moments(
            n=self._n,
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
        P, r, found = mirror_lower(self._P), self._map.rank, self._products[index]
        return BasisMoments(
            n=self._n,
            p=p,
            GW=found.GW.copy(),
            WW=found.WW.copy(),
            g=P[:r, self._one].copy(),
            w=found.w.copy(),
            gg=float(P.diagonal()[:r].sum(axis=0)),
        )


@dataclass(frozen=True)
class _Products:
    """Sums against the columns of one W, so far."""

    GW: Array
    WW: Array
    w: Array

    @classmethod
    def none(cls, r: int, p: int) -> "_Products":
        return cls(np.zeros((r, p)), np.zeros((p, p)), np.zeros(p))

    def add(self, F: Array, W: Array, root: Array | None) -> None:
        """Add some rows' features, times the root of their weight, with their columns."""
        W = np.ascontiguousarray(times_weights(W, root))
        for total, part in (
            (self.GW, F.T @ W),
            (self.WW, W.T @ W),
            (self.w, weighted_sum(W, root)),
        ):
            total += part


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

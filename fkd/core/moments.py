"""Sums over rows that removal needs, in a form that adds."""

from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add

import numpy as np

from fkd.core.arrays import PANEL_ROWS, Array, Rows, row_blocks
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import solved_lower, solved_on_both_sides
from fkd.core.linear_correction import LinearCorrection
from fkd.core.row_weights import (
    RowWeights,
    row_count,
    times_weights,
    weighted_gram,
    weighted_sum,
)


@dataclass(frozen=True)
class Moments:
    """Sums of products of features G, sensitive columns S with target y over the rows seen so far.

    Moments of disjoint rows add up to those of their union, as long as the feature map is one. A
    row of weight w counts as w rows in each of them.
    """

    n: float  # rows, or the sum of their weights
    C: Array  # GᵀG, (r, r)
    b: Array  # GᵀS, (r, l)
    c: Array  # Gᵀy, (r,)
    g: Array  # Gᵀ1, (r,)
    s: Array  # Sᵀ1, (l,)
    y: float  # yᵀ1
    yy: float  # yᵀy

    @classmethod
    def of(cls, G: Array, S: Array, y: Array, w: Array | None = None) -> "Moments":
        """Return the moments of one block of rows, each counted w times."""
        weighed = times_weights(y, w)
        return cls(
            n=row_count(len(G), w),
            C=weighted_gram(G, w),
            b=G.T @ times_weights(S, w),
            c=G.T @ weighed,
            g=weighted_sum(G, w),
            s=weighted_sum(S, w),
            y=float(weighed.sum(axis=0)),
            yy=float(weighed @ y),
        )

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Moments)))

    def under(self, L: Array) -> "Moments":
        """Return the moments of G L⁻ᵀ: sums over raw columns become those of whitened features."""
        b, c, g = (solved_lower(L, part) for part in (self.b, self.c, self.g))
        return replace(self, C=solved_on_both_sides(L, self.C), b=b, c=c, g=g)

    def with_target(self, level: float, unit: float) -> "Moments":
        """Return the moments with (y - level) / unit in the place of the target."""
        squares = self.yy - 2 * level * self.y + self.n * level**2
        return replace(
            self,
            c=(self.c - level * self.g) / unit,
            y=(self.y - self.n * level) / unit,
            yy=squares / unit**2,
        )

    def corrected(self, by: LinearCorrection) -> "Moments":
        """Return the moments of corrected rows, all of whose columns must come out.

        With U = (G - mean) R they are G - U Lᵀ: products with U are all it takes.
        """
        by.check_whole()
        R, L, m = by.R, by.L, by.R.T @ by.mean
        GU, ones = self.C @ R - np.outer(self.g, m), R.T @ self.g - self.n * m
        UU = R.T @ GU - np.outer(m, ones)
        half = (GU - L @ UU / 2) @ L.T
        return replace(
            self,
            C=self.C - half - half.T,
            b=self.b - L @ (R.T @ self.b - np.outer(m, self.s)),
            c=self.c - L @ (R.T @ self.c - m * self.y),
            g=self.g - L @ ones,
        )

    def sensitive(self, *, center: bool) -> Array:
        """Return GᵀS, or Gᵀ(S - mean) where `center`."""
        return self.b - np.outer(self.g, self.s / self.n) if center else self.b

    def normal_equations(self, *, fit_intercept: bool) -> tuple[Array, Array]:
        """Return GᵀG with Gᵀy, both of centred columns where an intercept is fitted."""
        if not fit_intercept:
            return self.C, self.c
        C = np.array(self.C, order="F")  # as LAPACK takes it: it is for one use
        mean = self.g / self.n
        for rows in row_blocks(len(C), PANEL_ROWS):
            C[rows] -= np.outer(self.g[rows], mean)
        return C, self.c - self.g * (self.y / self.n)

    def intercept(self, beta: Array) -> float:
        """Return the mean residual mean(y) - mean(G)·beta."""
        return (self.y - float(self.g @ beta)) / self.n


def training_moments(
    feature_map: FeatureMap, X: Rows, S: Array, y: Array, w: Array | None = None
) -> Moments:
    """Return the moments of the training rows, added up block by block.

    Parameters
    ----------
    feature_map
        The map that was made from X.
    X, S, y
        Training rows (n, d), sensitive columns (n, l), target (n,).
    w
        How many rows each counts for, (n,); None is one.
    """
    parts, start = [], 0
    for G in feature_map.training_blocks(X):
        rows = slice(start, start + len(G))
        parts.append(Moments.of(G, S[rows], y[rows], None if w is None else w[rows]))
        start = rows.stop
    return reduce(add, parts)


def weighed_moments(
    feature_map: FeatureMap, X: Rows, S: Array, y: Array, weights: RowWeights
) -> tuple[Moments, Moments]:
    """Return the moments that a machine is made from, with those that decide what is removed.

    They are one where the weights are.
    """
    fit = training_moments(feature_map, X, S, y, weights.fit)
    if weights.alike:
        return fit, fit
    return fit, training_moments(feature_map, X, S, y, weights.removal)

"""Sums over rows that removal needs, in a form that adds."""

from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add

import numpy as np

from fkd.core.arrays import PANEL_ROWS, Array, row_blocks
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import gram, solved_lower, solved_on_both_sides


@dataclass(frozen=True)
class Moments:
    """Sums of products of features G, sensitive columns S with target y over the rows seen so far.

    Moments of disjoint rows add up to those of their union, as long as the feature map is one.
    """

    n: int
    C: Array  # GᵀG, (r, r)
    b: Array  # GᵀS, (r, l)
    c: Array  # Gᵀy, (r,)
    g: Array  # Gᵀ1, (r,)
    s: Array  # Sᵀ1, (l,)
    y: float  # yᵀ1
    yy: float  # yᵀy

    @classmethod
    def of(cls, G: Array, S: Array, y: Array) -> "Moments":
        """Return the moments of one block of rows."""
        return cls(
            n=len(G),
            C=gram(G),
            b=G.T @ S,
            c=G.T @ y,
            g=G.sum(axis=0),
            s=S.sum(axis=0),
            y=float(y.sum(axis=0)),
            yy=float(y @ y),
        )

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Moments)))

    def under(self, L: Array) -> "Moments":
        """Return the moments of G L⁻ᵀ: sums over raw columns become those of whitened features."""
        b, c, g = (solved_lower(L, part) for part in (self.b, self.c, self.g))
        return replace(self, C=solved_on_both_sides(L, self.C), b=b, c=c, g=g)

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


def training_moments(feature_map: FeatureMap, X: Array, S: Array, y: Array) -> Moments:
    """Return the moments of the training rows, added up block by block.

    Parameters
    ----------
    feature_map
        The map that was made from X.
    X, S, y
        Training rows (n, d), sensitive columns (n, l), target (n,).
    """
    parts, start = [], 0
    for G in feature_map.training_blocks(X):
        rows = slice(start, start + len(G))
        parts.append(Moments.of(G, S[rows], y[rows]))
        start = rows.stop
    return reduce(add, parts)

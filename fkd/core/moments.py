"""Sums over rows that removal needs, in a form that adds."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from scipy.linalg import blas

from fkd.core.arrays import BLOCK_ROWS, PANEL_ROWS, Array, Rows, row_blocks
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import (
    condition,
    gram,
    mirror_lower,
    rank_cut,
    solve_both_sides,
    solve_lower,
    spectral_norm,
)
from fkd.core.predictors import LinearCorrection
from fkd.core.weights import RowWeights, row_count, times_weights, weighted_gram, weighted_sum


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
    def from_rows(cls, G: Array, S: Array, y: Array, w: Array | None = None) -> "Moments":
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
        b, c, g = (solve_lower(L, part) for part in (self.b, self.c, self.g))
        return replace(self, C=solve_both_sides(L, self.C), b=b, c=c, g=g)

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
        parts.append(Moments.from_rows(G, S[rows], y[rows], None if w is None else w[rows]))
        start = rows.stop
    return reduce(add, parts)


def weighted_moments(
    feature_map: FeatureMap, X: Rows, S: Array, y: Array, weights: RowWeights
) -> tuple[Moments, Moments]:
    """Return the moments that a machine is made from, with those that decide what is removed.

    They are one where the weights are.
    """
    fit = training_moments(feature_map, X, S, y, weights.fit)
    if weights.alike:
        return fit, fit
    return fit, training_moments(feature_map, X, S, y, weights.removal)


# Of the basis' variance, what a legitimate column must leave for there to be something to remove.
_LEAST_LEFT = 1e-9


@dataclass(frozen=True)
class BasisMoments:
    """Sums of products of features G with columns W = (B, Z): a basis, then what is legitimate.

    Those of disjoint rows add up to those of their union, as long as map and basis are one. A row
    of weight w counts as w rows.
    """

    n: float  # rows, or the sum of their weights
    p: int  # columns of W that are the basis
    GW: Array  # GᵀW, (r, p + k)
    WW: Array  # WᵀW, (p + k, p + k)
    g: Array  # Gᵀ1, (r,)
    w: Array  # Wᵀ1, (p + k,)
    gg: float  # sum of all squared features

    @classmethod
    def from_rows(
        cls, G: Array, B: Array, Z: Array | None = None, w: Array | None = None
    ) -> "BasisMoments":
        """Return the sums of one block of rows, each counted w times."""
        W = B if Z is None else np.hstack([B, Z])
        weighed = times_weights(W, w)
        return cls(
            n=row_count(len(G), w),
            p=B.shape[1],
            GW=G.T @ weighed,
            WW=W.T @ weighed,
            g=weighted_sum(G, w),
            w=weighed.sum(axis=0),
            gg=_squares(G, w),
        )

    def __add__(self, other: "BasisMoments") -> "BasisMoments":
        added = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return BasisMoments(**{**added, "p": self.p})

    def under(self, L: Array, squares: float) -> "BasisMoments":
        """Return the sums of G L⁻ᵀ, whose squares sum up to `squares`: products alone tell not."""
        return replace(self, GW=solve_lower(L, self.GW), g=solve_lower(L, self.g), gg=squares)

    @property
    def scale(self) -> float:
        """The largest covariance that features and basis of this size could have."""
        return float(np.sqrt(self.gg * self.WW.diagonal()[: self.p].sum(axis=0))) / self.n

    def covariance(self) -> Array:
        """Return T, the covariance of features with the basis beyond what is legitimate, (r, p)."""
        T = (self.GW - np.outer(self.g, self.w / self.n)) / self.n
        return T[:, : self.p] - T[:, self.p :] @ self._legitimate()

    def products(self) -> Array:
        """Return n T, what a removal path takes for GᵀS."""
        return np.asarray(self.n * self.covariance())

    @property
    def left(self) -> float:
        """The share of the basis' variance that lies beyond what is legitimate."""
        M = self._variances()
        variance = float(M.diagonal()[: self.p].sum(axis=0))
        known = float(np.einsum("ij,ij->", self._legitimate(), M[self.p :, : self.p]))
        return 1.0 - known / variance if variance > 0 else 1.0

    def _variances(self) -> Array:
        """Return the covariance matrix of W."""
        return np.asarray((self.WW - np.outer(self.w, self.w / self.n)) / self.n)

    def _legitimate(self) -> Array:
        """Return the coefficients of least squares that give the basis from Z, (k, p)."""
        M = self._variances()
        if len(M) == self.p:
            return np.empty((0, self.p))
        S_zz, S_zb = M[self.p :, self.p :], M[self.p :, : self.p]
        lam, Q = np.linalg.eigh(S_zz)
        # Splines add up to one and legitimate columns may repeat each other.
        keep = lam > rank_cut(max(self.n, len(lam)), float(lam[-1]))
        found = np.asarray(Q[:, keep] @ ((Q[:, keep].T @ S_zb) / lam[keep, None]))
        variance = M.diagonal()[: self.p].sum(axis=0)
        left = variance - np.einsum("ij,ij->", found, S_zb)
        if variance > 0 and left <= _LEAST_LEFT * variance:
            raise ValueError(
                "given must leave something of the sensitive features to remove, but what it names "
                "determines them; name columns that are not the sensitive ones"
            )
        return found


def _squares(G: Array, w: Array | None) -> float:
    """Return the sum of all squared features."""
    if w is None:
        return float(np.einsum("ij,ij->", G, G))
    return float(w @ np.einsum("ij,ij->i", G, G))


def basis_moments(
    feature_map: FeatureMap,
    X: Rows,
    B: Array,
    Z: Array | None = None,
    w: Array | None = None,
) -> BasisMoments:
    """Return the sums of the training rows X, added up block by block.

    Parameters
    ----------
    feature_map
        The map that was made from X.
    X, B, Z
        Training rows (n, d), basis (n, p), legitimate columns (n, k).
    w
        How many rows each counts for, (n,); None is one.
    """
    parts: list[BasisMoments] = []
    start = 0
    for G in feature_map.training_blocks(X):
        rows = slice(start, start + len(G))
        further = (None if part is None else part[rows] for part in (Z, w))
        parts.append(BasisMoments.from_rows(G, B[rows], *further))
        start = rows.stop
    return reduce(add, parts)


# How features enter a sum: as kernel values in single or double precision, whitened once in the
# sum; or whitened row by row, which costs as much as the sum itself but loses the least.
SumPrecision = Literal["float32", "float64", "rows"]
SUM_PRECISIONS: tuple[SumPrecision, ...] = ("float32", "float64", "rows")


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
        How they enter the sum, one of `SUM_PRECISIONS`.
    widths
        Columns of S, then of each W.
    """

    def __init__(self, feature_map: FeatureMap, way: SumPrecision, widths: Sequence[int]) -> None:
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

    def basis_moments(self, index: int, p: int) -> BasisMoments:
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


def whitened(feature_map: FeatureMap, way: SumPrecision, moments: Moments) -> Moments:
    """Return the moments of the map's features from those of what entered the sum."""
    L = feature_map.whitening
    return moments if L is None or way == "rows" else moments.under(L)


def whitened_products(
    feature_map: FeatureMap, way: SumPrecision, sums: BasisMoments, squares: float
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


# Share of the smallest ridge that rounding may reach: small directions rest on the ridge alone.
TOLERANCE = 0.05
# Rows from which on it pays to give up digits: below, single precision would save seconds.
SINGLE_ROWS = 2**18
_RAW: tuple[SumPrecision, ...] = ("float32", "float64")


@dataclass(frozen=True)
class Rounding:
    """What sums of kernel values lose when they are whitened, a row, in the spectral norm of GᵀG.

    Rounding of kernel values is the same for equal rows, hence does not average out: the error of
    n rows is n times that of one.
    """

    single: float
    double: float
    condition: float  # of the landmarks' kernel matrix

    def fastest(self, n: int, ridge: float) -> SumPrecision:
        """Return the fastest way whose error on n rows stays small beside the smallest ridge."""
        most = TOLERANCE * ridge / n
        if n >= SINGLE_ROWS and self.single <= most:
            return "float32"
        return "float64" if self.double <= most else "rows"


def measure_rounding(feature_map: FeatureMap, X: Rows) -> Rounding:
    """Return what sums under a map lose, measured on a block of rows from all over X."""
    L = feature_map.whitening
    if L is None:
        return Rounding(0.0, 0.0, 1.0)
    # Evenly spaced, since tables are often sorted: the first rows may be of one kind.
    n = X.shape[0]
    X = X[np.linspace(0, n - 1, num=min(n, BLOCK_ROWS), dtype=np.intp)]
    exact = gram(feature_map.transform(X))
    single, double = (
        spectral_norm((_gram(feature_map, X, way) - exact).__matmul__, len(L)) / X.shape[0]
        for way in _RAW
    )
    return Rounding(single, double, condition(L))


def _gram(feature_map: FeatureMap, X: Rows, way: SumPrecision) -> Array:
    """Return GᵀG of rows, summed in one way."""
    nothing = np.zeros((X.shape[0], 1))
    sums = StreamedSums(feature_map, way, [1])
    sums.add(X, nothing, nothing[:, 0])
    return whitened(feature_map, way, sums.moments()).C

"""Moments: the sums over rows from which removals and ridge regression are computed.

- `Moments`: products of features with themselves, the sensitive columns and the target.
- `BasisMoments`: products of features with functions B(s) and with conditioning columns Z.
- `StreamedSums`: both for rows that arrive in blocks, from one symmetric product per block.
- `Rounding`: the error of sums of kernel values, which decides in which precision to sum.

Moments of disjoint rows under one feature map add up to the moments of all rows. A row of weight w
counts as w rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add

import numpy as np
from scipy.linalg import blas

from fkd.core.arrays import BLOCK_ROWS, PANEL_ROWS, Array, Rows, row_blocks
from fkd.core.feature_maps import FeatureMap, SumPrecision
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
    """Sums over rows of products of features G, sensitive columns S and target y."""

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
        """Return the moments of one block of rows with weights w."""
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

    def whiten(self, L: Array) -> "Moments":
        """Return the moments of G L⁻ᵀ from those of raw columns G."""
        b, c, g = (solve_lower(L, part) for part in (self.b, self.c, self.g))
        return replace(self, C=solve_both_sides(L, self.C), b=b, c=c, g=g)

    def with_target(self, level: float, unit: float) -> "Moments":
        """Return the moments with the target (y - level) / unit."""
        squares = self.yy - 2 * level * self.y + self.n * level**2
        return replace(
            self,
            c=(self.c - level * self.g) / unit,
            y=(self.y - self.n * level) / unit,
            yy=squares / unit**2,
        )

    def corrected(self, by: LinearCorrection) -> "Moments":
        """Return the moments of corrected features G - U Lᵀ with U = (G - mean) R.

        The correction must return as many columns as it takes.
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
        """Return GᵀS, or Gᵀ(S - mean) if `center`."""
        return self.b - np.outer(self.g, self.s / self.n) if center else self.b

    def normal_equations(self, *, fit_intercept: bool) -> tuple[Array, Array]:
        """Return GᵀG and Gᵀy, of centred columns if an intercept is fitted."""
        if not fit_intercept:
            return self.C, self.c
        C = np.array(self.C, order="F")  # the order of LAPACK, which may overwrite it
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
    """Return the moments of the training rows, summed block by block.

    Parameters
    ----------
    feature_map
        The feature map of X.
    X, S, y
        Training rows (n, d), sensitive columns (n, l), target (n,).
    w
        Weights of the rows, (n,); None is 1 for each.
    """
    parts = (
        Moments.from_rows(G, S[rows], y[rows], None if w is None else w[rows])
        for rows, G in feature_map.training_slices(X)
    )
    return reduce(add, parts)


def weighted_moments(
    feature_map: FeatureMap, X: Rows, S: Array, y: Array, weights: RowWeights
) -> tuple[Moments, Moments]:
    """Return the moments for the machine and those for the removal.

    Both are the same object if the weights are.
    """
    fit = training_moments(feature_map, X, S, y, weights.fit)
    if weights.alike:
        return fit, fit
    return fit, training_moments(feature_map, X, S, y, weights.removal)


# Smallest share of the variance of B that conditioning columns may leave.
_LEAST_LEFT = 1e-9


@dataclass(frozen=True)
class BasisMoments:
    """Sums over rows of products of features G with W = (B, Z): functions of s, conditioning.

    The moments of disjoint rows add up if they share the feature map and the functions.
    """

    n: float  # rows, or the sum of their weights
    p: int  # columns of B
    GW: Array  # GᵀW, (r, p + k)
    WW: Array  # WᵀW, (p + k, p + k)
    g: Array  # Gᵀ1, (r,)
    w: Array  # Wᵀ1, (p + k,)
    gg: float  # sum of all squared features

    @classmethod
    def from_rows(
        cls, G: Array, B: Array, Z: Array | None = None, w: Array | None = None
    ) -> "BasisMoments":
        """Return the moments of one block of rows with weights w."""
        W = B if Z is None else np.hstack([B, Z])
        weighed = times_weights(W, w)
        if w is None:
            gg = float(np.einsum("ij,ij->", G, G))
        else:
            gg = float(w @ np.einsum("ij,ij->i", G, G))
        return cls(
            n=row_count(len(G), w),
            p=B.shape[1],
            GW=G.T @ weighed,
            WW=W.T @ weighed,
            g=weighted_sum(G, w),
            w=weighed.sum(axis=0),
            gg=gg,
        )

    def __add__(self, other: "BasisMoments") -> "BasisMoments":
        added = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return BasisMoments(**{**added, "p": self.p})

    def whiten(self, L: Array, squares: float) -> "BasisMoments":
        """Return the moments of G L⁻ᵀ, given the sum of their squares."""
        return replace(self, GW=solve_lower(L, self.GW), g=solve_lower(L, self.g), gg=squares)

    @property
    def scale(self) -> float:
        """An upper bound on the norm of the covariance of features and functions of this size."""
        return float(np.sqrt(self.gg * self.WW.diagonal()[: self.p].sum(axis=0))) / self.n

    def covariance(self) -> Array:
        """Return T, the covariance of the features with B after regression of B on Z, (r, p)."""
        T = (self.GW - np.outer(self.g, self.w / self.n)) / self.n
        return T[:, : self.p] - T[:, self.p :] @ self._conditioning()

    def products(self) -> Array:
        """Return n T, which replaces GᵀS in a removal path."""
        return np.asarray(self.n * self.covariance())

    @property
    def remaining_share(self) -> float:
        """The share of the variance of B that Z does not explain."""
        M = self._variances()
        variance = float(M.diagonal()[: self.p].sum(axis=0))
        explained = float(np.einsum("ij,ij->", self._conditioning(), M[self.p :, : self.p]))
        return 1.0 - explained / variance if variance > 0 else 1.0

    def _variances(self) -> Array:
        """Return the covariance matrix of W."""
        return np.asarray((self.WW - np.outer(self.w, self.w / self.n)) / self.n)

    def _conditioning(self) -> Array:
        """Return the least-squares coefficients of B on Z, (k, p)."""
        M = self._variances()
        if len(M) == self.p:
            return np.empty((0, self.p))
        S_zz, S_zb = M[self.p :, self.p :], M[self.p :, : self.p]
        lam, Q = np.linalg.eigh(S_zz)
        # Splines add up to one and conditioning columns may be dependent.
        keep = lam > rank_cut(max(self.n, len(lam)), float(lam[-1]))
        found = np.asarray(Q[:, keep] @ ((Q[:, keep].T @ S_zb) / lam[keep, None]))
        variance = M.diagonal()[: self.p].sum(axis=0)
        left = variance - np.einsum("ij,ij->", found, S_zb)
        if variance > 0 and left <= _LEAST_LEFT * variance:
            raise ValueError(
                "given must leave something of the sensitive features to remove, but its columns "
                "determine them. Name columns that are not the sensitive ones"
            )
        return found


def basis_moments(
    feature_map: FeatureMap, X: Rows, B: Array, Z: Array | None = None, w: Array | None = None
) -> BasisMoments:
    """Return the moments of the training rows X, summed block by block.

    Parameters
    ----------
    feature_map
        The feature map of X.
    X, B, Z
        Training rows (n, d), functions of s (n, p), conditioning columns (n, k).
    w
        Weights of the rows, (n,); None is 1 for each.
    """

    def parts() -> Iterator[BasisMoments]:
        for rows, G in feature_map.training_slices(X):
            further = (None if part is None else part[rows] for part in (Z, w))
            yield BasisMoments.from_rows(G, B[rows], *further)

    return reduce(add, parts())


class StreamedSums:
    """Running sums AᵀA of rows A = (F, S, y, 1), with F the raw features, and FᵀW for each W.

    Rows are multiplied by the root of their weight before any product. Nearly all of the cost is
    AᵀA. Each W has a product of its own: in a shared product its width would change the rounding
    of the other sums.

    Parameters
    ----------
    feature_map
        The map whose features are summed.
    precision
        How they enter the sum, one of `SUM_PRECISIONS`.
    widths
        Columns of S, then of each W.
    """

    def __init__(
        self, feature_map: FeatureMap, precision: SumPrecision, widths: Sequence[int]
    ) -> None:
        self._map, self._precision = feature_map, precision
        r, (l, *further) = feature_map.rank, widths
        self._S, self._y, self._one = slice(r, r + l), r + l, r + l + 1
        self._P = np.zeros((r + l + 2, r + l + 2), order="F")
        self._products = [_Products.zeros(r, p) for p in further]
        self._rows = np.empty((BLOCK_ROWS, r + l + 2))
        self._n: float = 0

    def add(
        self, X: Rows, S: Array, y: Array, W: Sequence[Array] = (), *, weights: Array | None = None
    ) -> None:
        """Add rows.

        Parameters
        ----------
        X, S, y, W
            Rows (k, d), sensitive columns (k, l), target (k,), the columns of each W.
        weights
            Weights of the rows, (k,); None is 1 for each.
        """
        self._n += row_count(X.shape[0], weights)
        roots = None if weights is None else np.sqrt(weights)
        for rows in row_blocks(X.shape[0], BLOCK_ROWS):
            A = self._rows[: rows.stop - rows.start]
            self._map.raw(X[rows], A[:, : self._map.rank], precision=self._precision)
            A[:, self._S], A[:, self._y], A[:, self._one] = S[rows], y[rows], 1.0
            root = None if roots is None else roots[rows]
            if root is not None:
                A *= root[:, None]
            for products, columns in zip(self._products, W, strict=True):
                products.add(A[:, : self._map.rank], columns[rows], root)
            self._P = blas.dsyrk(1.0, A.T, beta=1.0, c=self._P, lower=1, overwrite_c=1)

    def moments(self) -> Moments:
        """Return the moments of the raw features; see `whitened`."""
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
        """Return the moments against one W, of which the first p columns are functions of s."""
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
    """Running sums against the columns of one W."""

    GW: Array
    WW: Array
    w: Array

    @classmethod
    def zeros(cls, r: int, p: int) -> "_Products":
        return cls(np.zeros((r, p)), np.zeros((p, p)), np.zeros(p))

    def add(self, F: Array, W: Array, root: Array | None) -> None:
        """Add rows, given their features times the root of their weight."""
        W = np.ascontiguousarray(times_weights(W, root))
        for total, part in (
            (self.GW, F.T @ W),
            (self.WW, W.T @ W),
            (self.w, weighted_sum(W, root)),
        ):
            total += part


def whitened(feature_map: FeatureMap, precision: SumPrecision, moments: Moments) -> Moments:
    """Return the moments of the map's features from streamed moments."""
    L = feature_map.whitening
    return moments if L is None or precision == "rows" else moments.whiten(L)


def whitened_products(
    feature_map: FeatureMap, precision: SumPrecision, sums: BasisMoments, squares: float
) -> BasisMoments:
    """Return the basis moments of the map's features from streamed ones.

    `squares` is the sum of all squared features, which products of raw columns do not contain.
    """
    L = feature_map.whitening
    return sums if L is None or precision == "rows" else sums.whiten(L, squares)


# Largest rounding error as a share of the smallest ridge, which alone supports small directions.
TOLERANCE = 0.05
# Fewest rows for single precision. With fewer rows it saves seconds only.
SINGLE_ROWS = 2**18


@dataclass(frozen=True)
class Rounding:
    """Error of GᵀG from whitened sums of kernel values, per row, in the spectral norm.

    Kernel values of equal rows have equal rounding errors, which do not average out. The error of
    n rows is therefore n times that of one.
    """

    single: float
    double: float
    condition: float  # of the landmarks' kernel matrix

    def fastest(self, n: int, ridge: float) -> SumPrecision:
        """Return the fastest precision whose error on n rows is far below the smallest ridge."""
        most = TOLERANCE * ridge / n
        if n >= SINGLE_ROWS and self.single <= most:
            return "float32"
        return "float64" if self.double <= most else "rows"


def measure_rounding(feature_map: FeatureMap, X: Rows) -> Rounding:
    """Return the errors of sums under a map, measured on a block of rows from all parts of X."""
    L = feature_map.whitening
    if L is None:
        return Rounding(0.0, 0.0, 1.0)
    # Evenly spaced, since tables are often sorted.
    n = X.shape[0]
    X = X[np.linspace(0, n - 1, num=min(n, BLOCK_ROWS), dtype=np.intp)]
    exact = gram(feature_map.transform(X))
    single, double = (
        spectral_norm((_gram(feature_map, X, precision) - exact).__matmul__, len(L)) / X.shape[0]
        for precision in ("float32", "float64")
    )
    return Rounding(single, double, condition(L))


def _gram(feature_map: FeatureMap, X: Rows, precision: SumPrecision) -> Array:
    """Return GᵀG, summed in one precision."""
    zeros = np.zeros((X.shape[0], 1))
    sums = StreamedSums(feature_map, precision, [1])
    sums.add(X, zeros, zeros[:, 0])
    return whitened(feature_map, precision, sums.moments()).C

"""Fair Kernel Decomposition: directions of a kernel's features, and the kernel without them.

Features and moments
    A feature map represents the kernel by features G (n, r) with K = G Gᵀ, eq. (3) of Störck,
    Hinder & Hammer (2026). Functions B(s) of the sensitive columns are those that a prediction
    should not depend on; in the paper B(s) = s. A removal is computed from sums over rows alone:
    C = GᵀG and b = GᵀB (`fkd.core.moments`).

Path
    The paper fits B by ridge regression on the features, eq. (5), whose weights are
    w = Gᵀ(G Gᵀ + aI)⁻¹B = (C + aI)⁻¹b, eq. (6). It removes the direction w from the features,
    eq. (7) and (8), and repeats this m times, eq. (9). With D = (C + aI)⁻¹ the weights of the
    first m rounds span the Krylov space {D b, D² b, ..., Dᵐ b}, and each round's weights are
    orthogonal to the earlier ones (proof in docs/explanation/maths.md). An orthonormal basis V of
    these spaces is the block Lanczos basis of D started at D b. One factorisation therefore serves
    every m, and the directions of m rounds are the first columns of those of m + 1.

Shrinkage
    A machine with the regulariser wᵀ(I + mu T Tᵀ)w instead of |w|² pays for the covariance of its
    prediction with each function, T being the covariance of G with B(s). This is the machine with
    the kernel G (I + mu T Tᵀ)⁻¹Gᵀ (docs/explanation/shrinkage.md). With the left singular vectors V
    of T and its squared singular values t, a shrinkage removes the share d = mu t / (1 + mu t) of
    each direction.

Fair kernel
    Both are directions V with shares d in [0, 1]; a path has d = 1. With
    P = I - V diag(d) Vᵀ the fair kernel is G P Gᵀ = K - F diag(d) Fᵀ for F = G V, eq. (10), and
    the fair features are G P^½ = G - (G V) diag(1 - √(1 - d)) Vᵀ.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, Array, Rows, row_blocks
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import DEFLATION, ShiftedInverse, cancels, downdate, project, rank_cut
from fkd.core.moments import BasisMoments, Moments
from fkd.core.validation import positive, whole


@dataclass(frozen=True)
class Directions:
    """Removed directions of the features, with the share that is removed of each."""

    V: Array  # (r, w), orthonormal columns
    shares: Array  # d, (w,), in [0, 1]
    kept: Array  # 1 - d, (w,), stored because 1.0 - shares has no digits left near d = 1

    @classmethod
    def whole(cls, V: Array) -> "Directions":
        """Return the directions V with share 1 each."""
        return cls(V, np.ones(V.shape[1]), np.zeros(V.shape[1]))

    @property
    def width(self) -> int:
        """The number of directions."""
        return int(self.V.shape[1])

    @property
    def gone(self) -> Array:
        """The directions with share 1, (r, v)."""
        return np.asarray(self.V[:, self.kept == 0])

    def features(self, G: Array) -> Array:
        """Return the fair features G P^½, whose inner products are the fair kernel."""
        # eq. (8) and (9) for shares of 1
        return project(G, self.V, 1.0 - np.sqrt(self.kept))

    def weights(self, beta: Array) -> Array:
        """Return P beta, the weights on plain features of a function of the fair kernel."""
        return np.asarray(project(beta[None, :], self.V, self.shares)[0])

    def subtracted(self, F: Array) -> Array:
        """Return F diag(d)^½ for F = G V, the factor that is subtracted from the kernel."""
        return np.asarray(F * np.sqrt(self.shares))


class Removals(Protocol):
    """The directions of every strength; strength 0 is the plain kernel."""

    nested: ClassVar[bool]
    """True if a strength removes the first columns of V entirely, as a path does."""

    @property
    def V(self) -> Array:
        """The directions of all strengths, (r, w)."""

    def at(self, strength: float) -> Directions:
        """Return the directions that one strength removes."""


@dataclass(frozen=True)
class RemovalPath:
    """Nested directions: m iterations remove the first `width(m)` columns of U."""

    nested: ClassVar[bool] = True

    U: Array  # (r, w), Fortran-ordered
    ends: tuple[int, ...]  # columns removed after 0, 1, 2, ... iterations
    exhausted: bool = False  # True if a further iteration would find no new direction

    @classmethod
    def nothing(cls, r: int) -> "RemovalPath":
        """Return the path of length 0 in r features: the plain kernel."""
        return cls(np.empty((r, 0), order="F"), (0,))

    @property
    def V(self) -> Array:
        """The directions of all iterations, U."""
        return self.U

    @property
    def effective(self) -> int:
        """The number of iterations that found a new direction."""
        return len(self.ends) - 1

    def width(self, m: float) -> int:
        """Return the number of directions that m iterations remove.

        An exhausted path accepts any m, another one refuses an m beyond its length.
        """
        m = whole("iterations", m, low=0)
        if m > self.effective and not self.exhausted:
            raise ValueError(
                f"iterations must be at most {self.effective}, the length of this removal path, "
                f"got {m}. Fit a longer path"
            )
        return self.ends[min(m, self.effective)]

    def at(self, strength: float) -> Directions:
        """Return the directions of the first m iterations with share 1 each."""
        return Directions.whole(self.U[:, : self.width(strength)])

    def head(self, m: int) -> "RemovalPath":
        """Return the path of the first m iterations, which shares the array."""
        return RemovalPath(self.at(m).V, self.ends[: m + 1], self.exhausted and m >= self.effective)


def removal_path(
    moments: Moments,
    *,
    ridge: float,
    iterations: int,
    center_sensitive: bool = False,
    independent: bool = True,
) -> RemovalPath:
    """Return the removal path of Fair Kernel Decomposition, Algorithm 1 of the paper.

    Parameters
    ----------
    moments
        Moments of the training rows.
    ridge
        Ridge a of the removal regression, eq. (5), above 0.
    iterations
        Length of the path. It is shorter if no direction is left to remove.
    center_sensitive
        Fit S minus its mean instead of S.
    independent
        Set to False if the features of the training rows may be linearly dependent. C may then be
        singular and is decomposed first. Features of landmarks are independent.
    """
    ridge, m = positive("ridge", ridge), whole("iterations", iterations, low=0)
    b = moments.sensitive(center=center_sensitive)
    if not independent:
        return _path_in_range(moments, b, ridge=ridge, iterations=m)
    C, D = moments.C, ShiftedInverse.from_matrix(moments.C, ridge)
    heavy = ridge > C.trace() / len(C)
    # D b are the weights w of eq. (6).
    return block_lanczos(D @ b, (lambda B: D @ (C @ B)) if heavy else D.__matmul__, iterations=m)


def _path_in_range(moments: Moments, b: Array, *, ridge: float, iterations: int) -> RemovalPath:
    """Return the path within the range of a singular C.

    Rounding errors outside the range grow by the factor λmax / ridge per iteration and would
    eventually replace the directions to remove.
    """
    lam, Q = np.linalg.eigh(moments.C)
    keep = lam > rank_cut(max(moments.n, len(lam)), float(lam[-1]))
    lam, Q = lam[keep, None], Q[:, keep]
    heavy = ridge > float(lam.mean(axis=None)) if len(lam) else False
    step = (lambda B: B * (lam / (lam + ridge))) if heavy else (lambda B: B / (lam + ridge))
    inner = block_lanczos(Q.T @ b / (lam + ridge), step, iterations=iterations)
    # Column by column, so that a longer path has bitwise the same first columns.
    U = np.empty((len(Q), inner.U.shape[1]), order="F")
    for j, u in enumerate(inner.U.T):
        U[:, j] = Q @ u
    return RemovalPath(U, inner.ends, inner.exhausted)


def block_lanczos(start: Array, step: Callable[[Array], Array], *, iterations: int) -> RemovalPath:
    """Return orthonormal blocks of which the first m span {B, A B, ..., Aᵐ⁻¹ B}, B being the start.

    A column without a new part is dropped (deflation), so that a block may be narrower than the
    start. The path ends at the first empty block.

    Parameters
    ----------
    start
        D b, (r, l).
    step
        A symmetric operator: D, or D C if the ridge is larger than the mean eigenvalue of C. Both
        span the same spaces, since D C = I - ridge·D. With a large ridge D is close to a multiple
        of the identity, and new directions would consist of rounding errors; with a small ridge
        this holds for D C.
    iterations
        Length of the path.
    """
    U, ends, block = empty_basis(start, iterations), [0], start
    for i in range(iterations):
        # A is symmetric: A times a block is orthogonal to all but the last two blocks.
        near = ends[-3] if len(ends) > 2 else 0
        w = extend_basis(U, ends[-1], step(block) if i else start, near=near)
        if w == ends[-1]:
            return RemovalPath(U[:, :w], tuple(ends), exhausted=True)
        block = U[:, ends[-1] : w]
        ends.append(w)
    return RemovalPath(U[:, : ends[-1]], tuple(ends), exhausted=ends[-1] == len(start))


def empty_basis(b: Array, iterations: int) -> Array:
    """Return an uninitialised basis with a block as wide as b for each iteration."""
    r, l = b.shape
    # Column-major: a longer path never changes the columns before it, not even in the last bit.
    return np.empty((r, min(r, iterations * l)), order="F")


def extend_basis(U: Array, w: int, V: Array, *, near: int = 0) -> int:
    """Append the columns of V to the orthonormal basis U[:, :w] and return its new width.

    Columns whose part orthogonal to the basis is rounding error are skipped.

    Parameters
    ----------
    U, w
        Array of the basis, number of columns in use. New columns are written behind them.
    V
        New columns.
    near
        Columns of U before this one are orthogonal to V up to rounding.
    """
    for v in V.T:
        before = np.linalg.norm(v)
        # Gram-Schmidt twice: the second pass removes the rounding error of the first.
        v = v - U[:, near:w] @ (U[:, near:w].T @ v)
        v = v - U[:, :w] @ (U[:, :w].T @ v)
        left = np.linalg.norm(v)
        if left > DEFLATION * before and w < U.shape[1]:
            U[:, w] = v / left
            w += 1
    return w


# Upper limit of mu t: the share of an infinite product would be inf·0.
_LARGEST_PRODUCT = 1e300


@dataclass(frozen=True)
class Shrinkage:
    """Left singular vectors of the covariance T, with its squared singular values."""

    V: Array  # (r, w), orthonormal
    t: Array  # (w,), above 0, descending

    nested: ClassVar[bool] = False

    def at(self, strength: float) -> Directions:
        """Return the directions with shares d = mu t / (1 + mu t), d = 1 for mu = inf."""
        mu = float(strength)
        if not mu >= 0:
            raise ValueError(f"mu must not be negative, got {strength!r}. 0 is the plain kernel")
        if np.isinf(mu):
            return Directions.whole(self.V)
        with np.errstate(over="ignore"):
            x = np.minimum(mu * self.t, _LARGEST_PRODUCT)
        kept = 1.0 / (1.0 + x)
        return Directions(self.V, x * kept, kept)


def shrinkage(sums: BasisMoments) -> Shrinkage:
    """Return the directions along which a prediction can covary with the functions B(s).

    One thin singular value decomposition of T serves every mu. T Tᵀ would square its condition
    number. Singular values of the size of rounding errors are dropped, since mu = inf would remove
    their directions too.
    """
    T = sums.covariance()
    V, sigma, _ = np.linalg.svd(T, full_matrices=False)
    keep = sigma > rank_cut(max(sums.n, *T.shape), sums.scale)
    return Shrinkage(np.asfortranarray(V[:, keep]), sigma[keep] ** 2)


def fair_features(feature_map: FeatureMap, X: Rows, removed: Directions) -> Array:
    """Return the fair features of the training rows X, (n, r)."""
    return np.concatenate([removed.features(G) for G in feature_map.training_blocks(X)])


def fair_gram(feature_map: FeatureMap, X: Rows, removed: Directions, K: Array) -> Array:
    """Return the kernel matrix of the fair features of the training rows X, exactly symmetric.

    Parameters
    ----------
    feature_map, X, removed
        Feature map, training rows (n, d), removed directions.
    K
        Kernel matrix of the plain features. K - F diag(d) Fᵀ would cancel if most of K is removed;
        the product of the fair features is used then.
    """
    # eq. (10)
    F = removed.subtracted(feature_map.training_product(X, removed.V))
    if not cancels(K.diagonal(), F):
        return downdate(K, F)
    G = fair_features(feature_map, X, removed)
    return np.asarray(G @ G.T)


@dataclass(frozen=True)
class FairFeatures:
    """A feature map after a removal. Of the training rows it keeps the centres of the map only."""

    feature_map: FeatureMap
    removed: Directions

    def head(self, removed: Directions) -> Self:
        """Return the features of other directions of the same removal; arrays are shared."""
        return replace(self, removed=removed)

    def features(self, X: Rows) -> Array:
        """Return the fair features of X, (k, r)."""
        blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        return np.concatenate(
            [self.removed.features(self.feature_map.transform(X[rows])) for rows in blocks]
        )

    def training_features(self, X: Rows) -> Array:
        """Return the fair features of the training rows of the map, (n, r)."""
        return fair_features(self.feature_map, X, self.removed)

    def diag(self, X: Rows) -> Array:
        """Return the fair kernel k(x, x) of each row."""
        G = self.feature_map.transform(X)
        fair = self.removed.features(G)
        unrepresented = self.feature_map.unrepresented(X, G)
        return np.asarray(unrepresented + np.einsum("ij,ij->i", fair, fair))


@dataclass(frozen=True)
class FairKernel(FairFeatures):
    """A kernel after a removal, evaluated against its training rows."""

    X: Rows  # training rows, (n, d)
    F: Array  # G V over the training rows, (n, w)
    squares: Array  # k(x, x) of the training rows, (n,)

    @classmethod
    def from_rows(cls, feature_map: FeatureMap, X: Rows, removed: Directions) -> Self:
        """Return the fair kernel of the training rows X."""
        squares = [np.einsum("ij,ij->i", G, G) for G in feature_map.training_blocks(X)]
        F = feature_map.training_product(X, removed.V)
        return cls(feature_map, removed, X, F, np.concatenate(squares))

    def head(self, removed: Directions) -> Self:
        """Return the kernel of other directions of the same removal; arrays are shared."""
        return replace(self, removed=removed, F=self.F[:, : removed.width])

    def gram(self) -> Array:
        """Return the fair kernel matrix of the training rows, exactly symmetric."""
        K = self.feature_map.training_gram(self.X)
        return fair_gram(self.feature_map, self.X, self.removed, K)

    def block(self, X: Rows) -> Array:
        """Return the fair kernel of X against the training rows, (k, n)."""
        if cancels(self.squares, self.removed.subtracted(self.F)):
            return self.features(X) @ self.training_features(self.X).T
        block = self.feature_map.cross(X, self.X)
        block -= self.feature_map.product(X, self.removed.V) @ (self.F * self.removed.shares).T
        return block


# A penalty is the price of one squared covariance of the prediction with a function of s, in units
# of the machine's mean loss. Each machine minimises its loss plus a multiple of
# wᵀ(I + mu T Tᵀ)w, and mu follows from that multiple (docs/explanation/shrinkage.md). n is
# the number of rows, or the sum of their weights.


def ridge_mu(penalty: float, *, n: float, alpha: float) -> float:
    """Return mu of kernel ridge regression: mean squared error + penalty·covariance².

    The objective is the sum of squares + alpha·wᵀ(I + mu T Tᵀ)w, divided by n. For a Gaussian
    process alpha is the ratio of noise to amplitude.
    """
    return penalty * n / alpha


def margin_mu(penalty: float, *, n: float, C: float, unit: float = 1.0) -> float:
    """Return mu of a support vector machine: mean loss + penalty·covariance² / unit.

    The objective is ½·wᵀ(I + mu T Tᵀ)w + C·(sum of losses), divided by C n. The loss of a
    regression is linear in the target and the squared covariance is not. `unit` is therefore the
    standard deviation of the target, which makes the penalty independent of the target's unit.
    Decision values of a classifier have no unit.
    """
    return 2.0 * C * n * penalty / unit


def fkl_penalty(mu: float, *, n: float) -> float:
    """Return the penalty that corresponds to the published mu of fair kernel learning.

    The method minimises the sum of squares + alpha·|w|² + mu·|n Tᵀw|². Divided by n, the price of
    |Tᵀw|² is mu·n.
    """
    return mu * n

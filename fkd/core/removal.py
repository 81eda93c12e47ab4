"""What is taken out of a kernel: directions of its features, each with a share."""

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
    """The kernel K - F diag(d) Fᵀ with F = G V, which is all that a machine needs to know.

    A removal path takes whole directions out (d = 1); a shrinkage takes a part of each.
    """

    V: Array  # (r, w), orthonormal columns
    shares: Array  # d, (w,), in [0, 1]
    kept: Array  # 1 - d, (w,): given apart, since near d = 1 a difference would hold no digits

    @classmethod
    def whole(cls, V: Array) -> "Directions":
        """Return the directions of V, all of each."""
        return cls(V, np.ones(V.shape[1]), np.zeros(V.shape[1]))

    @property
    def width(self) -> int:
        """The number of directions."""
        return int(self.V.shape[1])

    @property
    def gone(self) -> Array:
        """The directions of which nothing is left, (r, v)."""
        return np.asarray(self.V[:, self.kept == 0])

    def features(self, G: Array) -> Array:
        """Return G P^½ with P = I - V diag(d) Vᵀ: rows whose inner products are the fair kernel."""
        return project(G, self.V, 1.0 - np.sqrt(self.kept))

    def weights(self, beta: Array) -> Array:
        """Return P beta, with which G(x)·P beta is a function of the fair kernel's space."""
        return np.asarray(project(beta[None, :], self.V, self.shares)[0])

    def subtracted(self, F: Array) -> Array:
        """Return F diag(d)^½ of F = G V, the factor of what the fair kernel lacks."""
        return np.asarray(F * np.sqrt(self.shares))


class Removals(Protocol):
    """The directions of every strength, from the plain kernel at strength 0."""

    nested: ClassVar[bool]
    """Whether the directions of a strength are the first of those of a greater one, whole."""

    @property
    def V(self) -> Array:
        """The directions of all strengths, (r, w)."""

    def at(self, strength: float) -> Directions:
        """Return what one strength takes out."""


@dataclass(frozen=True)
class RemovalPath:
    """Nested removed directions.

    The first m iterations remove the span of the first columns of U, which are orthonormal.
    """

    nested: ClassVar[bool] = True

    U: Array  # (r, w), Fortran-ordered
    ends: tuple[int, ...]  # columns removed after 0, 1, 2, ... iterations
    exhausted: bool = False  # whether further iterations would find nothing; else it was cut here

    @classmethod
    def nothing(cls, r: int) -> "RemovalPath":
        """Return the path of length 0 in r features, on which a fair machine is the plain one."""
        return cls(np.empty((r, 0), order="F"), (0,))

    @property
    def V(self) -> Array:
        """The directions of all iterations, which is what every removal calls them."""
        return self.U

    @property
    def effective(self) -> int:
        """The number of iterations that found something to remove."""
        return len(self.ends) - 1

    def width(self, m: float) -> int:
        """Return how many directions m iterations remove; a cut path refuses a longer m."""
        m = whole("iterations", m, low=0)
        if m > self.effective and not self.exhausted:
            raise ValueError(
                f"iterations must be at most {self.effective}, where this removal path was cut, "
                f"got {m}; fit a longer one"
            )
        return self.ends[min(m, self.effective)]

    def at(self, strength: float) -> Directions:
        """Return the directions of the first m iterations, whole; all of an exhausted path's."""
        return Directions.whole(self.U[:, : self.width(strength)])

    def head(self, m: int) -> "RemovalPath":
        """Return the path of the first m iterations; the array is shared."""
        return RemovalPath(self.at(m).V, self.ends[: m + 1], self.exhausted and m >= self.effective)


def removal_path(
    moments: Moments,
    *,
    ridge: float,
    iterations: int,
    center_sensitive: bool = False,
    independent: bool = True,
) -> RemovalPath:
    """Return the directions that `iterations` rounds of ridge regression on S would remove.

    Each round of Fair Kernel Decomposition fits S from what is left of the features, then projects
    the fitted weights out. The weights are the Lanczos vectors of D = (C + ridge·I)⁻¹ started at
    D b (docs/maths.md has the proof), so one factorisation serves every m.

    Parameters
    ----------
    moments
        Of the training rows.
    ridge
        Ridge of the removal regression, above 0.
    iterations
        The longest path wanted; it ends earlier where nothing is left to remove.
    center_sensitive
        Fit the deviation of S from its mean instead of S itself.
    independent
        Whether the features are linearly independent over the training rows, as those of landmarks
        are; others need an eigendecomposition first.
    """
    ridge, m = positive("ridge", ridge), whole("iterations", iterations, low=0)
    b = moments.sensitive(center=center_sensitive)
    if not independent:
        return _path_in_range(moments, b, ridge=ridge, iterations=m)
    C, D = moments.C, ShiftedInverse.of(moments.C, ridge)
    heavy = ridge > C.trace() / len(C)
    return block_lanczos(D @ b, (lambda B: D @ (C @ B)) if heavy else D.__matmul__, iterations=m)


def _path_in_range(moments: Moments, b: Array, *, ridge: float, iterations: int) -> RemovalPath:
    """Return the path within the range of a singular C.

    Rounding errors outside that range would grow by λmax / ridge per iteration until they stand in
    for the directions to remove.
    """
    lam, Q = np.linalg.eigh(moments.C)
    keep = lam > rank_cut(max(moments.n, len(lam)), float(lam[-1]))
    lam, Q = lam[keep, None], Q[:, keep]
    heavy = ridge > float(lam.mean(axis=None)) if len(lam) else False
    step = (lambda B: B * (lam / (lam + ridge))) if heavy else (lambda B: B / (lam + ridge))
    inner = block_lanczos(Q.T @ b / (lam + ridge), step, iterations=iterations)
    # Column by column, so that a longer path does not change the columns before it.
    U = np.empty((len(Q), inner.U.shape[1]), order="F")
    for j, u in enumerate(inner.U.T):
        U[:, j] = Q @ u
    return RemovalPath(U, inner.ends, inner.exhausted)


def block_lanczos(start: Array, step: Callable[[Array], Array], *, iterations: int) -> RemovalPath:
    """Return orthonormal blocks whose first m span {B, A B, ..., Aᵐ⁻¹ B}, B the start, A the step.

    A column of which nothing new is left is dropped (deflated), so blocks may become narrower
    than the start; the path ends when a block is empty.

    Parameters
    ----------
    start
        D b, (r, l).
    step
        A symmetric operator: D, or D C where the ridge outweighs C. As D C = I - ridge·D both span
        the same spaces, but D alone is then close to a multiple of the identity, which would leave
        of a new direction nothing but rounding; where the ridge is light the same holds of D C.
    iterations
        The longest path wanted.
    """
    U, ends, block = empty_basis(start, iterations), [0], start
    for i in range(iterations):
        # A is symmetric: of what came before, A times a block leans on that one and its neighbour.
        near = ends[-3] if len(ends) > 2 else 0
        w = extend_basis(U, ends[-1], step(block) if i else start, near=near)
        if w == ends[-1]:
            return RemovalPath(U[:, :w], tuple(ends), exhausted=True)
        block = U[:, ends[-1] : w]
        ends.append(w)
    return RemovalPath(U[:, : ends[-1]], tuple(ends), exhausted=ends[-1] == len(start))


def empty_basis(b: Array, iterations: int) -> Array:
    """Return room for the directions of so many blocks as wide as b."""
    r, l = b.shape
    # Column-major: a longer path never changes the columns before it, not even in the last bit.
    return np.empty((r, min(r, iterations * l)), order="F")


def extend_basis(U: Array, w: int, V: Array, *, near: int = 0) -> int:
    """Return the new width after the columns of V joined U[:, :w], each made orthonormal to it.

    Parameters
    ----------
    U, w
        Basis, of which the first w columns are in use; the new ones are written after them.
    V
        New columns.
    near
        The columns of U before this one are orthogonal to V but for rounding.
    """
    for v in V.T:
        u = _new_direction(v, U[:, :w], U[:, near:w])
        if u is not None and w < U.shape[1]:
            U[:, w] = u
            w += 1
    return w


def _new_direction(v: Array, U: Array, near: Array) -> Array | None:
    """Return the unit vector of v's part orthogonal to U, or None where that is rounding error."""
    before = np.linalg.norm(v)
    # Twice is enough: the second pass removes what rounding left of the first.
    v = v - near @ (near.T @ v)
    v = v - U @ (U.T @ v)
    left = np.linalg.norm(v)
    return v / left if left > DEFLATION * before else None


# A price beyond float64 is one: infinity times nothing would be no number.
_MOST = 1e300


@dataclass(frozen=True)
class Shrinkage:
    """The left singular vectors of the covariance T with the squares of its singular values."""

    V: Array  # (r, w), orthonormal
    t: Array  # (w,), above 0, falling

    nested: ClassVar[bool] = False

    def at(self, strength: float) -> Directions:
        """Return what a mu takes out: d = mu t / (1 + mu t); mu = inf takes all of each."""
        mu = float(strength)
        if not mu >= 0:
            raise ValueError(f"mu must not be negative, got {strength!r}; 0 is the plain kernel")
        if np.isinf(mu):
            return Directions.whole(self.V)
        with np.errstate(over="ignore"):
            x = np.minimum(mu * self.t, _MOST)
        kept = 1.0 / (1.0 + x)
        return Directions(self.V, x * kept, kept)


def shrinkage(sums: BasisMoments) -> Shrinkage:
    """Return the directions along which a prediction would covary with the basis.

    All mu share one thin singular value decomposition of T; T Tᵀ would square its conditioning.
    Singular values that rounding alone could have made are no directions: mu = inf would remove
    noise.
    """
    T = sums.covariance()
    V, sigma, _ = np.linalg.svd(T, full_matrices=False)
    cut = rank_cut(max(sums.n, *T.shape), sums.scale)
    keep = sigma > cut
    return Shrinkage(np.asfortranarray(V[:, keep]), sigma[keep] ** 2)


def fair_features(feature_map: FeatureMap, X: Rows, removed: Directions) -> Array:
    """Return the fair features of the training rows X, (n, r)."""
    return np.concatenate([removed.features(G) for G in feature_map.training_blocks(X)])


def fair_gram(feature_map: FeatureMap, X: Rows, removed: Directions, K: Array) -> Array:
    """Return the kernel matrix of the fair features of the training rows X, exactly symmetric.

    Parameters
    ----------
    feature_map, X, removed
        Map, training rows (n, d), what is taken out.
    K
        The kernel matrix of the plain features. Where little of it is left, subtracting F Fᵀ would
        leave rounding: the fair features are multiplied instead.
    """
    F = removed.subtracted(feature_map.training_product(X, removed.V))
    if not cancels(K.diagonal(), F):
        return downdate(K, F)
    G = fair_features(feature_map, X, removed)
    return np.asarray(G @ G.T)


@dataclass(frozen=True)
class FairFeatures:
    """What is left of a feature map after a removal; it needs no training row but landmarks."""

    feature_map: FeatureMap
    removed: Directions

    def head(self, removed: Directions) -> Self:
        """Return the features of other shares, or of fewer of the directions; arrays are shared."""
        return replace(self, removed=removed)

    def features(self, X: Rows) -> Array:
        """Return the fair features of X, (k, r)."""
        blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        return np.concatenate(
            [self.removed.features(self.feature_map.transform(X[rows])) for rows in blocks]
        )

    def training_features(self, X: Rows) -> Array:
        """Return the fair features of the rows that the map was made from, (n, r)."""
        return fair_features(self.feature_map, X, self.removed)

    def diag(self, X: Rows) -> Array:
        """Return the fair k(x, x) of each row."""
        G = self.feature_map.transform(X)
        beyond = self.feature_map.beyond(X, G)
        left = self.removed.features(G)
        return np.asarray(beyond + np.einsum("ij,ij->i", left, left))


@dataclass(frozen=True)
class FairKernel(FairFeatures):
    """What is left of a kernel after a removal, as blocks against the training rows."""

    X: Rows  # training rows, (n, d)
    F: Array  # G V over the training rows, (n, w)
    squares: Array  # k(x, x) of the training rows, (n,)

    @classmethod
    def of(cls, feature_map: FeatureMap, X: Rows, removed: Directions) -> Self:
        """Return the fair kernel of the training rows X."""
        squares = [np.einsum("ij,ij->i", G, G) for G in feature_map.training_blocks(X)]
        F = feature_map.training_product(X, removed.V)
        return cls(feature_map, removed, X, F, np.concatenate(squares))

    def head(self, removed: Directions) -> Self:
        """Return the kernel of other shares, or of fewer of the directions; arrays are shared."""
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


def ridge_mu(penalty: float, *, n: float, alpha: float) -> float:
    """Return mu for kernel ridge regression: mean squared error + penalty·covariance².

    Sum of squares + alpha·wᵀ(I + mu T Tᵀ)w, divided by n. A Gaussian process is one whose alpha is
    its ratio of noise to amplitude.
    """
    return penalty * n / alpha


def margin_mu(penalty: float, *, n: float, C: float, unit: float = 1.0) -> float:
    """Return mu for support vector machines: mean loss + penalty·covariance² / unit.

    ½·wᵀ(I + mu T Tᵀ)w + C·(sum of losses), divided by C n. The loss of a regression is linear in
    the target, a covariance squared is not: `unit` is the target's deviation, so that its unit
    changes nothing; a classifier's decisions have none.
    """
    return 2.0 * C * n * penalty / unit


def fkl_penalty(mu: float, *, n: float) -> float:
    """Return what the published mu of fair kernel learning is as a penalty.

    It minimises the sum of squares + alpha·|w|² + mu·|n Tᵀw|²: divided by n, the price of |Tᵀw|²
    is mu·n.
    """
    return mu * n

"""The removal path: every direction that Fair Kernel Decomposition takes out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fkd.core.arrays import Array
from fkd.core.directions import Directions
from fkd.core.linalg import DEFLATION, ShiftedInverse, rank_cut
from fkd.core.moments import Moments
from fkd.core.parameters import positive, whole


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

"""Linear algebra: factors of positive semi-definite matrices, projections, sparse products.

All cuts are relative: `rank_cut` for ranks, `DEFLATION` for new directions, `CANCELLATION` for
differences. Panels and blocks have fixed sizes, so that results do not depend on the number of
rows or columns that are processed together.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from fkd.core.arrays import PANEL_ROWS, Array, IntArray, Rows, row_blocks

EPS = float(np.finfo(np.float64).eps)
EPS_SINGLE = float(np.finfo(np.float32).eps)
# A direction of which a smaller share is new is rounding error. The Krylov basis loses at most a
# few hundred eps per step, so that any value between 1e-13 and 1e-8 separates the two.
DEFLATION = 1e-10
# Kernel matrices of callers are often symmetric to a few hundred eps only.
SYMMETRY = 1e-10
SYMMETRY_SINGLE = 1e-4
# Share of values with all digits from which a matrix counts as computed in single precision.
_LONG = 0.01
# Largest loss of accuracy of K - F Fᵀ, three of sixteen digits. Beyond it the fair features are
# multiplied, which costs a product of n x r matrices.
CANCELLATION = 1e3
_POWER_STEPS = 40
# Columns per panel of a triangular solve.
_SOLVE_ROWS = 256
# Fewest right-hand sides for which LAPACK's own solve is faster.
_MANY = 16
# Largest dense form of sparse rows, in numbers: one gigabyte.
LARGEST_DENSE = 2**27
# Numbers per tile of sparse rows that is made dense.
_TILE = 2**24


def rank_cut(n: float, largest: float, eps: float = EPS) -> float:
    """Return n·eps·largest, below which a pivot or eigenvalue counts as zero."""
    return n * eps * largest


def resolution(A: Array) -> float:
    """Return the eps of the precision, double or single, in which A was computed.

    A matrix computed in single precision is positive semi-definite to that precision only. Its
    values fit into single precision and use all of its digits. Integers and short fractions fit
    too, but are exact.
    """
    with np.errstate(over="ignore"):
        single = A.astype(np.float32)
    if not (single == A).all():
        return EPS
    long = single.view(np.int32) & 0xFF != 0  # the last third of the digits is in use
    return EPS_SINGLE if long.mean() > _LONG else EPS


def project(G: Array, U: Array, share: Array | float = 1.0) -> Array:
    """Return G - (G U) diag(share) Uᵀ for orthonormal columns U.

    A share of 1 removes the part of the rows in the span of U.
    """
    return np.asarray(G - (G @ U * share) @ U.T)


def psd_factor(K: Array, *, overwrite: bool = False) -> tuple[Array, IntArray | None]:
    """Return G (n, r) with G Gᵀ = K to rounding, and the pivots that make G[pivots] triangular.

    Parameters
    ----------
    K
        Symmetric positive semi-definite, (n, n).
    overwrite
        Write the factor to the memory of `K`, which must then be Fortran-ordered.

    Returns
    -------
    G, pivots
        Pivots are None if K has full rank: G itself is then lower triangular.
    """
    A = K if overwrite else np.array(K, order="F", dtype=np.float64)
    diagonal = A.diagonal().copy()
    cut = rank_cut(len(A), float(diagonal.max()))
    if not cut > 0:
        raise ValueError(
            "the kernel matrix must have a positive diagonal entry, "
            f"got a largest one of {diagonal.max():g}. These rows have no features"
        )
    L, info = lapack.dpotrf(A, lower=1, clean=0, overwrite_a=1)
    if info == 0 and L.diagonal().min() ** 2 > cut:
        for j in range(1, L.shape[1]):
            L[:j, j] = 0.0
        return L, None
    # The plain factor overwrote the lower triangle only: the upper one is still K.
    np.fill_diagonal(A, diagonal)
    rows = np.linspace(0, len(A) - 1, num=min(len(A), PANEL_ROWS), dtype=np.intp)
    eps = resolution(np.concatenate([A[i, i:] for i in rows]))
    return _pivoted_factor(A, rank_cut(len(A), float(diagonal.max()), eps))


def _pivoted_factor(A: Array, cut: float) -> tuple[Array, IntArray]:
    """Return the pivoted factor of the upper triangle of A, stopped at `cut`, and its pivots."""
    n = len(A)
    probe = np.cos(np.arange(n, dtype=np.float64))
    image = blas.dsymv(1.0, A, probe, lower=0)
    R, order, rank, _ = lapack.dpstrf(A, tol=cut, lower=0, overwrite_a=1)
    order = order - 1  # LAPACK counts from one
    G = np.zeros((n, rank), order="F")
    for j in range(rank):
        G[order[j:], j] = R[j, j:]
    # The residual is below the cut in each row unless K has a negative eigenvalue.
    missed = np.abs(image - G @ (G.T @ probe)).max()
    if missed > 10 * n * cut:
        raise ValueError(
            "the kernel matrix must be positive semi-definite, got one whose pivoted Cholesky "
            f"factor misses it by {missed:.1e}. Check the kernel function or the precomputed matrix"
        )
    return G, order[:rank]


def is_lower_triangular(A: Array) -> bool:
    """Return whether A is square with zeros above its diagonal."""
    # Backwards from the last column, which recognises a full matrix at once.
    return A.shape[0] == A.shape[1] and not any(
        A[:j, j].any() for j in range(A.shape[1] - 1, 0, -1)
    )


def gram(G: Array) -> Array:
    """Return C = GᵀG, at a third of the cost if G is lower triangular."""
    if not is_lower_triangular(G):
        return np.asarray(G.T @ G)
    C, _ = lapack.dlauum(G, lower=1)
    return mirror_lower(C)


def mirror_lower(A: Array) -> Array:
    """Copy the lower triangle of A to the upper one and return A."""
    for rows in row_blocks(len(A), PANEL_ROWS):
        for columns in row_blocks(rows.start, PANEL_ROWS):
            A[columns, rows] = A[rows, columns].T
        corner = A[rows, rows]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T
    return A


def solve_lower(L: Array, B: Array) -> Array:
    """Return L⁻¹ B of a lower triangular L."""
    return np.asarray(solve_triangular(L, B, lower=True, check_finite=False))


def solve_both_sides(L: Array, C: Array) -> Array:
    """Return L⁻¹ C L⁻ᵀ of a symmetric C, exactly symmetric."""
    half = solve_lower(L, C)
    return mirror_lower(np.asfortranarray(solve_lower(L, half.T)))


def spectral_norm(apply: Callable[[Array], Array], n: int) -> float:
    """Return the largest absolute eigenvalue of a symmetric (n, n) operator, to a few per cent."""
    v, size = np.cos(np.arange(n, dtype=np.float64)), 0.0
    for _ in range(_POWER_STEPS):
        v = apply(v)
        size = float(np.linalg.norm(v))
        if size == 0.0:
            break
        v = v / size
    return size


def condition(L: Array) -> float:
    """Return the condition number of L Lᵀ, to a few per cent."""

    def inverse(v: Array) -> Array:
        half = solve_lower(L, v)
        return np.asarray(solve_triangular(L, half, lower=True, trans="T", check_finite=False))

    largest = spectral_norm(lambda v: np.asarray(L @ (L.T @ v)), len(L))
    return largest * spectral_norm(inverse, len(L))


def is_symmetric(A: Array) -> bool:
    """Return whether A is square and symmetric up to usual rounding errors."""
    digits = SYMMETRY if resolution(A) == EPS else SYMMETRY_SINGLE
    tolerance = digits * float(np.abs(A).max())
    return A.shape[0] == A.shape[1] and all(
        np.abs(A[rows] - A[:, rows].T).max() <= tolerance for rows in row_blocks(len(A), PANEL_ROWS)
    )


def cancels(diagonal: Array, F: Array) -> bool:
    """Return whether K - F Fᵀ would lose too many digits, given the diagonal of K."""
    left = float(diagonal.sum(axis=0)) - float(np.einsum("ij,ij->", F, F))
    return float(diagonal.max(axis=0)) * len(diagonal) > CANCELLATION * left


def downdate(K: Array, F: Array) -> Array:
    """Return K - F Fᵀ, exactly symmetric."""
    A = np.array(K, order="F")
    if F.shape[1] > 0:
        A = blas.dsyrk(-1.0, F, beta=1.0, c=A, lower=1, overwrite_c=1)
    return mirror_lower(A)


@dataclass(frozen=True)
class ShiftedInverse:
    """The operator D = (C + a·I)⁻¹ of a positive semi-definite C, applied by ``D @ v``."""

    L: Array  # lower factor of C + a·I, (r, r); entries above its diagonal are undefined
    corners: tuple[Array, ...]  # inverses of the blocks on the diagonal of L

    @classmethod
    def from_matrix(
        cls, C: Array, a: float, *, name: str = "ridge", overwrite: bool = False
    ) -> "ShiftedInverse":
        """Return (C + a·I)⁻¹.

        Parameters
        ----------
        C, a
            Positive semi-definite (r, r), of which the lower triangle is read; the shift, above 0.
        name
            Name of a in error messages.
        overwrite
            Write the factor to the memory of `C`, which must then be Fortran-ordered.
        """
        largest = C.diagonal().max()
        A = C if overwrite else np.array(C, order="F")
        A[np.diag_indices_from(A)] += a
        L, info = lapack.dpotrf(A, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise ValueError(
                f"{name} must be larger than the rounding error of the features (squares up to "
                f"{largest:.3g}) in float64, got {a:g}. Use a larger value"
            )
        blocks = row_blocks(len(L), _SOLVE_ROWS)
        return cls(L, tuple(lapack.dtrtri(np.tril(L[b, b]), lower=1)[0] for b in blocks))

    def __matmul__(self, B: Array) -> Array:
        if B.ndim == 2 and B.shape[1] >= _MANY:
            X, _ = lapack.dpotrs(self.L, B, lower=1)
            return np.asarray(X)
        # Two substitutions, panel by panel: products of panels run at the speed of memory, twice as
        # fast as LAPACK's own solve of one right-hand side.
        X = np.array(B, dtype=np.float64)
        panels = list(zip(row_blocks(len(X), _SOLVE_ROWS), self.corners, strict=True))
        for rows, corner in panels:
            X[rows] = corner @ X[rows]
            X[rows.stop :] -= self.L[rows.stop :, rows] @ X[rows]
        for rows, corner in reversed(panels):
            X[rows] -= self.L[rows.stop :, rows].T @ X[rows.stop :]
            X[rows] = corner.T @ X[rows]
        return X


def to_dense(X: Rows) -> Array:
    """Return rows as a dense array. Raise if it would have more than `LARGEST_DENSE` numbers."""
    if not isinstance(X, csr_array):
        return np.asarray(X)
    if X.shape[0] * X.shape[1] > LARGEST_DENSE:
        raise ValueError(
            f"X must have at most {LARGEST_DENSE} numbers, since sparse rows are made dense, got "
            f"shape {X.shape}. Pass fewer rows at a time, or fewer columns"
        )
    return np.ascontiguousarray(X.toarray(), dtype=np.float64)


def squared_norms(X: csr_array) -> Array:
    """Return |x_i|² of sparse rows."""
    return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)


def sparse_products(X: csr_array, Z: csr_array) -> Array:
    """Return x_i·z_j as a dense block, a few rows at a time."""
    columns = Z.T.tocsr()
    K = np.empty((X.shape[0], Z.shape[0]))
    for rows in row_blocks(X.shape[0], 2 * PANEL_ROWS):
        K[rows] = (X[rows] @ columns).toarray()
    return K


def sparse_distances(X: csr_array, Z: csr_array) -> Array:
    """Return |x_i - z_j|² by differences, from tiles of dense rows."""
    D = np.empty((X.shape[0], Z.shape[0]))
    size = max(1, _TILE // X.shape[1])
    for rows in row_blocks(X.shape[0], size):
        left = X[rows].toarray()
        for columns in row_blocks(Z.shape[0], size):
            D[rows, columns] = cdist(left, Z[columns].toarray(), metric="sqeuclidean")
    return D

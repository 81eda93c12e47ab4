"""Kernel functions, evaluated block against block."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from fkd.core.arrays import PANEL_ROWS, AnyArray, Array, row_blocks
from fkd.core.linalg import mirror_lower

KernelFunction = Callable[[AnyArray, AnyArray], AnyArray]
KERNELS = ("rbf", "laplacian", "polynomial", "linear", "precomputed")
# Error of an exponent beyond which distances are taken row by row: no larger than that which makes
# a kernel matrix indefinite; in single precision, whose kernels are so anyway, what would be seen.
_LARGEST_ERROR = {"float64": 1e-11, "float32": 1e-2}


@dataclass(frozen=True)
class Kernel:
    """A positive semi-definite function k(x, z).

    Parameters
    ----------
    name
        ``"rbf"`` exp(-gamma |x-z|²), ``"laplacian"`` exp(-gamma |x-z|₁), ``"polynomial"``
        (gamma x·z + coef0)^degree, ``"linear"`` x·z, ``"precomputed"`` (rows of X are kernel values
        against all training rows), or a function of two blocks of rows that returns their kernel
        matrix.
    """

    name: str | KernelFunction
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    def __call__(self, X: AnyArray, Z: AnyArray) -> AnyArray:
        """Return the block k(x_i, z_j); float32 rows of X give a float32 block."""
        Z = Z if Z.dtype == X.dtype else Z.astype(X.dtype)
        if self.name == "rbf":
            return _rbf(X, Z, self.gamma)
        if self.name == "laplacian":
            return _exp_scaled(
                cdist(X, Z, metric="cityblock").astype(X.dtype, copy=False), self.gamma
            )
        if self.name == "precomputed":
            return X[:, Z[:, 0].astype(np.intp)]
        with np.errstate(over="ignore", invalid="ignore"):
            return _checked(self._products(X, Z), (len(X), len(Z)))

    def _products(self, X: AnyArray, Z: AnyArray) -> AnyArray:
        """Return a block of one of the kernels whose values can overflow."""
        if callable(self.name):
            # A copy: the function may keep what it returned, and blocks are written over.
            return np.array(self.name(X, Z), dtype=X.dtype)
        K = X @ Z.T
        if self.name == "polynomial":
            K *= self.gamma
            K += self.coef0
            K **= self.degree
        return np.asarray(K)

    def rows(self, X: Array) -> Array:
        """Return what stands for training rows as centres: the rows, or their column numbers."""
        if self.name == "precomputed":
            return np.arange(len(X), dtype=np.float64)[:, None]
        return X

    def gram(self, X: Array) -> Array:
        """Return the symmetric kernel matrix of training rows, Fortran-ordered and our own."""
        # Row-major and symmetric, so its transpose is the same matrix in Fortran order.
        K = np.ascontiguousarray(self(X, self.rows(X))).T
        if self.name in ("rbf", "laplacian"):
            np.fill_diagonal(K, 1.0)
        elif self.name == "precomputed" or callable(self.name):
            # What comes from outside is often symmetric to rounding only.
            mirror_lower(K)
        return K

    def diag(self, X: Array) -> Array:
        """Return k(x_i, x_i)."""
        if self.name in ("rbf", "laplacian"):
            return np.ones(len(X))
        if self.name == "precomputed":
            raise ValueError(
                "diag needs k(x, x) of new rows, which a precomputed kernel block does not hold; "
                "pass the kernel by name or as a function"
            )
        if callable(self.name):
            return np.array([self(x, x)[0, 0] for x in X[:, None, :]])
        squares = np.einsum("ij,ij->i", X, X)
        if self.name == "linear":
            return np.asarray(squares)
        return np.asarray((self.gamma * squares + self.coef0) ** self.degree)


def _rbf(X: AnyArray, Z: AnyArray, gamma: float) -> AnyArray:
    """Return exp(-gamma |x-z|²), from centred rows so that a common offset costs no digits."""
    centre = Z.mean(axis=0)
    same = X is Z
    X = X - centre
    Z = X if same else Z - centre
    x2 = np.einsum("ij,ij->i", X, X)
    z2 = x2 if same else np.einsum("ij,ij->i", Z, Z)
    if _cancels(x2, z2, gamma):
        # Groups of rows far apart: |x|² + |z|² - 2 x·z would lose the distances within each.
        D = cdist(X, Z, metric="sqeuclidean").astype(X.dtype, copy=False)
        return _exp_scaled(D, gamma)
    K = X @ Z.T
    for rows in row_blocks(len(X), PANEL_ROWS):
        panel = K[rows]
        panel *= -2.0
        # One sum per pair, so that the block of equal rows is exactly symmetric.
        panel += x2[rows, None] + z2
        np.maximum(panel, 0.0, out=panel)
    return _exp_scaled(K, gamma)


def _cancels(x2: AnyArray, z2: AnyArray, gamma: float) -> bool:
    """Return whether squared norms of this size leave too little of gamma times a distance."""
    if not len(x2) or not len(z2):
        return False
    unit = float(np.finfo(x2.dtype).eps)
    return gamma * unit * float(x2.max() + z2.max()) > _LARGEST_ERROR[x2.dtype.name]


def _exp_scaled(D: AnyArray, gamma: float) -> AnyArray:
    """Return exp(-gamma D), written over D."""
    # A huge gamma overflows to -inf, of which exp is the right limit, zero.
    with np.errstate(over="ignore"):
        for rows in row_blocks(len(D), PANEL_ROWS):
            panel = D[rows]
            panel *= -gamma
            np.exp(panel, out=panel)
    return D


def _checked(K: AnyArray, shape: tuple[int, int]) -> AnyArray:
    """Return K, refused unless it has this shape with finite values."""
    if K.shape != shape:
        raise ValueError(
            f"a kernel function must return one value per pair of rows, shape {shape}, "
            f"got {K.shape}; it is called with two blocks of rows"
        )
    if not np.isfinite(K).all():
        raise ValueError("kernel values must be finite, got NaN or infinity; scale the inputs")
    return K

"""Kernel functions k(x, z), evaluated for blocks of rows, dense or sparse.

`Kernel` is the function with its parameters; `KernelColumns` evaluates it against fixed centres for
rows that arrive in blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from fkd.core.arrays import PANEL_ROWS, AnyArray, Array, Rows, row_blocks
from fkd.core.linalg import mirror_lower, sparse_distances, sparse_products, squared_norms

KernelFunction = Callable[[AnyArray, AnyArray], AnyArray]
KERNELS = ("rbf", "laplacian", "polynomial", "linear", "precomputed")
# Functions of products and norms, which sparse rows have without a dense copy.
OF_PRODUCTS = ("rbf", "polynomial", "linear")
# Largest error of the exponent of an RBF kernel. Beyond it distances are computed by differences.
# In double precision it keeps kernel matrices positive semi-definite. Matrices in single precision
# are not, and the limit is a visible error of a kernel value.
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

    def __call__(self, X: AnyArray | csr_array, Z: AnyArray | csr_array) -> AnyArray:
        """Return the block k(x_i, z_j); float32 rows of X give a float32 block."""
        if isinstance(Z, csr_array):
            return self._values(csr_array(X, dtype=np.float64), Z)
        if isinstance(X, csr_array):
            return KernelColumns(self, Z, X.dtype == np.float32)(X)
        Z = Z if Z.dtype == X.dtype else Z.astype(X.dtype)
        # BLAS multiplies a matrix by its own transpose with another routine, which can round
        # differently from the product with a copy of the same rows.
        return self._values(X, Z.copy() if np.may_share_memory(X, Z) else Z)

    def _values(self, X: AnyArray, Z: AnyArray) -> AnyArray:
        """Return the block of rows of one precision, symmetric if X is Z."""
        if self.name == "rbf":
            rbf = _sparse_rbf if isinstance(Z, csr_array) else _rbf
            return rbf(X, Z, self.gamma)
        if self.name == "laplacian":
            return _exp_scaled(
                cdist(X, Z, metric="cityblock").astype(X.dtype, copy=False), self.gamma
            )
        if self.name == "precomputed":
            return X[:, Z[:, 0].astype(np.intp)]
        with np.errstate(over="ignore", invalid="ignore"):
            return _checked(self._products(X, Z), (X.shape[0], Z.shape[0]))

    def _products(self, X: AnyArray, Z: AnyArray) -> AnyArray:
        """Return the block of a kernel whose values can overflow."""
        if callable(self.name):
            # A copy: the function may keep its result, and blocks are modified in place.
            return np.array(self.name(X, Z), dtype=X.dtype)
        K = sparse_products(X, Z) if isinstance(Z, csr_array) else X @ Z.T
        if self.name == "polynomial":
            K *= self.gamma
            K += self.coef0
            K **= self.degree
        return np.asarray(K)

    def rows(self, X: Rows) -> Rows:
        """Return training rows as centres: the rows, or their indices if precomputed."""
        if self.name == "precomputed":
            return np.arange(X.shape[0], dtype=np.float64)[:, None]
        return X

    def gram(self, X: Rows) -> Array:
        """Return the symmetric kernel matrix of training rows as a new Fortran-ordered array."""
        # Row-major and symmetric, so its transpose is the same matrix in Fortran order.
        K = np.ascontiguousarray(self._values(X, self.rows(X))).T
        if self.name in ("rbf", "laplacian"):
            np.fill_diagonal(K, 1.0)
        if self.name == "precomputed" or callable(self.name) or isinstance(X, csr_array):
            # These are often symmetric up to rounding only.
            mirror_lower(K)
        return K

    def diag(self, X: Rows) -> Array:
        """Return k(x_i, x_i)."""
        if self.name in ("rbf", "laplacian"):
            return np.ones(X.shape[0])
        if self.name == "precomputed":
            raise ValueError(
                "diag needs k(x, x) of new rows, which a precomputed kernel does not contain. "
                "Pass the kernel by name or as a function"
            )
        if callable(self.name):
            return np.array([self(x, x)[0, 0] for x in X[:, None, :]])
        squares = squared_norms(X) if isinstance(X, csr_array) else np.einsum("ij,ij->i", X, X)
        if self.name == "linear":
            return np.asarray(squares)
        return np.asarray((self.gamma * squares + self.coef0) ** self.degree)


@dataclass(frozen=True)
class KernelColumns:
    """The functions k(·, z_j) of fixed centres, for rows that arrive in blocks.

    Sparse rows, such as indicators of categories, stay sparse: the cost of their products with the
    centres grows with their nonzero entries. Arrays of the centres alone are computed once.
    """

    kernel: Kernel
    centers: Rows  # Z, (q, d)
    single: bool = False  # compute in single precision

    def __call__(self, X: Rows, out: AnyArray | None = None) -> AnyArray:
        """Return the values of rows X, (k, q), written to `out` if given."""
        if isinstance(self.centers, csr_array):
            return _written(self.kernel(X, self.centers), out)
        if isinstance(X, csr_array) and self._stays_sparse(X):
            K = np.empty((X.shape[0], len(self.centers)), self._dtype) if out is None else out
            return self._sparse_rbf(X.astype(self._dtype, copy=False), K)
        rows = X.toarray() if isinstance(X, csr_array) else X
        if self.single and self.kernel.name in ("rbf", "laplacian"):
            # In single precision a common offset of all rows would cost digits of the distances.
            K = self.kernel((rows - self._middle).astype(np.float32), self.centers - self._middle)
        else:
            K = self.kernel(rows.astype(self._dtype, copy=False), self.centers)
        return _written(K, out)

    @property
    def _dtype(self) -> type[np.floating]:
        return np.float32 if self.single else np.float64

    @cached_property
    def _operand(self) -> AnyArray:
        """2 gamma Zᵀ, row-major as a sparse product reads it."""
        return np.ascontiguousarray((2.0 * self.kernel.gamma * self.centers.T).astype(self._dtype))

    @cached_property
    def _middle(self) -> Array:
        return np.asarray(self.centers.mean(axis=0))

    @cached_property
    def _squares(self) -> Array:
        return np.asarray(np.einsum("ij,ij->i", self.centers, self.centers))

    def _stays_sparse(self, X: csr_array) -> bool:
        """Return whether distances from products of uncentred rows are accurate enough."""
        if self.kernel.name != "rbf":
            return False
        x2, z2 = (s.astype(self._dtype) for s in (squared_norms(X), self._squares))
        return not _cancels(x2, z2, self.kernel.gamma)

    def _sparse_rbf(self, X: csr_array, K: AnyArray) -> AnyArray:
        """Return exp(2 gamma x·z - gamma |x|² - gamma |z|²), written over K."""
        gamma = self.kernel.gamma
        x2 = (-gamma * squared_norms(X)).astype(self._dtype)
        z2 = (-gamma * self._squares).astype(self._dtype)
        # A few rows at a time, so that a product stays in the cache.
        for rows in row_blocks(X.shape[0], 2 * PANEL_ROWS):
            E = X[rows] @ self._operand
            E += z2
            E += x2[rows, None]
            np.minimum(E, 0.0, out=E)
            K[rows] = np.exp(E, out=E)
        return K


def _written(K: AnyArray, out: AnyArray | None) -> AnyArray:
    """Return the values, written to `out` if given."""
    if out is None:
        return K
    out[...] = K
    return out


def _rbf(X: AnyArray, Z: AnyArray, gamma: float) -> AnyArray:
    """Return exp(-gamma |x-z|²), from centred rows so that a common offset costs no digits."""
    centre = Z.mean(axis=0)
    same = X is Z
    X = X - centre
    Z = X if same else Z - centre
    x2 = np.einsum("ij,ij->i", X, X)
    z2 = x2 if same else np.einsum("ij,ij->i", Z, Z)
    if _cancels(x2, z2, gamma):
        # If groups are far apart, |x|² + |z|² - 2 x·z loses the distances within a group.
        D = cdist(X, Z, metric="sqeuclidean").astype(X.dtype, copy=False)
        return _exp_scaled(D, gamma)
    return _exp_scaled(_distances(X @ Z.T, x2, z2), gamma)


def _sparse_rbf(X: csr_array, Z: csr_array, gamma: float) -> Array:
    """Return exp(-gamma |x-z|²) of sparse rows, without centring, which would make them dense."""
    x2, z2 = squared_norms(X), squared_norms(Z)
    if _cancels(x2, z2, gamma):
        return np.asarray(_exp_scaled(sparse_distances(X, Z), gamma))
    return np.asarray(_exp_scaled(_distances(sparse_products(X, Z), x2, z2), gamma))


def _distances(K: AnyArray, x2: AnyArray, z2: AnyArray) -> AnyArray:
    """Return |x|² + |z|² - 2 x·z, written over the products K."""
    for rows in row_blocks(len(K), PANEL_ROWS):
        panel = K[rows]
        panel *= -2.0
        # One sum per pair, so that the block of equal rows is exactly symmetric.
        panel += x2[rows, None] + z2
        np.maximum(panel, 0.0, out=panel)
    return K


def _cancels(x2: AnyArray, z2: AnyArray, gamma: float) -> bool:
    """Return whether gamma times a distance would be inaccurate with squared norms this large."""
    if not len(x2) or not len(z2):
        return False
    unit = float(np.finfo(x2.dtype).eps)
    return gamma * unit * float(x2.max() + z2.max()) > _LARGEST_ERROR[x2.dtype.name]


def _exp_scaled(D: AnyArray, gamma: float) -> AnyArray:
    """Return exp(-gamma D), written over D."""
    # A huge gamma overflows to -inf, whose exp is the correct limit 0.
    with np.errstate(over="ignore"):
        for rows in row_blocks(len(D), PANEL_ROWS):
            panel = D[rows]
            panel *= -gamma
            np.exp(panel, out=panel)
    return D


def _checked(K: AnyArray, shape: tuple[int, int]) -> AnyArray:
    """Return K. Raise unless it has this shape and finite values."""
    if K.shape != shape:
        raise ValueError(
            f"a kernel function must return one value per pair of rows, shape {shape}, "
            f"got {K.shape}. It is called with two blocks of rows"
        )
    if not np.isfinite(K).all():
        raise ValueError("kernel values must be finite, got NaN or infinity. Scale the inputs")
    return K


def stays_sparse(kernel: str | KernelFunction, approximation: str) -> bool:
    """Return whether the map of these parameters accepts sparse rows without densifying them."""
    return approximation == "fourier" or (
        approximation != "identity" and any(kernel == name for name in OF_PRODUCTS)
    )

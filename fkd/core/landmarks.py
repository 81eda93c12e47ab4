"""Choice of the rows that span a reduced feature space."""

import numpy as np
from scipy.linalg import solve_triangular

from fkd.core.arrays import Array, IntArray, Rows
from fkd.core.kernels import Kernel
from fkd.core.linalg import rank_cut

LANDMARK_METHODS = ("rpcholesky", "uniform")
# RPCholesky looks at this many rows per landmark at most; more rows hardly change its choice,
# and its memory is rows times landmarks.
ROWS_PER_LANDMARK = 20


def choose_landmarks(
    kernel: Kernel, X: Rows, q: int, *, method: str, rng: np.random.Generator
) -> IntArray:
    """Return the sorted indices of at most q rows of X."""
    if method == "uniform":
        return np.sort(rng.choice(X.shape[0], size=q, replace=False))
    sample = np.arange(X.shape[0])
    if X.shape[0] > ROWS_PER_LANDMARK * q:
        sample = np.sort(rng.choice(X.shape[0], size=ROWS_PER_LANDMARK * q, replace=False))
    return np.sort(sample[rp_cholesky(kernel, X, sample, q, rng=rng)])


def rp_cholesky(
    kernel: Kernel,
    X: Rows,
    sample: IntArray,
    q: int,
    *,
    rng: np.random.Generator,
    accuracy: float = 0.0,
) -> IntArray:
    """Return positions in `sample` picked with probability proportional to what is unexplained.

    Randomly pivoted Cholesky in its accelerated form (Epperly, Tropp, Webber 2024): a block of
    pivots is proposed at once, then thinned by rejection to what one-by-one sampling would take.
    Fewer than q come back where the rows span fewer dimensions, or where fewer leave no more than
    the share `accuracy` of what the other rows have unexplained.
    """
    rows, centers = X[sample], kernel.rows(X)[sample]
    residual = _training_diag(kernel, rows, centers)
    whole = residual.copy()
    cut = rank_cut(len(sample), float(residual.max()))
    F = np.zeros((len(sample), q), order="F")  # residual = diag(K - F Fᵀ)
    pivots: list[int] = []
    while len(pivots) < q and residual.max() > cut:
        k = len(pivots)
        if accuracy and residual.sum() <= accuracy * (whole.sum() - whole[pivots].sum()):
            break
        block = min(max(q // 10, 1), q - k)
        proposed = rng.choice(len(sample), size=block, p=residual / residual.sum())
        weights = residual[proposed]
        H = kernel(rows[proposed], centers[proposed]) - F[proposed, :k] @ F[proposed, :k].T
        # Fresh values instead of differences: a row that only rounding kept alive is now let go.
        residual[proposed] = np.maximum(H.diagonal(), 0.0)
        accepted, L = _rejection_cholesky(H, weights, rng.random(block), cut)
        if accepted.size == 0:
            continue
        new = proposed[accepted]
        columns = kernel(rows, centers[new]) - F[:, :k] @ F[new, :k].T
        F[:, k : k + len(new)] = solve_triangular(L, columns.T, lower=True).T
        residual -= np.einsum("ij,ij->i", F[:, k : k + len(new)], F[:, k : k + len(new)])
        pivots.extend(new.tolist())
        residual[pivots] = 0.0
        np.maximum(residual, 0.0, out=residual)
    return np.array(pivots, dtype=np.intp)


def _rejection_cholesky(H: Array, proposal: Array, u: Array, cut: float) -> tuple[IntArray, Array]:
    """Return the accepted positions of a proposed block, with the Cholesky factor of their part."""
    H = np.array(H)
    columns: list[Array] = []
    accepted: list[int] = []
    for i in range(len(H)):
        # H is now the residual given the accepted ones: its diagonal is the sampling weight left.
        if H[i, i] <= cut or u[i] * proposal[i] >= H[i, i]:
            continue
        column = H[:, i] / np.sqrt(H[i, i])
        H -= np.outer(column, column)
        columns.append(column)
        accepted.append(i)
    index = np.array(accepted, dtype=np.intp)
    L = np.tril(np.column_stack(columns)[index]) if accepted else np.zeros((0, 0))
    return index, L


def _training_diag(kernel: Kernel, rows: Rows, centers: Rows) -> Array:
    """Return k(x_i, x_i) of training rows, also where the kernel is precomputed."""
    if kernel.name == "precomputed":
        return np.array(rows[np.arange(len(rows)), centers[:, 0].astype(np.intp)])
    return kernel.diag(rows)

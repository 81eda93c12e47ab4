"""Selection of landmarks, the training rows that span a Nystroem map.

``"rpcholesky"`` is randomly pivoted Cholesky: a row is drawn with probability proportional to the
part of k(x, x) that the landmarks so far do not explain, which also finds rare groups.
``"uniform"`` draws rows with equal probability.
"""

import numpy as np
from scipy.linalg import solve_triangular

from fkd.core.arrays import Array, IntArray, Rows
from fkd.core.kernels import Kernel
from fkd.core.linalg import rank_cut

LANDMARK_METHODS = ("rpcholesky", "uniform")
# Largest sample of RPCholesky, in rows per landmark. More rows hardly change its choice, and its
# memory is rows times landmarks.
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
    """Return the positions in `sample` of at most q pivots of randomly pivoted Cholesky.

    This is the accelerated form (Epperly, Tropp, Webber 2024): a block of pivots is proposed at
    once and thinned by rejection to the distribution of one-by-one sampling. Sampling stops early
    if the rows span fewer dimensions, or if at most the share `accuracy` of the other rows'
    k(x, x) is unexplained.
    """
    rows, centers = X[sample], kernel.rows(X)[sample]
    residual = _training_diag(kernel, rows, centers)
    total = residual.copy()
    cut = rank_cut(len(sample), float(residual.max()))
    F = np.zeros((len(sample), q), order="F")  # residual = diag(K - F Fᵀ)
    pivots: list[int] = []
    while len(pivots) < q and residual.max() > cut:
        k = len(pivots)
        if accuracy and residual.sum() <= accuracy * (total.sum() - total[pivots].sum()):
            break
        block = min(max(q // 10, 1), q - k)
        proposed = rng.choice(len(sample), size=block, p=residual / residual.sum())
        weights = residual[proposed]
        H = kernel(rows[proposed], centers[proposed]) - F[proposed, :k] @ F[proposed, :k].T
        # Computed afresh: the running difference of an explained row can be rounding error.
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
    """Return the accepted positions of a proposed block and the Cholesky factor of their part."""
    H = np.array(H)
    columns: list[Array] = []
    accepted: list[int] = []
    for i in range(len(H)):
        # H is the residual given the accepted pivots; its diagonal holds the sampling weights.
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
    """Return k(x_i, x_i) of training rows, for precomputed kernels too."""
    if kernel.name == "precomputed":
        return np.array(rows[np.arange(len(rows)), centers[:, 0].astype(np.intp)])
    return kernel.diag(rows)

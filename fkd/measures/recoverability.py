"""Recoverability: how well other models predict the sensitive attribute from fair features.

Removal is defined by one ridge regression. Two different models, gradient-boosted trees and an RBF
kernel ridge, are therefore trained to predict s from the features. Each is trained on 60 % of the
rows, its settings are chosen on 20 %, and its R² is computed on the last 20 %.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import euclidean_distances
from threadpoolctl import threadpool_limits

from fkd.core.arrays import Array
from fkd.core.validation import as_numbers, as_sensitive, require_length
from fkd.core.weights import weighted_mean, weighted_sum
from fkd.measures.columns import drop_zero_weights, float_or_array, is_constant
from fkd.measures.groups import UndefinedMeasureError

MAX_ROWS = 4000
FEWEST_ROWS = 20
# With more columns than this, trees get the leading principal components.
MAX_TREE_COLUMNS = 200
WIDTHS = (0.25, 1.0, 4.0)  # gamma in units of 1 / median squared distance
RIDGES = (0.01, 0.1, 1.0)
# (features, sensitive columns, number of training rows, their weights, seed) -> predictions for the
# other rows, one array per setting.
Model = Callable[[Array, Array, int, Array | None, int], Iterator[Array]]


@dataclass(frozen=True)
class Recovery:
    """Held-out R² of the sensitive columns by one model, about zero if they are not recoverable.

    Parameters
    ----------
    model
        Name of the model.
    before
        R² from the features before removal, or None without these.
    after
        R² from the fair features.

    Examples
    --------
    >>> from fkd.measures import Recovery
    >>> Recovery("trees", before=0.9, after=0.1).after
    0.1
    """

    model: str
    before: float | Array | None
    after: float | Array


def recoverability(
    features: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    before: ArrayLike | None = None,
    random_state: int = 0,
    max_rows: int = MAX_ROWS,
    sample_weight: ArrayLike | None = None,
) -> tuple[Recovery, ...]:
    """Return the held-out R² of each sensitive column, by models unrelated to its removal.

    Parameters
    ----------
    features
        Fair features (n, r), used at their own scale, as in a kernel machine.
    sensitive_features
        One column (n,) or several (n, l), none of them constant.
    before
        Features of the same map before removal, for comparison, with the same rows. Features of
        another map, such as the raw inputs, differ by more than the removal.
    random_state
        Seed of the subsample and of its split: 60 % for training, 20 % for model selection, 20 %
        for the score.
    max_rows
        Larger tables are reduced to this number of rows at random.
    sample_weight
        Weights (n,), >= 0, for training and for R². Their unit does not matter. A weight of two is
        not equal to two equal rows, which could be on both sides of the split.

    Returns
    -------
    tuple of Recovery
        One per model, with floats for one sensitive column, arrays (l,) for several.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import recoverability
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> trees, ridge = recoverability(np.column_stack([f, f**2]), s)
    >>> bool(ridge.after > 0.5)
    True
    """
    G = _as_features(features, "features")
    S = as_sensitive(sensitive_features, len(G))
    G_before = None if before is None else _as_features(before, "before")
    if G_before is not None:
        require_length(G_before, len(G), "before")
    w, (G_before, G, S) = drop_zero_weights(sample_weight, G_before, G, S)
    if len(G) < FEWEST_ROWS:
        raise ValueError(
            f"features must have at least {FEWEST_ROWS} rows with a sample_weight above 0, got "
            f"{len(G)}"
        )
    rows = np.random.default_rng(random_state).permutation(len(G))[:max_rows]
    models: dict[str, Model] = {"boosted trees": _boosted_trees, "rbf ridge": _rbf_ridge}
    return tuple(
        Recovery(
            name,
            before=None if G_before is None else _score(model, G_before, S, rows, random_state, w),
            after=_score(model, G, S, rows, random_state, w),
        )
        for name, model in models.items()
    )


def _score(
    model: Model, G: Array, S: Array, rows: NDArray[np.intp], seed: int, w: Array | None
) -> float | Array:
    """Return R² on the last fifth of the rows, for the setting that is best on the fifth before."""
    G, S = G[rows], S[rows]
    n_train = 3 * len(S) // 5
    validation, test = np.array_split(np.arange(n_train, len(S)), 2)
    for part in (validation, test):
        for j, s in enumerate(S[part].T):
            if is_constant(s):
                raise UndefinedMeasureError(
                    f"sensitive_features must vary among the held-out rows, got column {j} "
                    f"constant at {s[0]} in {len(s)} rows"
                )
    w_train, w_validation, w_test = (
        None if w is None else w[rows][part] for part in (slice(n_train), validation, test)
    )
    if w_train is not None:
        # A mean of one, so that ridge and leaf sizes mean the same with and without weights.
        w_train = w_train / w_train.mean(axis=0)
    # The mean is the first candidate, so that a model without information scores about zero.
    mean = weighted_mean(S[:n_train], w_train)
    chosen = np.tile(mean, (len(test), 1))
    best = _r2(S[validation], mean, w_validation)
    for predicted in model(G, S, n_train, w_train, seed):
        score = _r2(S[validation], predicted[: len(validation)], w_validation)
        chosen = np.where(score > best, predicted[len(validation) :], chosen)
        best = np.maximum(score, best)
    return float_or_array(_r2(S[test], chosen, w_test))


def _boosted_trees(G: Array, S: Array, n_train: int, w: Array | None, seed: int) -> Iterator[Array]:
    """Yield predictions of gradient-boosted trees, after each tree."""
    # Imported here because it takes a second, which no other measure needs.
    from sklearn.ensemble import HistGradientBoostingRegressor

    G = _principal_axes(G, seed)
    trees = HistGradientBoostingRegressor(
        max_leaf_nodes=15, early_stopping=False, random_state=seed
    )
    # Threads gain little at this size and slow down on a busy machine.
    with threadpool_limits(limits=1, user_api="openmp"):
        stages = [
            list(trees.fit(G[:n_train], s[:n_train], w).staged_predict(G[n_train:])) for s in S.T
        ]
    for predictions in zip(*stages, strict=True):
        yield np.stack(predictions, axis=1)


def _rbf_ridge(G: Array, S: Array, n_train: int, w: Array | None, seed: int) -> Iterator[Array]:
    """Yield predictions of RBF kernel ridge, for each width and ridge."""
    distances = euclidean_distances(G[:n_train], G, squared=True)
    # The median is zero if most rows coincide.
    unit = float(np.median(distances, axis=None)) or 1.0
    mean = weighted_mean(S[:n_train], w)
    root = np.ones(n_train) if w is None else np.sqrt(w)
    # Reused buffers: allocating this size costs as much as the kernel itself.
    K, A = np.empty_like(distances), np.empty((n_train, n_train))
    for width in WIDTHS:
        np.exp(np.multiply(-width / unit, distances, out=K), out=K)
        for ridge in RIDGES:
            A[:] = K[:, :n_train]
            if w is not None:
                A *= np.outer(root, root)
            A.flat[:: n_train + 1] += ridge
            factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
            alpha = cho_solve(factor, root[:, None] * (S[:n_train] - mean))
            yield K[:, n_train:].T @ (root[:, None] * alpha) + mean


def _principal_axes(G: Array, seed: int) -> Array:
    """Return the features, or their leading principal components if there are too many."""
    if G.shape[1] <= MAX_TREE_COLUMNS:
        return G
    from sklearn.utils.extmath import randomized_svd

    left, lengths, _ = randomized_svd(G - G.mean(axis=0), MAX_TREE_COLUMNS, random_state=seed)
    axes: Array = left * lengths
    return axes


def _r2(S: Array, predicted: Array, w: Array | None) -> Array:
    """Return one minus residual over total sum of squares, per column."""
    residual, total = (S - predicted) ** 2, (S - weighted_mean(S, w)) ** 2
    return 1 - weighted_sum(residual, w) / weighted_sum(total, w)


def _as_features(values: ArrayLike, name: str) -> Array:
    """Return a finite matrix."""
    G = as_numbers(values, name)
    if G.ndim != 2 or G.shape[1] == 0:
        raise ValueError(f"{name} must be a matrix of at least one column, got shape {G.shape}")
    return G

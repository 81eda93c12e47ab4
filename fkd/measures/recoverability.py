"""How well other models still read the sensitive attribute from a set of features."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import euclidean_distances
from threadpoolctl import threadpool_limits

from fkd.core.arrays import Array
from fkd.core.validation import as_numbers, as_sensitive, require_length
from fkd.core.weights import weighted_mean
from fkd.measures.columns import is_constant, weighed
from fkd.measures.groups import UndefinedMeasureError

MAX_ROWS = 4000
FEWEST_ROWS = 20
# Trees look at each column by itself: beyond this many they get the leading principal axes.
MAX_TREE_COLUMNS = 200
WIDTHS = (0.25, 1.0, 4.0)  # gamma in units of 1 / median squared distance
RIDGES = (0.01, 0.1, 1.0)


@dataclass(frozen=True)
class Recovery:
    """Held-out R² of the sensitive columns by one model, at most one, about zero if unreadable.

    Parameters
    ----------
    model
        Its name.
    before
        From the features before removal, None where there were none to compare with.
    after
        From the fair features.

    Examples
    --------
    >>> from fkd.measures import Recovery
    >>> Recovery("trees", before=0.9, after=0.1).after
    0.1
    """

    model: str
    before: float | Array | None
    after: float | Array


# (features, sensitive columns, rows to learn from, their weights, seed) -> guesses of the other
# rows' columns, one after another, by models of growing or varying freedom.
Model = Callable[[Array, Array, int, Array | None, int], Iterator[Array]]


def recoverability(
    features: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    before: ArrayLike | None = None,
    random_state: int = 0,
    max_rows: int = MAX_ROWS,
    sample_weight: ArrayLike | None = None,
) -> tuple[Recovery, ...]:
    """Return the held-out R² of each sensitive column, by models that took no part in its removal.

    "Removed" should mean more than "hidden from one ridge regression". The models are
    gradient-boosted trees with an RBF kernel ridge whose width comes from the features themselves.

    Parameters
    ----------
    features
        Fair features (n, r), taken at their own scale as a kernel machine takes them.
    sensitive_features
        One column (n,) or several (n, l), none of them constant.
    before
        The features of the same map before removal, for comparison: same rows. From another map,
        such as the raw inputs, models may read more or less than any removal explains.
    random_state
        Seed of the subsample with its split: 60 % to learn from, 20 % to choose each model's
        settings by, 20 % to judge on.
    max_rows
        Rows beyond this number are left out at random, so that a report stays quick.
    sample_weight
        How much each row counts (n,), >= 0, for what is learnt and for R²; their unit does not
        matter. A row of weight two is not a row that is there twice, which models would learn
        from and be judged on at once: each row is on one side of the split.

    Returns
    -------
    tuple of Recovery
        One per model, floats for one sensitive column, arrays (l,) for several.

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
    w, (G, S, *rest) = weighed(sample_weight, G, S, *(() if G_before is None else (G_before,)))
    G_before = rest[0] if rest else None
    if len(G) < FEWEST_ROWS:
        raise ValueError(
            f"sample_weight must be above 0 in at least {FEWEST_ROWS} rows, got {len(G)} such rows"
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
    """R² on the last fifth of the rows, by the guess that is best on the fifth before."""
    G, S = G[rows], S[rows]
    learnt = 3 * len(S) // 5
    validation, test = np.array_split(np.arange(learnt, len(S)), 2)
    _require_variation(S[validation])
    _require_variation(S[test])
    # The mean comes first: where nothing can be read, no model should do worse on purpose.
    own, seen, judged = (
        None if w is None else w[rows][part] for part in (slice(learnt), validation, test)
    )
    if own is not None:
        # Of mean one, so that a ridge, or a leaf, means the same with and without them.
        own = own / own.mean(axis=0)
    mean = weighted_mean(S[:learnt], own)
    chosen = np.tile(mean, (len(test), 1))
    best = _r2(S[validation], mean, seen)
    for guess in model(G, S, learnt, own, seed):
        score = _r2(S[validation], guess[: len(validation)], seen)
        chosen = np.where(score > best, guess[len(validation) :], chosen)
        best = np.maximum(score, best)
    values = _r2(S[test], chosen, judged)
    return float(values[0]) if len(values) == 1 else values


def _boosted_trees(G: Array, S: Array, learnt: int, w: Array | None, seed: int) -> Iterator[Array]:
    """Guess by gradient-boosted trees, after each further tree."""
    # Imported when used: it costs a second that no other measure needs to pay.
    from sklearn.ensemble import HistGradientBoostingRegressor

    G = _principal_axes(G, seed)
    trees = HistGradientBoostingRegressor(
        max_leaf_nodes=15, early_stopping=False, random_state=seed
    )
    # Threads gain little at this size, while on a busy machine they wait for each other for long.
    with threadpool_limits(limits=1, user_api="openmp"):
        stages = [
            list(trees.fit(G[:learnt], s[:learnt], w).staged_predict(G[learnt:])) for s in S.T
        ]
    for guesses in zip(*stages, strict=True):
        yield np.stack(guesses, axis=1)


def _rbf_ridge(G: Array, S: Array, learnt: int, w: Array | None, seed: int) -> Iterator[Array]:
    """Guess by kernel ridge, for each width with each ridge."""
    distances = euclidean_distances(G[:learnt], G, squared=True)
    # Where all rows coincide there is no distance to scale by.
    unit = float(np.median(distances, axis=None)) or 1.0
    mean = weighted_mean(S[:learnt], w)
    root = np.ones(learnt) if w is None else np.sqrt(w)
    # Written again and again: fresh memory of this size would cost as much as the kernel itself.
    K, A = np.empty_like(distances), np.empty((learnt, learnt))
    for width in WIDTHS:
        np.exp(np.multiply(-width / unit, distances, out=K), out=K)
        for ridge in RIDGES:
            A[:] = K[:, :learnt]
            if w is not None:
                A *= np.outer(root, root)
            A.flat[:: learnt + 1] += ridge
            factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
            alpha = cho_solve(factor, root[:, None] * (S[:learnt] - mean))
            yield K[:, learnt:].T @ (root[:, None] * alpha) + mean


def _principal_axes(G: Array, seed: int) -> Array:
    """Return the features, on their leading principal axes where they are too many."""
    if G.shape[1] <= MAX_TREE_COLUMNS:
        return G
    from sklearn.utils.extmath import randomized_svd

    left, lengths, _ = randomized_svd(G - G.mean(axis=0), MAX_TREE_COLUMNS, random_state=seed)
    axes: Array = left * lengths
    return axes


def _r2(S: Array, predicted: Array, w: Array | None) -> Array:
    """One minus residual over total sum of squares, per column."""
    squares = (S - predicted) ** 2, (S - weighted_mean(S, w)) ** 2
    residual, total = (part.sum(axis=0) if w is None else w @ part for part in squares)
    r2: Array = 1 - residual / total
    return r2


def _as_features(values: ArrayLike, name: str) -> Array:
    """Return a finite matrix with enough rows to hold some out."""
    G = as_numbers(values, name)
    if G.ndim != 2 or G.shape[1] == 0:
        raise ValueError(f"{name} must be a matrix of at least one column, got shape {G.shape}")
    if len(G) < FEWEST_ROWS:
        raise ValueError(f"{name} must have at least {FEWEST_ROWS} rows, got {len(G)}")
    return G


def _require_variation(S: Array) -> None:
    """Raise for a sensitive column that rows to be judged on do not tell apart."""
    for j, s in enumerate(S.T):
        if is_constant(s):
            raise UndefinedMeasureError(
                f"sensitive_features must vary among the held-out rows, got column {j} constant "
                f"at {s[0]} in {len(s)} rows"
            )

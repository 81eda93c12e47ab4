"""Support vector machines on reduced maps of more rows than libsvm is made for."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fkd.core.arrays import AnyArray, Array, Rows
from fkd.core.feature_maps import FeatureMap
from fkd.core.moments import training_moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import Removals
from fkd.core.svm import (
    ITERATIONS,
    SINGLE_GAP,
    Loss,
    Machine,
    Precision,
    RowBlock,
    Solution,
    Source,
    gap_message,
    solve_machines,
)
from fkd.core.validation import choice, positive, step_limit

SOLVERS = ("auto", "libsvm", "batched")
# libsvm's work grows with the square of the rows: at so many it takes minutes.
LIBSVM_ROWS = 10_000
# Features of the training rows that are held from pass to pass; more are made anew for each.
HELD_BYTES = 2**31


def is_batched(solver: str, *, exact: bool, n: int) -> bool:
    """Return whether machines are solved by passes over the rows of a reduced map."""
    if choice("solver", solver, SOLVERS) == "batched" and exact:
        raise ValueError(
            "solver must be 'auto' or 'libsvm' where approximation='exact', got 'batched', which "
            "works on features; take approximation='nystroem'"
        )
    return solver == "batched" or (solver == "auto" and not exact and n > LIBSVM_ROWS)


def batched_regressions(
    feature_map: FeatureMap,
    X: Rows,
    y: Array,
    removals: Removals,
    settings: Sequence[tuple[float, float, float]],
    *,
    tol: float,
    max_iter: int,
    weights: Array | None = None,
) -> list[tuple[MapExpansion, Solution]]:
    """Return one predictor with its solution per (strength, C, epsilon), in order.

    Parameters
    ----------
    feature_map, X, y, removals, settings
        As `fkd.estimators.support_vector_regression.svr_machines` takes them.
    tol, max_iter
        The relative duality gap of each, the most passes over the rows; a gap that is not met is
        told by a ConvergenceWarning.
    weights
        How many rows each row counts for, (n,), once where None.
    """
    machines = [Machine(C, removals.at(strength), epsilon) for strength, C, epsilon in settings]
    rule: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "weights": weights}
    found = batched_solutions(feature_map, X, y, machines, loss="tube", **rule)
    names = [f"strength {s:g} with C {C:g}, epsilon {epsilon:g}" for s, C, epsilon in settings]
    tell_gaps(zip(names, found, strict=True), tol)
    return [(feature_map.expansion(one.beta, one.intercept), one) for one in found]


def batched_solutions(
    feature_map: FeatureMap,
    X: Rows,
    y: Array,
    machines: Sequence[Machine],
    *,
    loss: Loss,
    tol: float,
    max_iter: int,
    weights: Array | None = None,
) -> list[Solution]:
    """Return the solutions of machines on these rows, in order."""
    passes = step_limit("max_iter", max_iter)
    passes = ITERATIONS if passes == -1 else min(passes, ITERATIONS)
    moments = training_moments(feature_map, X, np.empty((X.shape[0], 0)), y)
    dtype: Precision = np.float32 if positive("tol", tol) >= SINGLE_GAP else np.float64
    source = map_source(feature_map, X, y, dtype, weights)
    return solve_machines(source, [moments], machines, loss=loss, tol=tol, max_iter=passes)


def tell_gaps(named: Iterable[tuple[str, Solution]], tol: float) -> None:
    """Warn where a machine missed the gap, with the worst one's name."""
    text = gap_message(list(named), tol)
    if text is not None:
        warnings.warn(text, ConvergenceWarning, stacklevel=2)


def map_source(
    feature_map: FeatureMap, X: Rows, y: Array, dtype: Precision, w: Array | None = None
) -> Source:
    """Return the rows as a solver reads them: features held, or made anew where they are many."""

    def made() -> Iterable[RowBlock]:
        start = 0
        for G in feature_map.training_blocks(X):
            block: AnyArray = G.astype(dtype, copy=False)
            rows = slice(start, start + len(G))
            yield RowBlock(block, y[rows], weights=None if w is None else w[rows])
            start = rows.stop

    if X.shape[0] * feature_map.rank * np.dtype(dtype).itemsize > HELD_BYTES:
        return made
    held = list(made())
    return lambda: held

"""A fair machine whose user names a bound on its dependence instead of a strength."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fkd.core.arrays import Array
from fkd.core.border import sensitive_matrix
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments
from fkd.estimators.bound import (
    KeptBound,
    checked_bounds,
    choose_strength,
    inner_folds,
    strengths_to_try,
)
from fkd.estimators.removal_estimator import Removal, RemovalEstimator


class BoundedEstimator(RemovalEstimator):
    """Parameters of a machine's removal: a strength, or a bound that decides it.

    Parameters
    ----------
    unfairness
        Instead of a strength a bound on what is left, such as ``{"gdp": 0.01}`` (in units of the
        target's range), ``"hgr"`` or ``"pf"``: the least of some seventeen strengths (penalties 0
        and 0.1 to 10 000; up to `iterations` on a path) whose pooled held-out predictions of five
        folds keep it, by the estimate itself, not by its interval. `strength_` is what was chosen,
        `unfairness_` what it reached on the rows that chose it, with an interval that does not
        know of the choice: new rows may exceed the bound.
    settings
        Those of `fkd.estimators.removal_parameters.RemovalParameters`.
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        unfairness: Mapping[str, float] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(kernel, **settings)
        self.unfairness = unfairness

    def _decide(self, X: Array, y: Array, sensitive_features: Any) -> float:
        """Return how much is to be taken out: what the user says, or what a bound asks for."""
        strength = self._strength()
        self.unfairness_: KeptBound | None = None
        if self.unfairness is not None:
            bounds = checked_bounds(self.unfairness)
            S = sensitive_matrix(sensitive_features, len(X))
            tried = strengths_to_try(shrinks=self._shrinks, iterations=self.iterations)
            scores = self._held_out_scores(X, y, S, tried)
            self.unfairness_ = choose_strength(bounds, tried, scores, y, S)
            strength = self.unfairness_.strength
        self.strength_ = strength
        return strength

    def _held_out_scores(self, X: Array, y: Array, S: Array, strengths: Sequence[float]) -> Array:
        """Return at each strength the scores of every row by a fit without it, (n, k, c)."""
        if self.center_sensitive:
            S = S - S.mean(axis=0)
        found: dict[int, Array] = {}
        for train, test in inner_folds(len(X)):
            columns = train if self.kernel == "precomputed" else slice(None)
            removal, moments = self._remove(
                X[train][:, columns],
                y[train],
                S[train],
                max(strengths),
                share=len(train) / len(X),
                **self._trial_map(len(X), len(train)),
            )
            scores = self._scores(removal, moments, strengths, X[test][:, columns])
            found.update(zip(test.tolist(), scores, strict=True))
        return np.stack([found[i] for i in range(len(X))])

    @abstractmethod
    def _scores(
        self, removal: Removal, moments: Moments, strengths: Sequence[float], X: Array
    ) -> Array:
        """Return what the machines of these strengths say of rows X, (k, strengths, c)."""

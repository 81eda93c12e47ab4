"""What the fair regressors have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array
from fkd.core.border import check_finite_result
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion, Predictor
from fkd.estimators.bounded_estimator import BoundedEstimator
from fkd.estimators.held_out import HeldOut, judge_scores, sample_rows, tell_collapse
from fkd.estimators.removal_estimator import Removal


class FairRegressor(RegressorMixin, BoundedEstimator):
    """A machine whose fitted form is an expansion, from a removal and a target."""

    _absolute: ClassVar[bool] = False  # whether errors count by their size or by its square
    _causes: ClassVar[str] = "alpha, gamma"  # what may make it a constant

    @abstractmethod
    def _expansions(
        self, removal: Removal, moments: Moments, strengths: Sequence[float]
    ) -> list[MapExpansion]:
        """Return the machines that are fitted at these strengths."""

    def _scores(
        self, removal: Removal, moments: Moments, strengths: Sequence[float], X: Array
    ) -> Array:
        """Return the predictions at these strengths, (k, strengths, 1)."""
        machines = self._expansions(removal, moments, strengths)
        return np.stack([machine.predict(X) for machine in machines], axis=1)[:, :, None]

    def _judge(
        self, removal: Removal, moments: Moments, X: Array, y: Array, S: Array, strength: float
    ) -> HeldOut:
        """Return what held-out rows say, the target in units of its deviation."""
        machines = self._expansions(removal, moments, [0, strength])
        before, after = (machine.predict(X)[:, None] for machine in machines)
        unit = float(removal.y.std(axis=0)) or 1.0
        # Of all constants the median has the least absolute error, the mean the least square.
        best = np.median(removal.y) if self._absolute else removal.y.mean(axis=0)
        errors = [np.abs(y - f) / unit for f in (after[:, 0], best)]
        model, dummy = errors if self._absolute else [error**2 for error in errors]
        return judge_scores(before, after, S, (model, dummy))

    def _tell_collapse(self, f: MapExpansion, removal: Removal) -> None:
        """Warn where the fitted machine says one number of all training rows."""
        unit = float(removal.y.std(axis=0))
        rows = sample_rows(len(removal.X))
        if unit > 0 and len(rows) > 1:
            tell_collapse(float(f.predict(removal.X[rows]).std(axis=0)) / unit, self._causes)

    def predict(self, X: Any) -> Array:
        """Return one prediction per row."""
        check_is_fitted(self, "expansion_")
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.expansion_.predict(self._inputs(X, reset=False))
        check_finite_result("predictions", found)
        return np.asarray(found)

    def expansion(self) -> Predictor:
        """Return the fitted predictor as plain arrays that can be stored without pickle."""
        check_is_fitted(self, "expansion_")
        fitted: Predictor = self.expansion_
        return fitted


def rescaled(f: MapExpansion, scale: float, level: float) -> MapExpansion:
    """Return scale·f + level."""
    return replace(f, coef=scale * f.coef, intercept=scale * f.intercept + level)

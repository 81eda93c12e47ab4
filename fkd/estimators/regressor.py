"""What the fair regressors have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array, Rows
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion, Predictor, TargetExpansions
from fkd.core.sentinel_values import warn_sentinels
from fkd.core.validation import check_finite_result, target_matrix, target_vector
from fkd.core.weights import (
    times_weights,
    weighted_mean,
    weighted_median,
    weighted_std,
)
from fkd.estimators.bounded_estimator import BoundedEstimator
from fkd.estimators.held_out import (
    HeldOut,
    judge_scores,
    sample_rows,
    tell_collapse,
    weighed_losses,
)
from fkd.estimators.removal_estimator import Removal

Fitted = MapExpansion | TargetExpansions


class FairRegressor(RegressorMixin, BoundedEstimator):
    """A machine whose fitted form is an expansion, from a removal and a target."""

    _absolute: ClassVar[bool] = False  # whether errors count by their size or by its square
    _causes: ClassVar[str] = "alpha, gamma"  # what may make it a constant
    _several: ClassVar[bool] = False  # whether the target may have several columns

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._several
        return tags

    def _target(self, y: Any, n: int, w: Array | None) -> Array:
        """Return (y - level) / unit, so that an offset costs no sum its digits."""
        checked = target_matrix(y, n) if self._several else target_vector(y, n)
        warn_sentinels("y", checked)
        self._level, self._unit = self._scale(checked, w)
        return np.asarray((checked - self._level) / self._unit)

    def _scale(self, y: Array, w: Array | None) -> tuple[Array, Array]:
        """Return level with unit of each target."""
        return weighted_mean(y, w), np.ones(y.shape[1:])

    def _together(self, parts: Sequence[MapExpansion]) -> Fitted:
        """Return the predictors of all targets as one, that of a single one as it is."""
        return TargetExpansions(tuple(parts)) if np.ndim(self._level) else parts[0]

    @abstractmethod
    def _expansions(
        self, removal: Removal, moments: Moments, strengths: Sequence[float]
    ) -> Sequence[Fitted]:
        """Return the machines that are fitted at these strengths."""

    def _scores(
        self, removal: Removal, moments: Moments, strengths: Sequence[float], X: Rows
    ) -> Array:
        """Return the predictions at these strengths, (k, strengths, targets)."""
        machines = self._expansions(removal, moments, strengths)
        return np.stack([_columns(machine.predict(X)) for machine in machines], axis=1)

    def _judge(
        self,
        removal: Removal,
        moments: Moments,
        X: Rows,
        y: Array,
        S: Array,
        strength: float,
        w: Array | None,
    ) -> HeldOut:
        """Return what held-out rows say, each target in units of its deviation."""
        machines = self._expansions(removal, moments, [0, strength])
        before, after = (_columns(machine.predict(X)) for machine in machines)
        known, weights = _columns(removal.y), removal.weights.fit
        unit = weighted_std(known, weights)
        # Of all constants the median has the least absolute error, the mean the least square.
        constant = weighted_median if self._absolute else weighted_mean
        best = constant(known, weights)
        errors = [np.abs(_columns(y) - f) / np.where(unit > 0, unit, 1.0) for f in (after, best)]
        model, dummy = errors if self._absolute else [error**2 for error in errors]
        losses = weighed_losses(model.mean(axis=1), dummy.mean(axis=1), w)
        return judge_scores(before, after, S, losses)

    def _tell_collapse(self, f: Fitted, removal: Removal) -> None:
        """Warn where the fitted machine says one number of all training rows."""
        unit = _columns(removal.y).std(axis=0)
        rows = sample_rows(removal.X.shape[0])
        if (unit > 0).any() and len(rows) > 1:
            spread = _columns(f.predict(removal.X[rows])).std(axis=0)
            tell_collapse(float((spread[unit > 0] / unit[unit > 0]).max()), self._causes)

    def predict(self, X: Any) -> Array:
        """Return one prediction per row, (k,), or per row and target, (k, t).

        Parameters
        ----------
        X
            Rows (k, d), or their kernel against the training rows where it is precomputed.
        """
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


def _columns(values: Array) -> Array:
    """Return one or several columns as a table."""
    return values[:, None] if values.ndim == 1 else values


def rescaled(f: Fitted, scale: Array, level: Array) -> Fitted:
    """Return scale·f + level, of each target."""
    if isinstance(f, TargetExpansions):
        each = zip(f.parts, scale, level, strict=True)
        return TargetExpansions(tuple(_rescaled(part, float(s), float(l)) for part, s, l in each))
    return _rescaled(f, float(scale), float(level))


def _rescaled(f: MapExpansion, scale: float, level: float) -> MapExpansion:
    return replace(f, coef=scale * f.coef, intercept=scale * f.intercept + level)


def target_moments(removal: Removal, moments: Moments) -> list[Moments]:
    """Return the moments with each target of a removal."""
    if removal.y.ndim == 1:
        return [moments]
    w = removal.weights.fit
    return [
        replace(
            moments,
            c=removal.feature_map.training_adjoint(removal.X, weighed),
            y=float(weighed.sum(axis=0)),
            yy=float(column @ weighed),
        )
        for column, weighed in zip(removal.y.T, times_weights(removal.y, w).T, strict=True)
    ]

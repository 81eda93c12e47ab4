"""Regression on a reduced map to which rows are added later."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from fkd.core.arrays import Array, Rows
from fkd.core.feature_maps import FeatureMap, make_map
from fkd.core.moments import BasisMoments, Moments, basis_moments, weighted_moments
from fkd.core.removal import Removals, shrinkage
from fkd.core.sentinel_values import warn_sentinels
from fkd.core.validation import column_names, sensitive_matrix, target_vector
from fkd.core.weights import RowWeights, weighted_mean
from fkd.estimators.regressor import FairRegressor
from fkd.estimators.removal_estimator import OF_MAP, Removal

# Maps whose moments add up; that of an exact kernel is made of all rows at once.
_REDUCED = ("nystroem", "fourier")


@dataclass(frozen=True)
class RowsSoFar:
    """The first rows' map, functions and units, with the sums over all rows since."""

    feature_map: FeatureMap
    functions: Callable[[Array], Array] | None  # of s; None where the columns are removed as such
    origin: Array  # subtracted from s before any sum, so that an offset costs no digits
    moments: Moments  # of the machine
    removing: Moments  # of what is removed; the same where weights count in both
    sums: BasisMoments | None


def _is_reduced(model: Any) -> bool:
    """Tell whether rows can be added; scikit-learn asks before it offers the method."""
    if model.approximation in _REDUCED:
        return True
    raise AttributeError(
        "partial_fit needs moments that add up, hence approximation='nystroem' or 'fourier', "
        f"got {model.approximation!r}"
    )


class GrowingRegressor(FairRegressor):
    """A regression made from moments alone, which those of further rows are added to."""

    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = {
        "sensitive_features": True,
        "sample_weight": True,
    }

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Return self, fitted to these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their target; X is their kernel matrix (n, n) where kernel
            is ``"precomputed"``.
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        sample_weight
            How many rows each row counts for, (n,), not negative; None is one each. A whole number
            is a row repeated, 0 one that is not there.
        """
        self.__dict__.pop("_so_far", None)
        return super().fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)

    @available_if(_is_reduced)
    def partial_fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Return self, fitted to all rows so far, of which these are the last.

        The first call decides the feature map, its landmarks among them, functions of s and what
        an offset is; they stay. Nothing is tried on held-out rows. A call of `fit` begins anew.

        Parameters
        ----------
        X, y
            Further training rows (k, d) with their target (k,).
        sensitive_features
            One or several columns (k,) or (k, l) to remove. Required.
        sample_weight
            How many rows each of these counts for, (k,), as `fit` takes it.
        """
        self._check_grows()
        known: RowsSoFar | None = self.__dict__.get("_so_far")
        first = known is None
        X = self._inputs(X, reset=first)
        there = self._present(sample_weight, X.shape[0], least=2 if first else 1)
        weights = RowWeights.from_weights(there.w, self.weigh)
        X, n = there.inputs(X), len(there)
        z = self._next_target(there.select("y", y), n, weights.fit, first=first)
        # Few further rows may all have one value; the first must have something to remove.
        s = there.select("sensitive_features", sensitive_features)
        S = sensitive_matrix(s, n, vary=first)
        warn_sentinels("sensitive_features", S, column_names(s, S.shape[1]))
        so_far = (
            self._begun(X, z, S, weights)
            if known is None
            else self._continued(known, X, z, S, weights)
        )
        so_far = self._in_units_of_all(so_far)
        strength = self._strength()
        removal = self._removal_so_far(so_far, strength)
        self.strength_, self.unfairness_, self.held_out_ = strength, None, None
        self.effective_iterations_ = getattr(removal.removals, "effective", None)
        self._settle(removal, so_far.moments, strength, tell=False)
        self._so_far = so_far
        return self

    def _check_grows(self) -> None:
        """Refuse what would need the rows of earlier calls."""
        for name in ("given", "unfairness"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} must be None in partial_fit, which keeps no rows to look at again, "
                    f"got {getattr(self, name)!r}; use fit"
                )

    def _next_target(self, y: Any, n: int, w: Array | None, *, first: bool) -> Array:
        """Return the target in the units of the rows so far, at first of these."""
        checked = target_vector(y, n)
        if first:
            return self._target(checked, n, w)
        return np.asarray((checked - self._level) / self._unit)

    def _begun(self, X: Rows, z: Array, S: Array, weights: RowWeights) -> RowsSoFar:
        """Return the sums of the first rows, whose map and functions stay."""
        feature_map = make_map(X, **{name: getattr(self, name) for name in OF_MAP})
        w = weights.removal
        functions = None if self._removes_columns else self._functions(S, w)
        origin = weighted_mean(S, w) if self.center_sensitive else np.zeros(S.shape[1])
        moments = weighted_moments(feature_map, X, S - origin, z, weights)
        sums = None if functions is None else basis_moments(feature_map, X, functions(S), w=w)
        return RowsSoFar(feature_map, functions, origin, *moments, sums)

    def _continued(
        self, known: RowsSoFar, X: Rows, z: Array, S: Array, weights: RowWeights
    ) -> RowsSoFar:
        """Return the sums with those of further rows."""
        if S.shape[1] != len(known.origin):
            raise ValueError(
                f"sensitive_features must have the {len(known.origin)} columns of the first rows, "
                f"got {S.shape[1]}"
            )
        new, removing = weighted_moments(known.feature_map, X, S - known.origin, z, weights)
        moments = known.moments + new
        one = known.moments is known.removing and new is removing
        removing = moments if one else known.removing + removing
        sums = known.sums
        if known.functions is not None and sums is not None:
            B = known.functions(S)
            sums = sums + basis_moments(known.feature_map, X, B, w=weights.removal)
        return replace(known, moments=moments, removing=removing, sums=sums)

    def _in_units_of_all(self, so_far: RowsSoFar) -> RowsSoFar:
        """Return the sums with the target in units that all rows decide, where those matter."""
        return so_far

    def _removal_so_far(self, so_far: RowsSoFar, strength: float) -> Removal:
        """Return what is taken out by the sums over all rows, of which none are left."""
        removals: Removals
        if self._shrinks and so_far.sums is not None:
            removals = shrinkage(so_far.sums)
        else:
            removals = self._path(
                so_far.feature_map, so_far.removing, so_far.sums, int(strength), 1.0
            )
        none = np.empty((0, 0))
        return Removal(none, np.empty(0), none, so_far.feature_map, removals)

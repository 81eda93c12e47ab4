"""What every fair estimator fits first: a feature map with what is taken out of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fkd.core.arrays import Array, Rows
from fkd.core.conditioning import (
    conditioning_columns,
    conditions_on_target,
    refuse_sensitive_columns,
)
from fkd.core.feature_maps import EXACT_ROWS, ExactMap, FeatureMap, make_map
from fkd.core.moments import BasisMoments, Moments, basis_moments, weighted_moments
from fkd.core.removal import RemovalPath, Removals, removal_path, shrinkage
from fkd.core.sensitive_basis import BasisSettings, centred
from fkd.core.sentinel_values import warn_sentinels
from fkd.core.validation import boolean, column_names, positive, sensitive_matrix, warn_user
from fkd.core.weights import UNWEIGHTED, RowWeights, row_count, weighted_mean
from fkd.estimators.held_out import HeldOut, split_rows
from fkd.estimators.removal_parameters import RemovalParameters

# Of all squared features that is a ridge under which ten iterations bring the dependence of ridge
# regression down on rows of any number, dimension, unit; docs/decisions/0009 has the trial.
_RIDGE = 1e-3
# A share of the functions' variance, below which what is given has explained them away.
_LEAST_LEFT = 0.1
OF_MAP = (
    "kernel",
    "gamma",
    "degree",
    "coef0",
    "approximation",
    "landmarks",
    "landmark_method",
    "random_state",
)


@dataclass(frozen=True)
class Removal:
    """Training rows with their feature map and what is taken out of it."""

    X: Rows  # (n, d)
    y: Array  # (n,), or (n, k) where there are several targets
    S: Array  # (n, l)
    feature_map: FeatureMap
    removals: Removals
    # Of the rows that they stand for: what counts per row is scaled by it in a trial.
    share: float = 1.0
    # Of the functions' variance, what lies beyond what is given.
    left: float = 1.0
    weights: RowWeights = UNWEIGHTED

    @property
    def count(self) -> float:
        """How many rows the machine is fitted to, by their weights."""
        return row_count(len(self.y), self.weights.fit)

    @property
    def exact(self) -> bool:
        """Whether the map is spanned by all training rows, which are then kept anyway."""
        return isinstance(self.feature_map, ExactMap)


class RemovalEstimator(RemovalParameters, ABC):
    """What every fair estimator does first with these parameters."""

    def _fit_removal(
        self,
        X: Rows,
        y: Array,
        sensitive_features: Any,
        strength: float,
        weights: RowWeights,
        *,
        trial: bool = True,
    ) -> tuple[Removal, Moments]:
        """Return the removal of the training rows with the machine's moments, after a trial.

        The moments come apart: they are as large as the kernel matrix, and not every machine needs
        them.
        """
        S = sensitive_matrix(sensitive_features, X.shape[0])
        warn_sentinels("sensitive_features", S, column_names(sensitive_features, S.shape[1]))
        self._check_given(X, S, sensitive_features)
        if boolean("center_sensitive", self.center_sensitive):
            # Before any sum: an offset of the columns then costs no digits.
            S = S - weighted_mean(S, weights.removal)
        self.held_out_ = self._trial(X, y, S, strength, weights) if trial else None
        # What depends on s through what is given is meant to stay.
        if self.held_out_ is not None and strength and self.given is None:
            self.held_out_.tell(*self._words(strength))
        elif self.held_out_ is not None:
            self.held_out_.tell()
        removal, moments = self._remove(X, y, S, strength, weights)
        self._tell_given(removal)
        self.effective_iterations_: int | None = None  # a shrinkage has none
        if isinstance(removal.removals, RemovalPath):
            self._tell_end(removal.removals, int(strength))
        return removal, moments

    def _words(self, strength: float) -> tuple[str, str]:
        """Return how much was taken out, with what would take out more, for people."""
        if self._shrinks:
            return f"at a penalty of {strength:g}", "a larger penalty, or another basis"
        centring = "" if self.center_sensitive else ", or center_sensitive=True"
        return f"after {strength} iterations", f"more iterations, a larger ridge{centring}"

    def _tell_end(self, path: RemovalPath, iterations: int) -> None:
        """Keep how long the path is; warn where it ended before its time."""
        self.effective_iterations_ = path.effective
        if path.effective < iterations:
            r, w = path.U.shape
            left = "holds nothing more of the sensitive features" if w < r else "is nothing"
            warn_user(
                f"the removal ended after {path.effective} of {iterations} iterations: "
                f"what is left of the features {left}"
            )

    def _check_given(self, X: Rows, S: Array, sensitive_features: Any) -> None:
        """Refuse legitimate columns that are the sensitive ones."""
        precomputed = self.kernel == "precomputed"  # which has no columns; that is said later
        if not (self.given is None or conditions_on_target(self.given) or precomputed):
            names = getattr(self, "feature_names_in_", None)
            refuse_sensitive_columns(
                self.given, names, X, S, column_names(sensitive_features, S.shape[1])
            )

    def _remove(
        self,
        X: Rows,
        y: Array,
        S: Array,
        strength: float,
        weights: RowWeights,
        *,
        share: float = 1.0,
        **changes: Any,
    ) -> tuple[Removal, Moments]:
        """Return the removal of these rows, a share of all, with the machine's moments.

        `changes` are other settings of the map.
        """
        own = {name: getattr(self, name) for name in OF_MAP}
        feature_map = make_map(X, **(own | changes))
        # Of several targets the first; their other products are taken where they are needed.
        first = y if y.ndim == 1 else y[:, 0]
        moments, removing = weighted_moments(feature_map, X, S, first, weights)
        columns = self._removes_columns and self.given is None
        sums = None if columns else self._sums(feature_map, X, y, S, weights.removal)
        removals: Removals
        if self._shrinks and sums is not None:
            removals = shrinkage(sums)
        else:
            removals = self._path(feature_map, removing, sums, int(strength), share)
        left = 1.0 if sums is None else sums.remaining_share
        return Removal(X, y, S, feature_map, removals, share, left, weights), moments

    def _path(
        self,
        feature_map: FeatureMap,
        moments: Moments,
        sums: BasisMoments | None,
        iterations: int,
        share: float,
    ) -> RemovalPath:
        """Return the removal path of the columns themselves, or of functions of them."""
        # Features that are all zero leave nothing to find under any ridge.
        ridge = _RIDGE * float(moments.C.trace()) or 1.0
        if self.ridge is not None:
            ridge = share * positive("ridge", self.ridge)
        return removal_path(
            moments if sums is None else replace(moments, b=sums.products()),
            ridge=ridge,
            iterations=iterations,
            center_sensitive=sums is None and bool(self.center_sensitive),
            independent=feature_map.independent,
        )

    @property
    def _removes_columns(self) -> bool:
        """Whether the sensitive columns themselves are removed, no functions of them."""
        return not self._shrinks and self.basis in (None, "columns")

    def _functions(self, S: Array, w: Array | None) -> Callable[[Array], Array]:
        """Return the functions of the sensitive columns that are removed, as these rows decide."""
        kind = ("rbf" if self._shrinks else "columns") if self.basis is None else self.basis
        return centred(BasisSettings(kind, self.gamma_s).fit(S, w=w), S, w)

    def _sums(
        self, feature_map: FeatureMap, X: Rows, y: Array, S: Array, w: Array | None
    ) -> BasisMoments:
        """Return products of the features with functions of the sensitive columns."""
        basis = self._functions(S, w)
        names = getattr(self, "feature_names_in_", None)
        precomputed = self.kernel == "precomputed"
        Z = conditioning_columns(self.given, names, X, y, w, precomputed=precomputed)
        return basis_moments(feature_map, X, basis(S), Z, w)

    def _tell_given(self, removal: Removal) -> None:
        """Warn where what is given leaves hardly anything to be taken out."""
        if removal.left < _LEAST_LEFT:
            warn_user(
                f"given explains all but {removal.left:.1%} of the functions of the sensitive "
                "features, so hardly anything is taken out; name fewer columns, or fit more rows"
            )

    def _trial(
        self, X: Rows, y: Array, S: Array, strength: float, weights: RowWeights
    ) -> HeldOut | None:
        """Return what held-out rows say of a fit to the others, None where they can say nothing."""
        parts = split_rows(X.shape[0], self.held_out)
        if parts is None:
            return None
        train, test = parts
        # A rare level may be missing from either part.
        S = S[:, (np.ptp(S[train], axis=0) > 0) & (np.ptp(S[test], axis=0) > 0)]
        if S.shape[1] == 0 or not self._can_learn(y[train]):
            return None
        columns = train if self.kernel == "precomputed" else slice(None)
        try:
            fitted = self._remove(
                X[train][:, columns],
                y[train],
                S[train],
                strength,
                weights.part(train),
                share=weights.share(train, X.shape[0]),
                **self._trial_map(X.shape[0], len(train)),
            )
        except ValueError:
            return None  # the fit to all rows says it in its own numbers
        w = weights.part(test).fit
        return self._judge(*fitted, X[test][:, columns], y[test], S[test], strength, w)

    def _trial_map(self, n: int, rows: int) -> dict[str, Any]:
        """Return the settings in which the map of a trial on some of n rows differs."""
        # A seed of its own: a generator that the user passed in must not be drawn from twice.
        changes: dict[str, Any] = {"random_state": 0}
        if self.approximation == "auto":
            changes["approximation"] = "exact" if n <= EXACT_ROWS else "nystroem"
        if self.landmarks is not None and self.approximation in ("nystroem", "auto"):
            changes["landmarks"] = min(self.landmarks, rows)
        return changes

    def _can_learn(self, y: Array) -> bool:
        """Return whether these targets are enough for a fit."""
        return True

    @abstractmethod
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
        """Return what held-out rows, of weights w, say of the machine that a removal leads to."""

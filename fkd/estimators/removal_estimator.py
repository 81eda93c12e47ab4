"""What every fair estimator fits first: a feature map with its removal path."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from fkd.core.arrays import Array
from fkd.core.border import check_numeric_columns, check_range, column_names, sensitive_matrix
from fkd.core.cautions import caution
from fkd.core.feature_maps import FeatureMap, make_map
from fkd.core.feature_maps.make import EXACT_ROWS
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments, training_moments
from fkd.core.parameters import positive, truth
from fkd.core.removal_path import RemovalPath, removal_path
from fkd.estimators.held_out import HeldOut, split_rows

# Of all squared features that is a ridge under which ten iterations bring the dependence of ridge
# regression down on rows of any number, dimension, unit; docs/decisions/0009 has the trial.
_RIDGE = 1e-3
_OF_MAP = (
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
    """Training rows with their feature map and removal path."""

    X: Array  # (n, d)
    y: Array  # (n,)
    S: Array  # (n, l)
    feature_map: FeatureMap
    path: RemovalPath
    # Of the rows that they stand for: what counts per row is scaled by it in a trial.
    share: float = 1.0


class RemovalEstimator(BaseEstimator, ABC):
    """Parameters of the removal, shared by the estimators of this package.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"linear"``, ``"precomputed"``, or a function
        of two blocks of rows that returns their kernel matrix.
    gamma
        Width of the kernel; None means 1 / number of inputs.
    degree, coef0
        Of the polynomial kernel.
    ridge
        Ridge of the regressions that find what to remove, above 0. A larger one removes
        more per iteration. None takes a thousandth of the sum of all squared features, so that
        neither the number of rows nor the unit of the inputs changes how much is removed. (The
        offset of the inputs counts under linear and polynomial kernels: standardise them.)
    iterations
        How often to remove; 0 leaves the kernel as it is.
    approximation
        ``"exact"``, ``"nystroem"``, ``"fourier"``, ``"identity"`` (for ``kernel="linear"``) or
        ``"auto"``: exact up to 10 000 rows, Nystroem beyond.
    landmarks
        Landmarks of the Nystroem map or number of Fourier features; None means 1000, for
        landmarks at most n.
    landmark_method
        ``"rpcholesky"`` or ``"uniform"``.
    center_sensitive
        Fit the deviation of the sensitive columns from their mean, so that neither their unit nor
        their offset changes anything. False is the published form: of the columns as they are,
        whose first removed direction is mostly their mean.
    held_out
        Share of the training rows that a trial fit leaves out, to warn where dependence on the
        sensitive features did not fall on them, where the model is worse than a constant or has
        become one. Of at most 2000 rows; none below 100 rows, where it is 0, or where no
        sensitive column varies in both parts. What was found is kept as `held_out_`; the fit
        itself uses all rows.
    random_state
        Seed of landmarks or Fourier features.
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float | None = None,
        iterations: int = 10,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        center_sensitive: bool = True,
        held_out: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge
        self.iterations = iterations
        self.approximation = approximation
        self.landmarks = landmarks
        self.landmark_method = landmark_method
        self.center_sensitive = center_sensitive
        self.held_out = held_out
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _inputs(self, X: Any, *, reset: bool) -> Array:
        """Return X as checked float64 rows; `reset` learns the columns, else they must agree."""
        check_numeric_columns("X", X)
        # One memory order, so that a data frame gives the same bits as its array.
        A = validate_data(
            self, X, dtype=np.float64, order="C", ensure_all_finite=False, reset=reset
        )
        check_range("X", A, column_names(X, A.shape[1]))
        return np.asarray(A)

    def _fit_removal(
        self,
        X: Array,
        y: Array,
        sensitive_features: Any,
        iterations: int,
        *,
        trial: bool = True,
    ) -> tuple[Removal, Moments]:
        """Return the removal of the training rows with its moments, after a trial without some.

        The moments come apart: they are as large as the kernel matrix, and not every machine needs
        them.
        """
        S = sensitive_matrix(sensitive_features, len(X))
        if truth("center_sensitive", self.center_sensitive):
            # Before any sum: an offset of the columns then costs no digits.
            S = S - S.mean(axis=0)
        self.held_out_ = self._trial(X, y, S, iterations) if trial else None
        if self.held_out_ is not None:
            self.held_out_.tell(iterations, centred=bool(self.center_sensitive))
        removal, moments = self._remove(X, y, S, iterations)
        self.effective_iterations_ = removal.path.effective
        if self.effective_iterations_ < iterations:
            r, w = removal.path.U.shape
            left = "holds nothing more of the sensitive features" if w < r else "is nothing"
            caution(
                f"the removal ended after {self.effective_iterations_} of {iterations} iterations: "
                f"what is left of the features {left}"
            )
        return removal, moments

    def _remove(
        self,
        X: Array,
        y: Array,
        S: Array,
        iterations: int,
        *,
        share: float = 1.0,
        **changes: Any,
    ) -> tuple[Removal, Moments]:
        """Return the removal of these rows, a share of all, with its moments.

        `changes` are other settings of the map.
        """
        own = {name: getattr(self, name) for name in _OF_MAP}
        feature_map = make_map(X, **(own | changes))
        moments = training_moments(feature_map, X, S, y)
        # Features that are all zero leave nothing to find under any ridge.
        ridge = _RIDGE * float(moments.C.trace()) or 1.0
        if self.ridge is not None:
            ridge = share * positive("ridge", self.ridge)
        path = removal_path(
            moments,
            ridge=ridge,
            iterations=iterations,
            center_sensitive=bool(self.center_sensitive),
            independent=feature_map.independent,
        )
        return Removal(X, y, S, feature_map, path, share), moments

    def _trial(self, X: Array, y: Array, S: Array, iterations: int) -> HeldOut | None:
        """Return what held-out rows say of a fit to the others, None where they can say nothing."""
        parts = split_rows(len(X), self.held_out)
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
                iterations,
                share=len(train) / len(X),
                **self._trial_map(len(X), len(train)),
            )
        except ValueError:
            return None  # the fit to all rows says it in its own numbers
        return self._judge(*fitted, X[test][:, columns], y[test], S[test], iterations)

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
        self, removal: Removal, moments: Moments, X: Array, y: Array, S: Array, iterations: int
    ) -> HeldOut:
        """Return what held-out rows say of the machine that a removal leads to."""

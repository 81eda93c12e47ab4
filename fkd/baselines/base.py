"""Optional packages that some methods need."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array, Rows
from fkd.core.feature_maps import FeatureMap, make_map, stays_sparse
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments, training_moments
from fkd.core.predictors import Predictor
from fkd.core.sentinel_values import warn_sentinels
from fkd.core.validation import (
    check_finite_result,
    column_names,
    sensitive_matrix,
    target_vector,
    validate_rows,
)
from fkd.core.weights import PresentRows


@dataclass(frozen=True)
class Extra:
    """An extra of this project with the packages, by import name, that a method takes from it."""

    name: str
    packages: tuple[str, ...]

    def missing(self) -> tuple[str, ...]:
        """Return the packages that are not installed; none of them is imported."""
        return tuple(package for package in self.packages if find_spec(package) is None)

    def check(self, method: str) -> None:
        """Refuse to go on with a method without the packages."""
        self.require(f"method {method}")

    def require(self, who: str) -> None:
        """Refuse to go on without the packages, naming the command that installs them."""
        if missing := self.missing():
            raise ModuleNotFoundError(
                f"{who} needs {', '.join(missing)}, not installed here; `make neural` "
                f"installs what it needs, so does `pip install '.[{self.name}]'`"
            )


NEURAL = Extra("neural", ("torch",))
LEACE = Extra("erasure", ("torch", "concept_erasure"))
FAIRLEARN = Extra("erasure", ("fairlearn",))


# scikit-learn's bases have no annotations.
# mypy: allow-subclassing-any


class RivalEstimator(BaseEstimator):
    """An estimator that looks at the sensitive features when it is fitted."""

    # Under metadata routing pipelines and searches pass them on without being told to.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {
        "sensitive_features": True,
        "sample_weight": True,
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _inputs(self, X: Any, *, reset: bool) -> Rows:
        """Return X as checked float64 rows; `reset` learns the columns, else they must agree."""
        return validate_rows(self, X, reset=reset)

    def _present(self, sample_weight: Any, n: int) -> PresentRows:
        """Return which of n rows are there, by their weights."""
        return PresentRows.from_weights(sample_weight, n)

    def _sensitive(self, there: PresentRows, sensitive_features: Any) -> Array:
        """Return the checked sensitive columns of the rows that are there."""
        s = there.select("sensitive_features", sensitive_features)
        S = sensitive_matrix(s, len(there))
        warn_sentinels("sensitive_features", S, column_names(s, S.shape[1]))
        return S


class RivalRegressor(RegressorMixin, RivalEstimator):
    """A rival whose fitted form is a predictor of plain arrays."""

    __metadata_request__score: ClassVar[dict[str, bool]] = {"sample_weight": True}

    def _rows(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[Array, Array, Array, Array | None]:
        """Return checked training rows, target, sensitive columns, weights."""
        X = self._inputs(X, reset=True)
        there = self._present(sample_weight, X.shape[0])
        z = target_vector(there.select("y", y), len(there))
        warn_sentinels("y", z)
        S = self._sensitive(there, sensitive_features)
        return there.inputs(X), z, S, there.w

    def predict(self, X: Any) -> Array:
        """Return one prediction per row.

        Parameters
        ----------
        X
            Rows (k, d).
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


class KernelRival(RivalRegressor):
    """A rival on a kernel with its feature map."""

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.landmarks = landmarks
        self.landmark_method = landmark_method
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _inputs(self, X: Any, *, reset: bool) -> Rows:
        """Return X as checked float64 rows; `reset` learns the columns, else they must agree."""
        sparse = stays_sparse(self.kernel, self.approximation)
        return validate_rows(self, X, reset=reset, sparse=sparse)

    def _present(self, sample_weight: Any, n: int) -> PresentRows:
        """Return which of n rows are there, by their weights."""
        return PresentRows.from_weights(sample_weight, n, precomputed=self.kernel == "precomputed")

    def _reduced(self, X: Array, y: Array, S: Array, w: Array | None) -> tuple[FeatureMap, Moments]:
        """Return the map of the training rows with its moments."""
        feature_map = make_map(
            X,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            approximation=self.approximation,
            landmarks=self.landmarks,
            landmark_method=self.landmark_method,
            random_state=self.random_state,
        )
        return feature_map, training_moments(feature_map, X, S, y, w)


# Repeated rows that still fit into memory with some hundred columns.
MOST_REPEATED = 1 << 23


def repeated(A: Array, w: Array | None) -> Array:
    """Return rows repeated as often as whole weights say, for a method that knows no others."""
    if w is None:
        return A
    if (w != np.floor(w)).any():
        i = int(np.flatnonzero(w != np.floor(w))[0])
        raise ValueError(
            "sample_weight must be whole numbers for this method, which repeats rows as it cannot "
            f"weigh them, got {w[i]:g}; round the weights"
        )
    if w.sum(axis=0) > MOST_REPEATED:
        raise ValueError(
            f"sample_weight must sum to at most {MOST_REPEATED} for this method, which repeats "
            f"rows, got {w.sum(axis=0):g}; divide the weights by their least one and round"
        )
    return np.repeat(A, w.astype(np.intp), axis=0)


def in_range(S: Array) -> Array:
    """Return sensitive columns in units of their range, from 0: what published widths are in."""
    low = S.min(axis=0)
    return np.asarray((S - low) / (S.max(axis=0) - low))

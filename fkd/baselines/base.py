"""Base classes of the baselines, and the optional packages that some of them need.

`validate_training` returns the rows of a fit as `Training`. Regressors keep their fitted form as a
predictor, `expansion_`.
"""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array
from fkd.core.feature_maps import KernelSettings
from fkd.core.kernels import KernelFunction
from fkd.core.predictors import MapExpansion, Predictor, predict_rows
from fkd.core.ridge import RidgeSetting
from fkd.core.sentinel_values import warn_sentinels
from fkd.core.training import Training
from fkd.core.validation import (
    boolean,
    column_names,
    sensitive_matrix,
    target_vector,
    validate_rows,
)
from fkd.core.weights import PresentRows, RowWeights, weighted_mean


@dataclass(frozen=True)
class Extra:
    """An extra of this project, with the packages (by import name) that a baseline needs of it."""

    name: str
    packages: tuple[str, ...]

    def missing(self) -> tuple[str, ...]:
        """Return the packages that are not installed, without importing any."""
        return tuple(package for package in self.packages if find_spec(package) is None)

    def check(self, name: str) -> None:
        """Raise if a method or estimator of this name lacks a package."""
        if missing := self.missing():
            raise ModuleNotFoundError(
                f"{name} needs {', '.join(missing)}, not installed here. Run `make neural` or "
                f"`pip install '.[{self.name}]'`"
            )


NEURAL = Extra("neural", ("torch",))
LEACE = Extra("erasure", ("torch", "concept_erasure"))
FAIRLEARN = Extra("erasure", ("fairlearn",))

# Most rows after repetition, which fit into memory with some hundred columns.
MOST_REPEATED = 1 << 23
# Pipelines and searches pass both on under metadata routing.
_FIT_METADATA = {"sensitive_features": True, "sample_weight": True}


def validate_training(
    estimator: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> Training:
    """Return the training rows with a positive weight; the target of a transformer is 0."""
    X = validate_rows(estimator, X, reset=True)
    precomputed = getattr(estimator, "kernel", None) == "precomputed"
    present = PresentRows.from_weights(sample_weight, X.shape[0], precomputed=precomputed)
    z = np.zeros(len(present))
    if not isinstance(estimator, BaselineTransformer):
        z = target_vector(present.select("y", y), len(present))
        warn_sentinels("y", z)
    values = present.select("sensitive_features", sensitive_features)
    S = sensitive_matrix(values, len(present))
    warn_sentinels("sensitive_features", S, column_names(values, S.shape[1]))
    seed = getattr(estimator, "random_state", None)
    return Training(present.inputs(X), z, S, seed, RowWeights(present.w, present.w))


class BaselineRegressor(RegressorMixin, BaseEstimator):
    """A regression whose fitted form is a predictor of plain arrays."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = _FIT_METADATA
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sample_weight": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags

    def predict(self, X: Any) -> Array:
        """Return one prediction per row, (k,).

        Parameters
        ----------
        X
            Rows (k, d), or their kernel against the training rows if it is precomputed.
        """
        return predict_rows(self, X)

    def expansion(self) -> Predictor:
        """Return the fitted predictor as plain arrays that can be stored without pickle."""
        check_is_fitted(self, "expansion_")
        fitted: Predictor = self.expansion_
        return fitted


@dataclass(eq=False, repr=False)
class KernelBaseline(BaselineRegressor, ABC):
    """A kernel ridge regression; a subclass implements `_fit_rows`.

    Parameters
    ----------
    gamma
        Width of the kernel, above 0; None means 1 / number of inputs.
    degree, coef0
        Parameters of the polynomial kernel.
    approximation
        How the kernel is represented: ``"exact"``, ``"nystroem"``, ``"fourier"``,
        ``"identity"`` (for ``kernel="linear"``) or ``"auto"``: exact up to 10 000 rows.
    landmarks, landmark_method
        Number of landmarks of the Nystroem map (chosen by ``"rpcholesky"`` or ``"uniform"``)
        or of Fourier features; None means 1000, and at most n landmarks.
    random_state
        Seed of landmarks or Fourier features.
    """

    kernel: str | KernelFunction = "rbf"
    _: KW_ONLY
    alpha: float = 1.0
    fit_intercept: bool = True
    gamma: float | None = None
    degree: int = 3
    coef0: float = 1.0
    approximation: str = "exact"
    landmarks: int | None = None
    landmark_method: str = "rpcholesky"
    random_state: Any = None

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fit to training rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) and their target (n,).
        sensitive_features
            One or several columns (n,) or (n, l). Required.
        sample_weight
            Weights of the rows, (n,), not negative; None is 1 for each. A row of weight 2 counts
            as two rows, a row of weight 0 is left out.
        """
        training = validate_training(self, X, y, sensitive_features, sample_weight)
        level = 0.0
        if boolean("fit_intercept", self.fit_intercept):
            # Before any sum, so that an offset of the target costs no digits.
            level = float(weighted_mean(training.y, training.weights.fit))
        kernel = KernelSettings.from_estimator(self, training.X.shape[0])
        setting = RidgeSetting(kernel, None, 0, self.alpha, self.fit_intercept)
        found = self._fit_rows(replace(training, y=training.y - level), setting)
        self.expansion_ = replace(found, intercept=found.intercept + level)
        return self

    @abstractmethod
    def _fit_rows(self, training: Training, setting: RidgeSetting) -> MapExpansion:
        """Return the predictor, from the setting of the plain regression without removal."""


class BaselineTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """A transformer that removes information on the sensitive columns from the inputs."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = _FIT_METADATA

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def repeat_rows(A: Array, w: Array | None) -> Array:
    """Return the rows of A, each as often as its weight, for methods that cannot weight rows."""
    if w is None:
        return A
    if (w != np.floor(w)).any():
        raise ValueError(
            "sample_weight must be whole numbers for this method, which repeats rows, got "
            f"{w[w != np.floor(w)][0]:g}. Round the weights"
        )
    if w.sum(axis=0) > MOST_REPEATED:
        raise ValueError(
            f"sample_weight must sum to at most {MOST_REPEATED} for this method, which repeats "
            f"rows, got {w.sum(axis=0):g}. Divide the weights by the smallest one and round"
        )
    return np.repeat(A, w.astype(np.intp), axis=0)


def scale_to_range(S: Array) -> Array:
    """Return the columns scaled to [0, 1], the unit of published kernel widths."""
    low = S.min(axis=0)
    return np.asarray((S - low) / (S.max(axis=0) - low))

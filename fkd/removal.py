"""What every fair estimator fits first: a feature map with its removal path."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from fkd.arrays import Array
from fkd.feature_maps import FeatureMap, make_map
from fkd.kernels import KernelFunction
from fkd.moments import Moments, training_moments
from fkd.path import RemovalPath, removal_path
from fkd.validation import check_numeric_columns, check_range, column_names, sensitive_matrix


class RemovalEstimator(BaseEstimator):
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
        more per iteration.
    iterations
        How often to remove; 0 leaves the kernel as it is.
    approximation
        ``"exact"``, ``"nystroem"``, ``"fourier"``, ``"identity"`` (the kernel is then linear) or
        ``"auto"``: exact up to 10 000 rows, Nystroem beyond.
    landmarks
        Landmarks of the Nystroem map or number of Fourier features; None means 1000, for
        landmarks at most n.
    landmark_method
        ``"rpcholesky"`` or ``"uniform"``.
    center_sensitive
        Fit the deviation of the sensitive columns from their mean instead of the columns.
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
        ridge: float = 0.1,
        iterations: int = 10,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        center_sensitive: bool = False,
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

    def _removal_parameters(self) -> dict[str, Any]:
        """Return the parameters of the removal alone."""
        names = RemovalEstimator._get_param_names()
        return {name: getattr(self, name) for name in names}

    def _fit_map(self, X: Array) -> FeatureMap:
        """Return the feature map of the training rows."""
        return make_map(
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

    def _fit_removal(
        self, X: Array, y: Array, sensitive_features: Any, iterations: int
    ) -> tuple[FeatureMap, Moments, RemovalPath]:
        """Return map, moments, path of the training rows; the effective length is kept."""
        S = sensitive_matrix(sensitive_features, len(X))
        feature_map = self._fit_map(X)
        moments = training_moments(feature_map, X, S, y)
        path = removal_path(
            moments,
            ridge=self.ridge,
            iterations=iterations,
            center_sensitive=self.center_sensitive,
            independent=feature_map.independent,
        )
        self.effective_iterations_ = path.effective
        return feature_map, moments, path

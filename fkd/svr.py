"""Support vector regression on fair kernels."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.svm import SVR
from sklearn.utils.validation import check_is_fitted

from fkd.arrays import Array
from fkd.expansion import Predictor
from fkd.feature_maps import ExactMap, FeatureMap
from fkd.kernels import KernelFunction
from fkd.linalg import downdate
from fkd.path import RemovalPath
from fkd.removal import RemovalEstimator
from fkd.validation import finite, positive, target_vector

# Beyond this many rows of a reduced map libsvm multiplies features itself: slower per row than
# reading a kernel matrix, but without its memory.
PRECOMPUTED_ROWS = 10_000
LIBSVM_TOL = 1e-3  # libsvm's own default, named because published numbers depend on it


def svr_expansions(
    feature_map: FeatureMap,
    X: Array,
    y: Array,
    path: RemovalPath,
    settings: Sequence[tuple[int, float, float]],
) -> Iterator[Predictor]:
    """Yield one predictor per (m, C, epsilon) in `settings`, in order.

    Parameters
    ----------
    feature_map, path
        Of the training rows; the path must be at least as long as the largest m.
    X, y
        Training rows (n, d) with their target (n,).
    settings
        Removal length m, penalty C > 0, insensitive width epsilon >= 0. Neighbours of equal m
        share one fair kernel matrix; no result depends on the other settings.
    """
    precomputed = isinstance(feature_map, ExactMap) or len(X) <= PRECOMPUTED_ROWS
    K = feature_map.training_gram(X) if precomputed else None
    fitted_m, fair = -1, np.empty(0)
    for m, C, epsilon in settings:
        U = path.at(m)
        if m != fitted_m:
            fair = (
                _fair_features(feature_map, X, U) if K is None else _fair_gram(K, feature_map, X, U)
            )
            fitted_m = m
        svr = SVR(
            kernel="precomputed" if precomputed else "linear",
            C=positive("C", C),
            epsilon=_not_negative("epsilon", epsilon),
            cache_size=1000,
            tol=LIBSVM_TOL,
        ).fit(fair, y)
        a = np.zeros(len(X))
        a[svr.support_] = svr.dual_coef_[0]
        beta = feature_map.training_adjoint(X, a)
        yield feature_map.expansion(beta - U @ (U.T @ beta), float(svr.intercept_[0]))


def _fair_gram(K: Array, feature_map: FeatureMap, X: Array, U: Array) -> Array:
    """Return K - (G U)(G U)ᵀ in the row order that libsvm reads without a copy."""
    return downdate(K, feature_map.training_product(X, U)).T


def _fair_features(feature_map: FeatureMap, X: Array, U: Array) -> Array:
    """Return G - (G U) Uᵀ over the training rows."""
    return np.concatenate([G - (G @ U) @ U.T for G in feature_map.training_blocks(X)])


def _not_negative(name: str, value: float) -> float:
    """Return a finite number of at least zero."""
    if finite(name, value) < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return float(value)


class FairSVR(RegressorMixin, RemovalEstimator):
    """Support vector regression that does not lean on the sensitive features.

    Parameters
    ----------
    C
        Penalty of errors beyond `epsilon`, above 0.
    epsilon
        Half width of the insensitive tube, in units of the target.
    kernel, gamma, degree, coef0, ridge, iterations, approximation, landmarks, landmark_method, \
center_sensitive, random_state
        As in `fkd.removal.RemovalEstimator`.

    Attributes
    ----------
    effective_iterations_ : int
        Iterations that found something to remove.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairSVR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> model = FairSVR(gamma=0.1).fit(X, X[:, 1], sensitive_features=X[:, 0])
    >>> model.predict(X).shape
    (50,)
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
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
        super().__init__(
            kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            ridge=ridge,
            iterations=iterations,
            approximation=approximation,
            landmarks=landmarks,
            landmark_method=landmark_method,
            center_sensitive=center_sensitive,
            random_state=random_state,
        )
        self.C = C
        self.epsilon = epsilon

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Return self, fitted to these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their target (n,).
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        """
        X = self._inputs(X, reset=True)
        y = target_vector(y, len(X))
        feature_map, moments, path = self._fit_removal(X, y, sensitive_features, self.iterations)
        del moments  # as large as the kernel matrix, which libsvm needs the room for
        settings = [(self.iterations, self.C, self.epsilon)]
        (self.expansion_,) = svr_expansions(feature_map, X, y, path, settings)
        return self

    def predict(self, X: Any) -> Array:
        """Return one prediction per row."""
        check_is_fitted(self, "expansion_")
        return self.expansion_.predict(self._inputs(X, reset=False))

    def expansion(self) -> Predictor:
        """Return the fitted predictor as plain arrays that can be stored without pickle."""
        check_is_fitted(self, "expansion_")
        return self.expansion_

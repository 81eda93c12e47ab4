"""Support vector classification on the fair kernel."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from fkd.arrays import AnyArray, Array
from fkd.decomposition import FairKernelDecomposition
from fkd.kernels import KernelFunction
from fkd.removal import RemovalEstimator
from fkd.validation import positive


class FairSVC(ClassifierMixin, RemovalEstimator):
    """Support vector classifier that does not lean on (continuous) sensitive features.

    Parameters
    ----------
    C
        Penalty of errors, above 0.
    kernel, gamma, degree, coef0, ridge, iterations, approximation, landmarks, landmark_method, \
center_sensitive, random_state
        As in `fkd.removal.RemovalEstimator`.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> model = FairSVC(gamma=0.1).fit(X, X[:, 1] > 0, sensitive_features=X[:, 0])
    >>> model.decision_function(X).shape
    (50,)
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        C: float = 1.0,
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

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Return self, fitted to these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their classes (n,).
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        """
        X = self._inputs(X, reset=True)
        self.fair_ = FairKernelDecomposition(**self._removal_parameters())
        K = self.fair_.fit_transform(X, sensitive_features=sensitive_features)
        self.svc_ = SVC(kernel="precomputed", C=positive("C", self.C)).fit(K, y)
        self.classes_ = self.svc_.classes_
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the signed distance to the border, per row (and class where more than two)."""
        check_is_fitted(self)
        return np.asarray(self.svc_.decision_function(self._block(X)))

    def predict(self, X: Any) -> AnyArray:
        """Return the class of each row."""
        check_is_fitted(self)
        return np.asarray(self.svc_.predict(self._block(X)))

    def _block(self, X: Any) -> Array:
        """Return the fair kernel of X against the training rows."""
        return self.fair_.transform(self._inputs(X, reset=False))

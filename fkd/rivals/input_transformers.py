"""Rivals that change the inputs, as scikit-learn transformers."""

# scikit-learn's bases have no annotations.
# mypy: allow-subclassing-any

from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array
from fkd.core.linalg import project
from fkd.core.validation import boolean, positive, whole
from fkd.core.weights import weighted_mean
from fkd.rivals.linear_erasure import leace
from fkd.rivals.nullspace import inlp_path
from fkd.rivals.optional_packages import LEACE
from fkd.rivals.rival_regressor import RivalEstimator, repeated


class InputTransformer(OneToOneFeatureMixin, TransformerMixin, RivalEstimator):
    """Inputs in, as many inputs out, from which something was taken."""

    def _rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[Array, Array, Array | None]:
        """Return checked training rows with sensitive columns, weights."""
        X = self._inputs(X, reset=True)
        there = self._present(sample_weight, len(X))
        return there.inputs(X), self._sensitive(there, sensitive_features), there.w

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Array:
        """Return the changed training rows.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As `fit` takes them.
        """
        self.fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        found: Array = self.transform(X)
        return found


class NullspaceProjection(InputTransformer):
    """Inputs without the directions in which linear models find the sensitive features (INLP).

    Ridge regression fits the sensitive columns, its weights are projected out of the inputs, again
    and again. Under a linear kernel it is what `fkd.FairKernelDecomposition` does.

    Parameters
    ----------
    iterations
        How often to remove; 0 leaves the inputs as they are.
    ridge
        Ridge of the regressions, above 0.
    center_sensitive
        Fit the deviation of the sensitive columns from their mean, so that their offset changes
        nothing; the published form does not.

    Attributes
    ----------
    directions_ : array (d, w)
        What is removed, orthonormal columns.
    effective_iterations_ : int
        Iterations that found something to remove.

    References
    ----------
    Ravfogel et al. (2020), "Null It Out: Guarding Protected Attributes by Iterative Nullspace
    Projection", ACL.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.rivals import NullspaceProjection
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> left = NullspaceProjection(iterations=1).fit_transform(X, sensitive_features=X[:, 0])
    >>> bool(np.abs(left[:, 0]).max() < 0.1)
    True
    """

    def __init__(
        self, iterations: int = 1, *, ridge: float = 0.05, center_sensitive: bool = True
    ) -> None:
        self.iterations = iterations
        self.ridge = ridge
        self.center_sensitive = center_sensitive

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Return self, with the directions learnt from these rows.

        Parameters
        ----------
        X
            Training rows (n, d).
        y
            Not looked at.
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        sample_weight
            How many rows each row counts for, (n,), not negative; None is one each. A whole number
            is a row repeated, 0 one that is not there.
        """
        m = whole("iterations", self.iterations, low=0)
        X, S, w = self._rows(X, sensitive_features, sample_weight)
        if boolean("center_sensitive", self.center_sensitive):
            S = S - weighted_mean(S, w)  # before any sum: an offset costs no digits
        path = inlp_path(
            X,
            S,
            w,
            ridge=positive("ridge", self.ridge),
            iterations=m,
            center_sensitive=self.center_sensitive,
        )
        self.directions_ = np.ascontiguousarray(path.at(m).V)
        self.effective_iterations_ = path.effective
        return self

    def transform(self, X: Any) -> Array:
        """Return X - (X U) Uᵀ, the inputs that are left.

        Parameters
        ----------
        X
            Rows (k, d).
        """
        check_is_fitted(self, "directions_")
        return project(self._inputs(X, reset=False), self.directions_)


class LinearErasure(InputTransformer):
    """The smallest affine change of the inputs after which no linear model predicts s (LEACE).

    It has no parameters: erasure is in closed form.

    Attributes
    ----------
    correction_ : LinearCorrection
        The change as plain arrays.

    Notes
    -----
    The packages of the extra ``erasure`` compute it: concept-erasure, PyTorch.

    References
    ----------
    Belrose et al. (2023), "LEACE: Perfect linear concept erasure in closed form", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.rivals import LinearErasure
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> s = X[:, 0] + X[:, 1]
    >>> left = LinearErasure().fit_transform(X, sensitive_features=s)
    >>> bool(np.abs(left.T @ (s - s.mean())).max() < 0.001)
    True
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Return self, with the change learnt from these rows.

        Parameters
        ----------
        X
            Training rows (n, d).
        y
            Not looked at.
        sensitive_features
            One or several columns (n,) or (n, l) to erase. Required.
        sample_weight
            How often each row is repeated, (n,), whole numbers; None is once, 0 leaves it out.
        """
        LEACE.require(type(self).__name__)
        X, S, w = self._rows(X, sensitive_features, sample_weight)
        self.correction_ = leace(repeated(X, w), repeated(S, w))
        return self

    def transform(self, X: Any) -> Array:
        """Return the changed inputs, (k, d).

        Parameters
        ----------
        X
            Rows (k, d).
        """
        check_is_fitted(self, "correction_")
        return self.correction_(self._inputs(X, reset=False))

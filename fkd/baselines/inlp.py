"""Iterative null-space projection (INLP): linear removal of the sensitive columns from the inputs.

It is a removal path (`fkd.core.removal`) with the inputs as features.
"""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.svm import SVR
from sklearn.utils.validation import check_is_fitted

from fkd.baselines.base import BaselineTransformer, validate_training, validate_X
from fkd.core.arrays import Array
from fkd.core.feature_maps import Approximation, KernelSettings
from fkd.core.kernels import Kernel
from fkd.core.linalg import project
from fkd.core.predictors import KernelExpansion, ProjectedExpansion
from fkd.core.removal import RemovalPath
from fkd.core.training import PathSettings, Training
from fkd.core.validation import boolean, positive, whole
from fkd.core.weights import weighted_mean

_INPUTS = KernelSettings("linear", approximation=Approximation("identity"))


@dataclass(eq=False, repr=False)
class NullspaceProjection(BaselineTransformer):
    """Inputs without the directions in which linear models predict the sensitive features (INLP).

    Each iteration fits the sensitive columns by ridge regression and projects the weights out of
    the inputs. With a linear kernel `fkd.FairKernelDecomposition` computes the same.

    Parameters
    ----------
    iterations
        Number of removals; 0 leaves the inputs unchanged.
    ridge
        Ridge of the regressions, above 0.
    center_sensitive
        Centre the sensitive columns, so that their offset does not change the result. The
        published form does not.

    Attributes
    ----------
    directions_ : array (d, w)
        The removed directions, orthonormal columns.
    effective_iterations_ : int
        Iterations that found a direction to remove.

    References
    ----------
    Ravfogel et al. (2020), "Null It Out: Guarding Protected Attributes by Iterative Nullspace
    Projection", ACL.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.baselines import NullspaceProjection
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> projected = NullspaceProjection(iterations=1).fit_transform(X, sensitive_features=X[:, 0])
    >>> bool(np.abs(projected[:, 0]).max() < 0.1)
    True
    """

    iterations: int = 1
    _: KW_ONLY
    ridge: float = 0.05
    center_sensitive: bool = True

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fit to training rows.

        Parameters
        ----------
        X
            Training rows (n, d).
        y
            Ignored.
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        sample_weight
            Weights of the rows, (n,), not negative; None is 1 for each. A row of weight 2 counts
            as two rows, a row of weight 0 is left out.
        """
        m, ridge = whole("iterations", self.iterations, low=0), positive("ridge", self.ridge)
        training = validate_training(self, X, y, sensitive_features, sample_weight)
        if center := boolean("center_sensitive", self.center_sensitive):
            # Before any sum, so that an offset of the columns costs no digits.
            mean = weighted_mean(training.S, training.weights.removal)
            training = replace(training, S=training.S - mean)
        path = inlp_path(training, ridge=ridge, iterations=m, center_sensitive=center)
        self.directions_ = np.ascontiguousarray(path.at(m).V)
        self.effective_iterations_ = path.effective
        return self

    def transform(self, X: Any) -> Array:
        """Return the projected inputs X - (X U) Uᵀ.

        Parameters
        ----------
        X
            Rows (k, d).
        """
        check_is_fitted(self, "directions_")
        return project(validate_X(self, X, reset=False), self.directions_)


def inlp_path(
    training: Training, *, ridge: float, iterations: int, center_sensitive: bool
) -> RemovalPath:
    """Return the directions of the inputs that up to so many iterations remove."""
    path = training.removals(_INPUTS, PathSettings(ridge, center_sensitive), iterations)
    assert isinstance(path, RemovalPath)
    return path


def fit_projected_svr(training: Training, U: Array, svr: SVR, gamma: float) -> ProjectedExpansion:
    """Return an SVR with an RBF kernel on the inputs without the directions U.

    Parameters
    ----------
    training
        Training rows.
    U
        Orthonormal directions (d, w), in row order.
    svr
        The machine, with a precomputed kernel.
    gamma
        Width of the kernel.
    """
    projected = project(training.X, U)
    # libsvm reads the row order of the transpose without a copy; the matrix is symmetric.
    K = Kernel("rbf", gamma).gram(projected).T
    svr.fit(K, training.y, sample_weight=training.weights.fit)
    # A target within epsilon of a constant has no support vectors. One row of weight 0 replaces
    # them.
    support = svr.support_ if len(svr.support_) else np.array([0])
    coef = svr.dual_coef_[0] if len(svr.support_) else np.zeros(1)
    inner = KernelExpansion("rbf", gamma, 3, 1.0, projected[support], coef, svr.intercept_.item())
    return ProjectedExpansion(inner, U)

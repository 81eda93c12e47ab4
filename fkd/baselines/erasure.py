"""Linear removal of the sensitive columns from the inputs: null-space projection and LEACE.

Iterative null-space projection (INLP) is a removal path (`fkd.core.removal`) with the inputs as
features. LEACE (Belrose et al. 2023) is a closed form. The package concept-erasure computes it with
its shrinkage of the covariance; its limit on the trace is switched off, since a limited change
erases only partly.
"""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.svm import SVR
from sklearn.utils.validation import check_is_fitted

from fkd.baselines.base import LEACE, BaselineTransformer, repeat_rows, validate_training
from fkd.core.arrays import Array
from fkd.core.feature_maps import Approximation, KernelSettings
from fkd.core.kernels import Kernel
from fkd.core.linalg import project
from fkd.core.moments import Moments
from fkd.core.predictors import KernelExpansion, LinearCorrection, ProjectedExpansion
from fkd.core.removal import RemovalPath
from fkd.core.training import PathSettings, Training
from fkd.core.validation import boolean, positive, validate_rows, whole
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
        path = inlp_path(training, PathSettings(ridge, center), m)
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
        return project(validate_rows(self, X, reset=False), self.directions_)


def inlp_path(training: Training, removal: PathSettings, iterations: int) -> RemovalPath:
    """Return the directions of the inputs that up to so many iterations remove."""
    path = training.removals(_INPUTS, removal, iterations)
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


# Smaller correlations of features with a direction of the standardised columns are rounding
# errors, such as those of the second of two equal columns.
LEAST_CORRELATION = 1e-9


class LinearErasure(BaselineTransformer):
    """The smallest affine change of the inputs after which no linear model predicts s (LEACE).

    It has no parameters.

    Attributes
    ----------
    correction_ : LinearCorrection
        The change as plain arrays.

    Notes
    -----
    It needs the packages of the extra ``erasure``: concept-erasure and PyTorch.

    References
    ----------
    Belrose et al. (2023), "LEACE: Perfect linear concept erasure in closed form", NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.baselines import LinearErasure
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> s = X[:, 0] + X[:, 1]
    >>> erased = LinearErasure().fit_transform(X, sensitive_features=s)
    >>> bool(np.abs(erased.T @ (s - s.mean())).max() < 0.001)
    True
    """

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
            One or several columns (n,) or (n, l) to erase. Required.
        sample_weight
            How often each row is repeated, (n,), whole numbers; None is 1 for each. A row of
            weight 0 is left out.
        """
        LEACE.check(type(self).__name__)
        training = validate_training(self, X, y, sensitive_features, sample_weight)
        w = training.weights.removal
        self.correction_ = leace(repeat_rows(training.X, w), repeat_rows(training.S, w))
        return self

    def transform(self, X: Any) -> Array:
        """Return the changed inputs, (k, d).

        Parameters
        ----------
        X
            Rows (k, d).
        """
        check_is_fitted(self, "correction_")
        return self.correction_(validate_rows(self, X, reset=False))


def leace(G: Array, S: Array) -> LinearCorrection:
    """Return the smallest affine change of features G after which no linear model predicts S.

    Parameters
    ----------
    G
        Features of the training rows, (n, r).
    S
        Sensitive columns, (n, l), none of them constant.
    """
    # Centred before any sum, so that an offset costs no digits.
    mean = G.mean(axis=0)
    moments = Moments.from_rows(G - mean, S - S.mean(axis=0), np.zeros(len(G)))
    return replace(leace_from_moments(moments, S.std(axis=0)), mean=mean)


def leace_from_moments(moments: Moments, deviations: Array) -> LinearCorrection:
    """Return the change of `leace` from sums over rows.

    Parameters
    ----------
    moments
        Moments of the training rows with weight 1 each.
    deviations
        Standard deviation of each sensitive column, (l,).
    """
    import torch
    from concept_erasure import LeaceFitter

    from fkd.baselines.network_training import one_thread

    C, _ = moments.normal_equations(fit_intercept=True)
    r, l = moments.b.shape
    with one_thread():
        fitter = LeaceFitter(
            r, l, dtype=torch.float64, svd_tol=LEAST_CORRELATION, constrain_cov_trace=False
        )
        fitter.n = torch.tensor(round(moments.n))
        fitter.mean_x = torch.tensor(moments.g / moments.n)
        fitter.sigma_xx_ = torch.tensor(C)
        # The package cuts correlations at an absolute size, which needs a common unit of columns.
        fitter.sigma_xz_ = torch.tensor(moments.sensitive(center=True) / deviations)
        eraser = fitter.eraser
    return LinearCorrection(
        mean=eraser.bias.numpy(),
        R=np.ascontiguousarray(eraser.proj_right.mT.numpy()),
        L=eraser.proj_left.numpy(),
    )

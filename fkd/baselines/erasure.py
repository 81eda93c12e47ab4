"""Closed-form linear erasure of sensitive columns from features."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.svm import SVR
from sklearn.utils.validation import check_is_fitted

from fkd.baselines.base import LEACE, RivalEstimator, repeated
from fkd.core.arrays import Array
from fkd.core.feature_maps import FeatureMap, IdentityMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import project
from fkd.core.moments import Moments, training_moments
from fkd.core.predictors import KernelExpansion, LinearCorrection, MapExpansion, ProjectedExpansion
from fkd.core.removal import RemovalPath, removal_path
from fkd.core.ridge import ridge_coefficients
from fkd.core.validation import boolean, positive, whole
from fkd.core.weights import weighted_mean

if TYPE_CHECKING:  # importing it needs PyTorch, which only an erasure does
    from concept_erasure import LeaceFitter

# A direction of the standardised columns that features predict with a smaller correlation than
# this is rounding error, such as the second of two equal columns.
LEAST_CORRELATION = 1e-9


def leace(G: Array, S: Array) -> LinearCorrection:
    """Return the smallest affine change of G after which no linear model can predict S from it.

    LEACE of Belrose et al. (2023), as the package concept-erasure computes it, with its shrinkage
    of the covariance. Its cap on the trace is off, because a capped change erases in part.

    Parameters
    ----------
    G
        Features of the training rows, (n, r).
    S
        Sensitive columns, (n, l), each of which varies.
    """
    import torch

    # The package cuts correlations at an absolute size, hence the common unit.
    standard = (S - S.mean(axis=0)) / S.std(axis=0)
    fitter = _fitter(G.shape[1], S.shape[1])
    return _solved(lambda: fitter.update(torch.tensor(G), torch.tensor(standard)))


def leace_of_sums(moments: Moments, deviations: Array) -> LinearCorrection:
    """Return the change of `leace` from sums over rows, as which they may have streamed by.

    Parameters
    ----------
    moments
        Of the training rows, each of which counts once.
    deviations
        Standard deviation of each sensitive column, (l,).
    """
    import torch

    C, _ = moments.normal_equations(fit_intercept=True)
    fitter = _fitter(len(C), len(deviations))
    fitter.n = torch.tensor(round(moments.n))
    fitter.mean_x = torch.tensor(moments.g / moments.n)
    fitter.sigma_xx_ = torch.tensor(C)
    fitter.sigma_xz_ = torch.tensor(moments.sensitive(center=True) / deviations)
    return _solved(lambda: fitter)


def _fitter(r: int, l: int) -> "LeaceFitter":
    """Return the package's sums of nothing."""
    import torch
    from concept_erasure import LeaceFitter

    return LeaceFitter(
        r, l, dtype=torch.float64, svd_tol=LEAST_CORRELATION, constrain_cov_trace=False
    )


def _solved(fit: "Callable[[], LeaceFitter]") -> LinearCorrection:
    """Return what the package makes of its sums."""
    from fkd.baselines.network_training import one_thread

    with one_thread():
        eraser = fit().eraser
    return LinearCorrection(
        mean=eraser.bias.numpy(),
        R=np.ascontiguousarray(eraser.proj_right.mT.numpy()),
        L=eraser.proj_left.numpy(),
    )


def erased_ridge(
    feature_map: FeatureMap,
    correction: LinearCorrection,
    moments: Moments,
    *,
    alpha: float,
    fit_intercept: bool,
) -> MapExpansion:
    """Return ridge regression on erased features, written on the plain ones.

    Parameters
    ----------
    feature_map, correction
        Map of the training rows, what erases the sensitive columns from its features.
    moments
        Of the erased features.
    alpha, fit_intercept
        Ridge of the predictor, whether it has a free constant.
    """
    beta = ridge_coefficients(
        moments,
        RemovalPath.nothing(feature_map.rank),
        alpha=alpha,
        strengths=[0],
        fit_intercept=fit_intercept,
    )[0]
    intercept = moments.intercept(beta) if fit_intercept else 0.0
    plain, constant = correction.pulled_back(beta)
    return feature_map.expansion(plain, intercept + constant)


def inlp_path(
    X: Array,
    S: Array,
    w: Array | None = None,
    *,
    ridge: float,
    iterations: int,
    center_sensitive: bool,
) -> RemovalPath:
    """Return the directions of the inputs that iterative null-space projection removes.

    Parameters
    ----------
    X, S
        Training rows (n, d), sensitive columns (n, l).
    w
        How many rows each counts for, (n,); None is one.
    ridge, iterations, center_sensitive
        As in `fkd.core.removal.removal_path`.
    """
    inputs = IdentityMap(X.shape[1])
    # The path does not know the target.
    moments = training_moments(inputs, X, S, np.zeros(len(X)), w)
    return removal_path(
        moments,
        ridge=ridge,
        iterations=iterations,
        center_sensitive=center_sensitive,
        independent=inputs.independent,
    )


def svr_on_left(
    X: Array, y: Array, U: Array, svr: SVR, gamma: float, w: Array | None = None
) -> ProjectedExpansion:
    """Return the RBF machine on inputs without the directions U, its support vectors as centres.

    Parameters
    ----------
    X, y
        Training rows (n, d) with their target (n,).
    U
        Orthonormal directions (d, w), in row order.
    svr
        The machine, of a precomputed kernel.
    gamma
        Width of the kernel.
    w
        How many rows each counts for, (n,); None is one.
    """
    left = project(X, U)
    # The transpose of the symmetric matrix has the row order that libsvm reads without a copy.
    svr.fit(Kernel("rbf", gamma).gram(left).T, y, sample_weight=w)
    # A target within epsilon of a constant needs no support: any one row with weight 0 stands in.
    support = svr.support_ if len(svr.support_) else np.array([0])
    coef = svr.dual_coef_[0] if len(svr.support_) else np.zeros(1)
    inner = KernelExpansion("rbf", gamma, 3, 1.0, left[support], coef, float(svr.intercept_[0]))
    return ProjectedExpansion(inner, U)


# scikit-learn's bases have no annotations.
# mypy: allow-subclassing-any


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

"""Kernel ridge regression of y minus its linear fit on the sensitive columns."""

from dataclasses import dataclass, replace

import numpy as np

from fkd.baselines.base import KernelBaseline
from fkd.core.arrays import Array
from fkd.core.docstrings import fill_docstring
from fkd.core.predictors import MapExpansion
from fkd.core.removal import RemovalPath
from fkd.core.ridge import RidgeSetting, ridge_expansions
from fkd.core.training import Training
from fkd.core.validation import finite
from fkd.core.weights import times_weights, weighted_mean


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class ResidualTargetRidge(KernelBaseline):
    """Kernel ridge regression of the target minus its linear fit on the sensitive features.

    A simple baseline that changes the target and not the kernel. Inputs may still depend on the
    sensitive features, but a linear dependence of the prediction no longer reduces the loss.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"linear"``, ``"precomputed"``, or a function
        of two blocks of rows that returns their kernel matrix.
    share
        Share of the linear fit that is subtracted from the target, in [0, 1]; 0 is plain ridge.
    alpha
        Ridge of the predictor, above 0.
    fit_intercept
        Fit an intercept.
    {gamma}
    {degree, coef0}
    {approximation}
    {landmarks, landmark_method}
    {random_state}

    Attributes
    ----------
    slopes_ : array (l,)
        Coefficients of the sensitive columns in the linear fit of the target.
    expansion_ : predictor
        The fitted predictor as plain arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.baselines import ResidualTargetRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> model = ResidualTargetRidge(gamma=0.1).fit(X, X[:, 0] + X[:, 1], sensitive_features=X[:, 0])
    >>> bool(abs(np.corrcoef(model.predict(X), X[:, 0])[0, 1]) < 0.5)
    True
    """

    share: float = 1.0

    def _fit_rows(self, training: Training, setting: RidgeSetting) -> MapExpansion:
        if not 0 <= finite("share", self.share) <= 1:
            raise ValueError(f"share must lie in [0, 1], got {self.share}")
        w = training.weights.fit
        # Before any sum, so that an offset of the columns costs no digits.
        centred = replace(training, S=training.S - weighted_mean(training.S, w))
        self.slopes_ = sensitive_slopes(training.S, training.y, w)
        return fit_residual_ridge(centred, setting, self.share * self.slopes_)


def sensitive_slopes(S: Array, y: Array, w: Array | None = None) -> Array:
    """Return the slopes of the least-squares fit of y on S and a constant, with weights w."""
    root = None if w is None else np.sqrt(w)
    S, y = (times_weights(A - weighted_mean(A, w), root) for A in (S, y))
    return np.asarray(np.linalg.lstsq(S, y, rcond=None)[0], dtype=np.float64)


def fit_residual_ridge(training: Training, setting: RidgeSetting, slopes: Array) -> MapExpansion:
    """Return the ridge regression of y - (S - mean)·slopes, from the moments with the target y."""
    feature_map, moments = training.feature_map(setting.kernel), training.moments(setting.kernel)
    # The sum of the residual target is that of y.
    residual = replace(moments, c=moments.c - moments.sensitive(center=True) @ slopes)
    nothing = RemovalPath.nothing(feature_map.rank)
    (found,) = ridge_expansions(
        feature_map, residual, nothing, [(0, setting.alpha)], fit_intercept=setting.fit_intercept
    )
    return found

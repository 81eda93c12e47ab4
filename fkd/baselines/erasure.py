"""LEACE: linear erasure of sensitive columns from features, in closed form.

Belrose et al. (2023), computed by the package concept-erasure with its shrinkage of the
covariance. Its limit on the trace is switched off, since a limited change erases only partly.
"""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fkd.baselines.base import (
    LEACE,
    BaselineTransformer,
    repeat_rows,
    validate_training,
    validate_X,
)
from fkd.core.arrays import Array
from fkd.core.moments import Moments
from fkd.core.predictors import LinearCorrection

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
        return self.correction_(validate_X(self, X, reset=False))


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

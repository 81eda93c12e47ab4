"""Kernel ridge regression of what a linear fit on the sensitive columns leaves of the target."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from fkd.baselines.base import KernelRival
from fkd.core.arrays import Array
from fkd.core.docstrings import fill_docstring
from fkd.core.moments import Moments
from fkd.core.removal import RemovalPath
from fkd.core.ridge import ridge_expansions
from fkd.core.validation import boolean, finite, positive
from fkd.core.weights import times_weights, weighted_mean


def sensitive_slopes(S: Array, y: Array, w: Array | None = None) -> Array:
    """Return the slopes of least squares of y on S with a constant, rows counted w times."""
    root = None if w is None else np.sqrt(w)
    S, y = (times_weights(A - weighted_mean(A, w), root) for A in (S, y))
    return np.asarray(np.linalg.lstsq(S, y, rcond=None)[0], dtype=np.float64)


def residual_moments(moments: Moments, slopes: Array) -> Moments:
    """Return the moments with the target y - (S - mean) slopes, without a second pass over rows."""
    # Gᵀ(S - mean) is known; the sum of the new target is that of y.
    return replace(moments, c=moments.c - moments.sensitive(center=True) @ slopes)


@fill_docstring
class ResidualTargetRidge(KernelRival):
    """Kernel ridge regression of the target less its linear fit on the sensitive features.

    A simple rival: the target is made fair, not the kernel. Inputs that lean on the sensitive
    features still do, but nothing in the training target rewards leaning on them linearly.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"linear"``, or a function of two blocks of
        rows that returns their kernel matrix.
    share
        Of the linear fit, how much is taken out of the target, in [0, 1]; 0 is plain ridge.
    alpha
        Ridge of the predictor, above 0.
    fit_intercept
        Let the predictor have a free constant.
    {kernel_parameters}

    Attributes
    ----------
    slopes_ : array (l,)
        Weights of the sensitive columns in the linear fit of the target.
    expansion_ : predictor
        The fitted predictor as plain arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.rivals import ResidualTargetRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> model = ResidualTargetRidge(gamma=0.1).fit(X, X[:, 0] + X[:, 1], sensitive_features=X[:, 0])
    >>> bool(abs(np.corrcoef(model.predict(X), X[:, 0])[0, 1]) < 0.5)
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        share: float = 1.0,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            landmarks=landmarks,
            landmark_method=landmark_method,
            random_state=random_state,
        )
        self.share = share
        self.alpha = alpha
        self.fit_intercept = fit_intercept

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Return self, fitted to these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their target (n,).
        sensitive_features
            One or several columns (n,) or (n, l). Required.
        sample_weight
            How many rows each row counts for, (n,), not negative; None is one each. A whole number
            is a row repeated, 0 one that is not there.
        """
        if not 0 <= finite("share", self.share) <= 1:
            raise ValueError(f"share must lie in [0, 1], got {self.share}")
        X, y, S, w = self._rows(X, y, sensitive_features, sample_weight)
        # Before any sum: an offset costs no digits.
        level = float(weighted_mean(y, w)) if boolean("fit_intercept", self.fit_intercept) else 0.0
        self.slopes_ = sensitive_slopes(S, y, w)
        feature_map, moments = self._reduced(X, y - level, S - weighted_mean(S, w), w)
        (found,) = ridge_expansions(
            feature_map,
            residual_moments(moments, self.share * self.slopes_),
            RemovalPath.nothing(feature_map.rank),
            [(0, positive("alpha", self.alpha))],
            fit_intercept=self.fit_intercept,
        )
        self.expansion_ = replace(found, intercept=found.intercept + level)
        return self

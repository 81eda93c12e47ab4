"""Generalised disparate impact (GeDI) of Giuliani et al. (2023), definition 3.

GeDI_q(f, s) = sum_j |a_j|, with a the least squares coefficients of f on s, s², ..., s^q
"""

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import as_column, as_sensitive, whole
from fkd.core.weights import weighted_mean
from fkd.measures.columns import drop_zero_weights, float_or_array, is_constant


def gedi(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    degree: int = 1,
    sample_weight: ArrayLike | None = None,
) -> float | Array:
    """Return the l1 norm of the least squares coefficients of y_pred on s, ..., s^degree.

    At degree one it is |cov(s, f) / var(s)|, the slope of the prediction in s. Its unit is that of
    the prediction per unit of s.

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l).
    degree
        Highest power of s, >= 1. Above one, coefficients grow with the collinearity of the powers.
    sample_weight
        Weights (n,), >= 0. Their unit does not matter.

    Returns
    -------
    float or Array
        A value >= 0 per sensitive column, exactly 0.0 if either side is constant.

    References
    ----------
    Giuliani et al. (2023), "Generalized Disparate Impact for Configurable Fairness Solutions in
    ML", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import gedi
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> round(gedi(2 * s, s), 9)
    2.0
    """
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    whole("degree", degree, low=1)
    w, (f, S) = drop_zero_weights(sample_weight, f, S)
    return float_or_array([_gedi(f, s, degree, w) for s in S.T])


def _gedi(f: Array, s: Array, degree: int, w: Array | None) -> float:
    """Return the sum of |coefficients| of centred f on centred powers of s."""
    if is_constant(f) or is_constant(s):
        return 0.0
    # Powers of s / scale are at most one. The coefficients are converted back to the unit of s.
    scale = float(np.abs(s).max(axis=0))
    exponents = np.arange(1, degree + 1)
    powers = (s[:, None] / scale) ** exponents
    centred, d = powers - weighted_mean(powers, w), f - weighted_mean(f, w)
    if w is not None:
        centred, d = np.sqrt(w)[:, None] * centred, np.sqrt(w) * d
    coefficients = np.linalg.lstsq(centred, d, rcond=None)[0]
    return float(np.abs(coefficients / scale**exponents).sum(axis=0))

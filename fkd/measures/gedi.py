"""Generalised disparate impact of Giuliani et al. (2023), definition 3."""

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import as_column, as_sensitive, whole
from fkd.core.weights import weighted_mean
from fkd.measures.columns import is_constant, per_column, weighed


def gedi(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    degree: int = 1,
    sample_weight: ArrayLike | None = None,
) -> float | Array:
    """Return the l1 norm of the least squares coefficients of y_pred on s, ..., s^degree.

    At degree one it is |cov(s, f) / var(s)|: how much the prediction moves, on average, when s
    moves by one unit. Its unit is that of the prediction per unit of s, and so is its size.

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l).
    degree
        Highest power of s, >= 1; beyond one the coefficients grow with the collinearity.
    sample_weight
        How many rows each row stands for (n,), >= 0; their unit does not matter here.

    Returns
    -------
    float or Array
        A value >= 0, one per sensitive column; exactly 0.0 where either side is constant.

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
    w, (f, S) = weighed(sample_weight, f, S)
    return per_column(lambda s: _gedi(f, s, degree, w), S)


def _gedi(f: Array, s: Array, degree: int, w: Array | None) -> float:
    """Sum of |coefficients| of centred f on centred powers."""
    if is_constant(f) or is_constant(s):
        return 0.0
    # Powers of s / reach stay below one; the coefficients are brought back to the unit of s.
    reach = float(np.abs(s).max(axis=0))
    exponents = np.arange(1, degree + 1)
    powers = (s[:, None] / reach) ** exponents
    centred, d = powers - weighted_mean(powers, w), f - weighted_mean(f, w)
    if w is not None:
        centred, d = np.sqrt(w)[:, None] * centred, np.sqrt(w) * d
    coefficients = np.linalg.lstsq(centred, d, rcond=None)[0]
    return float(np.abs(coefficients / reach**exponents).sum(axis=0))

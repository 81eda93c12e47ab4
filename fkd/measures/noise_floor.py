"""What a measure says of two variables that have nothing to do with each other."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array, IntArray
from fkd.core.border import as_column, as_sensitive
from fkd.core.cautions import FairnessWarning
from fkd.measures.hgr import hgr
from fkd.measures.repeated_rows import in_order, require_many, weighed


@dataclass(frozen=True)
class NoiseFloor:
    """Mean with an upper quantile of a measure under independence.

    Parameters
    ----------
    mean
        Of the measure after shuffling, a float or one per column (l,).
    upper
        Its quantile.
    quantile
        Which one.
    permutations
        How often was shuffled.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import noise_floor
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> floor = noise_floor(f, s, rng=rng, permutations=20)
    >>> bool(floor.mean < floor.upper)
    True
    """

    mean: float | Array
    upper: float | Array
    quantile: float
    permutations: int


def noise_floor(
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    rng: np.random.Generator,
    measure: Callable[..., float | Array] = hgr,
    permutations: int = 200,
    quantile: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> NoiseFloor:
    """Return the values of a measure after shuffling s against the predictions.

    No method can be expected below the mean. A value above the upper quantile is dependence that
    chance explains in at most (1 - quantile) of all cases.

    Parameters
    ----------
    y_pred
        Predictions (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l); their rows stay together.
    rng
        Source of the permutations.
    measure
        A function of (y_pred, sensitive_features).
    permutations
        Number of shuffles.
    quantile
        Which quantile to report, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0, which the measure gets by this keyword: noise
        is that of n rows of unequal weight. Predictions keep theirs; of the n values of s that are
        shuffled each stands there as often as its share of the weights says, rounded.

    Returns
    -------
    NoiseFloor
        Floats for one sensitive column, arrays (l,) for several.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import hgr, noise_floor
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> floor = noise_floor(f, s, rng=rng, permutations=20)
    >>> bool(hgr(f, s) > floor.upper)
    True
    """
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    if permutations < 1:
        raise ValueError(f"permutations must be at least 1, got {permutations}")
    if not 0 < quantile < 1:
        raise ValueError(f"quantile must lie between 0 and 1, got {quantile}")
    w, (f, S) = weighed(sample_weight, f, S)
    weights = {} if w is None else {"sample_weight": w}
    measure(f, S, **weights)  # what there is to say of the rows is said once
    if w is not None:
        require_many(w)
        S = S[_drawn_evenly(w)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        values = np.array(
            [measure(f, S[rng.permutation(len(f))], **weights) for _ in range(permutations)]
        )
    mean, upper = values.mean(axis=0), np.quantile(values, quantile, axis=0)
    if values.ndim == 1:
        mean, upper = float(mean), float(upper)
    return NoiseFloor(mean, upper, quantile, permutations)


def _drawn_evenly(w: Array) -> IntArray:
    """Return as many row numbers as there are rows, each as often as its weight says, rounded."""
    middles = (np.arange(len(w)) + 0.5) * (w.sum(axis=0) / len(w))
    return in_order(np.arange(len(w), dtype=np.float64), w, middles).astype(np.intp)

"""Mean errors of predictions, in the unit of the target."""

import numpy as np

from fkd.core.arrays import Array
from fkd.core.row_weights import weighted_mean


def mean_error(y: Array, f: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of |prediction minus target|."""
    return float(weighted_mean(np.abs(f - y), sample_weight))


def mean_excess(y: Array, f: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of prediction minus target."""
    return float(weighted_mean(f - y, sample_weight))

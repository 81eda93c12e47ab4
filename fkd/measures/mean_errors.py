"""Mean errors of predictions, in the unit of the target."""

import numpy as np

from fkd.core.arrays import Array
from fkd.core.row_weights import weighted_mean


def mean_error(y: Array, f: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of |prediction minus target|."""
    return mean_of(np.abs(f - y), sample_weight=sample_weight)


def mean_excess(y: Array, f: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of prediction minus target."""
    return mean_of(f - y, sample_weight=sample_weight)


def mean_of(errors: Array, *, sample_weight: Array | None = None) -> float:
    """Return the mean of errors: who looks at many samples of the rows takes these once."""
    return float(weighted_mean(errors, sample_weight))

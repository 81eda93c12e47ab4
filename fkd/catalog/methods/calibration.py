"""The constant of a regression, moved to where absolute errors are least."""

from dataclasses import replace

from fkd.core.predictors import MapExpansion
from fkd.core.training import Training
from fkd.core.weights import weighted_median

CALIBRATIONS = ("mean", "median")


def calibrated(f: MapExpansion, training: Training, kind: str) -> MapExpansion:
    """Return f as it is, or with the median of the training rows' residuals added to it.

    Squared errors put a regression's level at the mean of what is left, absolute errors at its
    median: of two methods that are compared by absolute error one must not lead for that alone.
    """
    if kind == "mean":
        return f
    left = (training.y - f.predict(training.X))[:, None]
    (median,) = weighted_median(left, training.weights.fit)
    return replace(f, intercept=f.intercept + float(median))

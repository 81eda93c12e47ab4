"""What settings of one erasure of features share."""

from fkd.catalog.methods.kernel_settings import OnKernel, kernel_of
from fkd.core.arrays import Array
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import LinearCorrection
from fkd.core.training import Training
from fkd.rivals.linear_erasure import leace_of_sums


def few_landmarks() -> Approximation:
    """Return the default map: erasure needs well fewer features than rows to generalise."""
    return Approximation(kind="nystroem", landmarks=500)


def erasure_of(training: Training, p: OnKernel) -> LinearCorrection:
    """Return what erases the sensitive columns from the features of a setting's map."""
    return leace_of_sums(training.moments(kernel_of(p)), training.S.std(axis=0))


def erased_features(training: Training, p: OnKernel, X: Array) -> Array:
    """Return the features of rows X that are left by the erasure."""
    return erasure_of(training, p)(plain_features(training, p, X))


def plain_features(training: Training, p: OnKernel, X: Array) -> Array:
    """Return the features of rows X before the erasure."""
    return training.feature_map(kernel_of(p)).transform(X)

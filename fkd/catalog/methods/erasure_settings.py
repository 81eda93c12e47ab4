"""What settings of one erasure of features share."""

from fkd.catalog.methods.kernel_settings import OnKernel
from fkd.catalog.methods.training_fold import Approximation, Training
from fkd.core.arrays import Array
from fkd.core.predictors import LinearCorrection
from fkd.rivals.linear_erasure import leace_of_sums


def few_landmarks() -> Approximation:
    """Return the default map: erasure needs well fewer features than rows to generalise."""
    return Approximation(kind="nystroem", landmarks=500)


def erasure_of(training: Training, p: OnKernel) -> LinearCorrection:
    """Return what erases the sensitive columns from the features of a setting's map."""
    _, moments = training.reduced(p.gamma, p.approximation)
    return leace_of_sums(moments, training.S.std(axis=0))


def erased_features(training: Training, p: OnKernel, X: Array) -> Array:
    """Return the features of rows X that are left by the erasure."""
    return erasure_of(training, p)(plain_features(training, p, X))


def plain_features(training: Training, p: OnKernel, X: Array) -> Array:
    """Return the features of rows X before the erasure."""
    feature_map, _ = training.reduced(p.gamma, p.approximation)
    return feature_map.transform(X)

"""Ridge regression on Nystroem features after closed-form linear erasure (KRR-LEACE-N)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.kernel_settings import kernel_key
from fkd.catalog.methods.method_declaration import Method
from fkd.catalog.methods.training_fold import Approximation, Training
from fkd.core.arrays import Array
from fkd.core.feature_maps import FeatureMap
from fkd.core.linear_correction import LinearCorrection
from fkd.core.moments import Moments
from fkd.core.predictors import Predictor
from fkd.rivals.linear_erasure import erased_ridge, leace
from fkd.rivals.optional_packages import LEACE


def _landmarks() -> Approximation:
    """Return the default map: erasure needs well fewer features than rows to generalise."""
    return Approximation(kind="nystroem", landmarks=500)


@dataclass(frozen=True)
class Parameters:
    """RBF width with its features, ridge of the predictor."""

    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    fit_intercept: bool = False
    approximation: Approximation = field(default_factory=_landmarks)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, those on one map from one erasure."""
    LEACE.check("leace_nystroem")
    found: dict[Parameters, Predictor] = {}
    for key in dict.fromkeys(map(kernel_key, settings)):
        group = [p for p in settings if kernel_key(p) == key]
        feature_map, G, correction = _erased(training, group[0])
        moments = Moments.of(correction(G), training.S, training.y)
        for p in group:
            found[p] = erased_ridge(
                feature_map, correction, moments, alpha=p.alpha, fit_intercept=p.fit_intercept
            )
    yield from (found[p] for p in settings)


def _erased(training: Training, p: Parameters) -> tuple[FeatureMap, Array, LinearCorrection]:
    """Return map, features of the training rows, the erasure learnt from them."""
    feature_map, _ = training.reduced(p.gamma, p.approximation)
    G = np.concatenate(list(feature_map.training_blocks(training.X)))
    return feature_map, G, leace(G, training.S)


def _represent(training: Training, p: Parameters, X: Array) -> Array:
    """Return the erased features of rows X."""
    feature_map, _, correction = _erased(training, p)
    return correction(feature_map.transform(X))


def _unremoved(training: Training, p: Parameters, X: Array) -> Array:
    """Return the features of rows X before erasure."""
    feature_map, _ = training.reduced(p.gamma, p.approximation)
    return feature_map.transform(X)


METHOD = Method(
    name="leace_nystroem",
    title="KRR-LEACE-N",
    parameters=Parameters,
    fit=_fit,
    shared=kernel_key,
    represent=_represent,
    unremoved=_unremoved,
    extra=LEACE,
)

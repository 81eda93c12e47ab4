"""Ridge regression on Nystroem features after closed-form linear erasure (KRR-LEACE-N)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.erasure_settings import (
    erased_features,
    erasure_of,
    few_landmarks,
    plain_features,
)
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, effective_ridge, kernel_key, kernel_of
from fkd.catalog.methods.method_declaration import Method
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.training import Training
from fkd.rivals.linear_erasure import erased_ridge
from fkd.rivals.optional_packages import LEACE


@dataclass(frozen=True)
class Parameters:
    """RBF width with its features, ridge of the predictor."""

    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    fit_intercept: bool = False
    approximation: Approximation = field(default_factory=few_landmarks)
    ridges: str = option("fixed", choices=RIDGE_RULES)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, those on one map from one erasure."""
    LEACE.check("leace_nystroem")
    found: dict[Parameters, Predictor] = {}
    for key in dict.fromkeys(map(kernel_key, settings)):
        group = [p for p in settings if kernel_key(p) == key]
        kernel = kernel_of(group[0])
        feature_map, moments = training.feature_map(kernel), training.moments(kernel)
        correction = erasure_of(training, group[0])
        erased = moments.corrected(correction)
        for p in group:
            found[p] = erased_ridge(
                feature_map,
                correction,
                erased,
                alpha=effective_ridge(p.alpha, p, moments.n),
                fit_intercept=p.fit_intercept,
            )
    yield from (found[p] for p in settings)


METHOD = Method(
    name="leace_nystroem",
    title="KRR-LEACE-N",
    parameters=Parameters,
    fit=_fit,
    shared=kernel_key,
    represent=erased_features,
    unremoved=plain_features,
    extra=LEACE,
)

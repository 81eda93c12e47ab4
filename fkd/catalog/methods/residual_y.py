"""Kernel ridge regression of what is left of y after a linear fit on the sensitive columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.kernel_settings import kernel_key, kernel_of
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.plain_ridge import ridge_on
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.training import Training
from fkd.rivals.residual_target import residual_moments, sensitive_slopes


@dataclass(frozen=True)
class Parameters:
    """Share of the linear fit to take out of y; RBF width, ridge of the predictor."""

    share: float = number(1.0, at_least=0, at_most=1)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    fit_intercept: bool = False
    approximation: Approximation = field(default_factory=Approximation)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield regressions on y - share·(S - mean) w, from the moments that all methods share."""
    slopes = sensitive_slopes(training.S, training.y, training.weights.fit)
    for p in settings:
        feature_map, moments = training.feature_map(kernel_of(p)), training.moments(kernel_of(p))
        yield ridge_on(feature_map, residual_moments(moments, p.share * slopes), p)


METHOD = Method(
    name="residual_y",
    title="KRR-RY",
    parameters=Parameters,
    fit=_fit,
    strength="share",
    shared=kernel_key,
    published={"acs_income": Published(grid={"share": (0.0, 0.25, 0.5, 0.75, 1.0)})},
    weighs="both",
)

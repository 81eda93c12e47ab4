"""Kernel ridge regression without any fairness, where KRR-FKD starts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, kernel_key
from fkd.catalog.methods.method_declaration import Method
from fkd.catalog.methods.plain_ridge import plain_ridge
from fkd.catalog.methods.training_fold import Approximation, Training
from fkd.core.predictors import Predictor


@dataclass(frozen=True)
class Parameters:
    """RBF width, ridge of the predictor."""

    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    fit_intercept: bool = False
    approximation: Approximation = field(default_factory=Approximation)
    ridges: str = option("fixed", choices=RIDGE_RULES)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors; those on one kernel share its map."""
    for p in settings:
        yield plain_ridge(training, p)


METHOD = Method(
    name="krr", title="KRR", parameters=Parameters, fit=_fit, shared=kernel_key, weighs="fit"
)

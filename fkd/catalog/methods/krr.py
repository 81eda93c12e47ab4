"""Kernel ridge regression without any fairness, where KRR-FKD starts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, kernel_key
from fkd.catalog.methods.method_declaration import Method
from fkd.catalog.methods.plain_ridge import ridge_setting
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.ridge import fit_ridge
from fkd.core.training import Training


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
    wanted = [ridge_setting(training, p, None, 0) for p in settings]
    return (model.expansion for model in fit_ridge(training, wanted))


METHOD = Method(
    name="krr", title="KRR", parameters=Parameters, fit=_fit, shared=kernel_key, weighs="fit"
)

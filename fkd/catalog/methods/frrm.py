"""The fair ridge regression model (FRRM, Scutari et al. 2022), which sees s when predicting."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.core.feature_maps import IdentityMap
from fkd.core.moments import training_moments
from fkd.core.predictors import SensitiveExpansion
from fkd.core.training import Training
from fkd.rivals.sensitive_ridge import SensitiveRidge

# The weights of s shrink by half where the price is the variance of s, 0.06 on Crimes; at the last
# one less than a ten-thousandth of the prediction's variance is left to s.
PENALTIES = (0.0, *(0.005 * 2.0**k for k in range(12)))


@dataclass(frozen=True)
class Parameters:
    """Price of the weights of s per training row, bound on their share of variance, ridge.

    Where both are given, the larger of the price and the one that the bound asks for holds.
    A constant is always fitted.
    """

    penalty: float = number(0.0, at_least=0)
    unfairness: float = number(1.0, at_least=0, at_most=1)
    alpha: float = number(0.25, above=0)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[SensitiveExpansion]:
    """Yield the predictors, all prices of one ridge from one factorisation."""
    X, y, S = training.X, training.y, training.S
    inputs = IdentityMap(X.shape[1])
    moments = training_moments(inputs, X, S, y)
    solved: dict[float, SensitiveRidge] = {}
    for p in settings:
        if p.alpha not in solved:
            solved[p.alpha] = SensitiveRidge.of(moments, S, y, alpha=p.alpha)
        yield solved[p.alpha].expansion(inputs, penalty=p.penalty, unfairness=p.unfairness)


def _shared(_: Parameters) -> Hashable:
    """Return one key: all settings rest on the same moments."""
    return "frrm"


METHOD = Method(
    name="frrm",
    title="FRRM",
    parameters=Parameters,
    fit=_fit,
    strength="penalty",
    bound="unfairness",
    published={
        problem: Published(grid={"penalty": PENALTIES})
        for problem in ("crimes", "acs_income", "acs_travel_time")
    },
    shared=_shared,
    needs_sensitive=True,
)

"""The fair ridge regression model in the features of an RBF kernel (KRR-FRRM)."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods import frrm
from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.kernel_settings import kernel_key, kernel_of
from fkd.catalog.methods.method_declaration import Method
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import SensitiveExpansion
from fkd.core.training import Training
from fkd.rivals.sensitive_ridge import SensitiveRidge


@dataclass(frozen=True)
class Parameters(frrm.Parameters):
    """Those of the linear model with the RBF width, the kernel's features."""

    gamma: float = number(0.05, above=0)
    approximation: Approximation = field(default_factory=Approximation)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[SensitiveExpansion]:
    """Yield the predictors, all prices of one kernel with one ridge from one factorisation."""
    solved: dict[Hashable, SensitiveRidge] = {}
    for p in settings:
        feature_map, moments = training.feature_map(kernel_of(p)), training.moments(kernel_of(p))
        key = (*kernel_key(p), p.alpha)
        if key not in solved:
            solved[key] = SensitiveRidge.of(moments, training.S, training.y, alpha=p.alpha)
        yield solved[key].expansion(feature_map, penalty=p.penalty, unfairness=p.unfairness)


METHOD = Method(
    name="krr_frrm",
    title="KRR-FRRM",
    parameters=Parameters,
    fit=_fit,
    strength="penalty",
    bound="unfairness",
    published=frrm.METHOD.published,
    shared=kernel_key,
    needs_sensitive=True,
)

"""Support vector regression without any fairness, where SVR-FKD starts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods import svr_fkd
from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, kernel_key
from fkd.catalog.methods.machine_settings import SETTING_SOLVERS, svr_predictors
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.training import Training


@dataclass(frozen=True)
class Parameters:
    """RBF width, penalty, insensitive width."""

    gamma: float = number(0.05, above=0)
    C: float = number(0.75, above=0)
    epsilon: float = number(0.01, at_least=0)
    approximation: Approximation = field(default_factory=Approximation)
    solver: str = option("auto", choices=SETTING_SOLVERS)
    C_rule: str = option("fixed", choices=RIDGE_RULES)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors as soon as each is fitted; those on one kernel share its matrix."""
    return svr_predictors(training, [(p, None, 0) for p in settings])


METHOD = Method(
    name="svr",
    title="SVR",
    parameters=Parameters,
    fit=_fit,
    shared=kernel_key,
    published={
        problem: Published(fixed=paper.fixed) for problem, paper in svr_fkd.METHOD.published.items()
    },
    weighs="fit",
)

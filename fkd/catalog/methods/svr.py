"""Support vector regression without any fairness, where SVR-FKD starts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from fkd.catalog.methods import svr_fkd
from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, kernel_key
from fkd.catalog.methods.machine_settings import SETTING_SOLVERS, effective_C, svr_predictors
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.training_fold import Approximation, Training
from fkd.core.predictors import Predictor
from fkd.core.removal import RemovalPath


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
    for _, members in groupby(settings, key=lambda p: (kernel_key(p), p.solver)):
        group = list(members)
        feature_map, _ = training.reduced(group[0].gamma, group[0].approximation, "once")
        wanted = [(0, effective_C(p, training), p.epsilon) for p in group]
        path = RemovalPath.nothing(feature_map.rank)
        yield from svr_predictors(training, group[0], path, wanted)


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

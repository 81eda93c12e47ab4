"""Support vector regression on the fair kernel (SVR-FKD)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.kernel_settings import (
    RIDGE_RULES,
    features_left,
    functions_of_path,
    kernel_key,
    path_of,
)
from fkd.catalog.methods.machine_settings import SETTING_SOLVERS, svr_predictors
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.sensitive_basis import BASES
from fkd.core.training import Training


@dataclass(frozen=True)
class Parameters:
    """RBF width, penalty, insensitive width, ridge of the removal, removal iterations."""

    iterations: int = number(0, at_least=0)
    gamma: float = number(0.05, above=0)
    C: float = number(0.75, above=0)
    epsilon: float = number(0.01, at_least=0)
    ridge: float = number(0.05, above=0)
    center_sensitive: bool = False
    approximation: Approximation = field(default_factory=Approximation)
    basis: str = option("columns", choices=BASES)
    gamma_s: float = option(10.0, gt=0)
    ridges: str = option("fixed", choices=RIDGE_RULES)
    solver: str = option("auto", choices=SETTING_SOLVERS)
    C_rule: str = option("fixed", choices=RIDGE_RULES)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors as soon as each is fitted, settings of one path from one map."""
    return svr_predictors(training, [(p, path_of(training, p), p.iterations) for p in settings])


METHOD = Method(
    name="svr_fkd",
    title="SVR-FKD",
    parameters=Parameters,
    fit=_fit,
    strength="iterations",
    shared=kernel_key,
    represent=features_left,
    functions=functions_of_path,
    published={
        "crimes": Published(grid={"iterations": (0, 5, 30, 45, 60, 80)}),
        "acs_income": Published(
            fixed={"epsilon": 0.005, "C": 0.5}, grid={"iterations": (0, 45, 60, 80, 100)}
        ),
        "acs_travel_time": Published(
            fixed={"epsilon": 0.001, "C": 0.125, "gamma": 0.01},
            grid={"iterations": (0, 45, 60, 100)},
        ),
    },
    weighs="each",
)

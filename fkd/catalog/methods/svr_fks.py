"""Support vector regression on the shrunk kernel (SVR-FKS)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods import svr_fkd
from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.kernel_settings import GIVEN, RIDGE_RULES, fair_features_of, kernel_key
from fkd.catalog.methods.machine_settings import SETTING_SOLVERS, effective_C, svr_predictors
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.shrinkage_settings import (
    PENALTIES,
    functions_of,
    shrinkage_of,
)
from fkd.core.arrays import Array
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.removal import margin_mu
from fkd.core.sensitive_basis import BASES
from fkd.core.training import Training
from fkd.core.weights import weighted_std


@dataclass(frozen=True)
class Parameters:
    """Price of dependence, RBF widths of inputs with sensitive columns, penalty, tube."""

    penalty: float = number(0.0, at_least=0)
    gamma: float = number(0.05, above=0)
    C: float = number(0.75, above=0)
    epsilon: float = number(0.01, at_least=0)
    gamma_s: float = number(10.0, above=0)
    basis: str = field(default="rbf", metadata={"choices": BASES})
    given: str = field(default="none", metadata={"choices": GIVEN})
    approximation: Approximation = field(default_factory=Approximation)
    solver: str = option("auto", choices=SETTING_SOLVERS)
    C_rule: str = option("fixed", choices=RIDGE_RULES)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors as soon as each is fitted, settings of one shrinkage from one map."""
    return svr_predictors(training, [(p, shrinkage_of(p), p.penalty) for p in settings])


def _represent(training: Training, p: Parameters, X: Array) -> Array:
    """Return the features of rows X that the machine sees."""
    unit = float(weighted_std(training.y, training.weights.fit)) or 1.0
    C = effective_C(p, training)
    mu = margin_mu(p.penalty, n=training.count, C=C, unit=unit)
    return fair_features_of(training, p, shrinkage_of(p), mu, X)


METHOD = Method(
    name="svr_fks",
    title="SVR-FKS",
    parameters=Parameters,
    fit=_fit,
    strength="penalty",
    shared=kernel_key,
    represent=_represent,
    functions=functions_of,
    published={
        problem: Published(fixed=paper.fixed, grid={"penalty": PENALTIES})
        for problem, paper in svr_fkd.METHOD.published.items()
    },
    ours=True,
    weighs="each",
)

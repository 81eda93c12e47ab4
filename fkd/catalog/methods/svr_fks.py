"""Support vector regression on the shrunk kernel (SVR-FKS)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods import svr_fkd
from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, kernel_key
from fkd.catalog.methods.machine_settings import SETTING_SOLVERS, effective_C, svr_predictors
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.shrinkage_settings import (
    PENALTIES,
    by_shrinkage,
    functions_of,
    shrinkage_of,
    shrunk_features,
)
from fkd.catalog.methods.training_fold import GIVEN, Approximation, Training
from fkd.core.arrays import Array
from fkd.core.predictors import Predictor
from fkd.core.removal import margin_mu
from fkd.core.sensitive_basis import BASES
from fkd.core.weights import row_count, weighted_std


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


def _mu(p: Parameters, training: Training) -> float:
    y, w = training.y, training.weights.fit
    # A constant target has nothing to pay for.
    unit = float(weighted_std(y, w)) or 1.0
    return margin_mu(p.penalty, n=row_count(len(y), w), C=effective_C(p, training), unit=unit)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors as soon as each is fitted, settings of one shrinkage from one map."""
    found: dict[Parameters, Predictor] = {}
    waiting = list(settings)
    groups = (
        [p for p in group if p.solver == solver]
        for group in by_shrinkage(settings)
        for solver in dict.fromkeys(p.solver for p in group)
    )
    for group in groups:
        shrunk = shrinkage_of(training, group[0])
        wanted = [(_mu(p, training), effective_C(p, training), p.epsilon) for p in group]
        fitted = svr_predictors(training, group[0], shrunk, wanted)
        for p, f in zip(group, fitted, strict=True):
            found[p] = f
            while waiting and waiting[0] in found:
                yield found[waiting.pop(0)]


def _represent(training: Training, p: Parameters, X: Array) -> Array:
    """Return the features of rows X that the machine sees."""
    return shrunk_features(training, p, _mu(p, training), X)


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

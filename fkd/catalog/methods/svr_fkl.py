"""Support vector regression with a price on dependence (SVR-FKL)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods import krr_fkl, svr_fkd
from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.dependence_settings import (
    SCALES,
    by_dependence,
    functions_of_kernel,
    price_of,
    products_with_s,
)
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, kernel_key
from fkd.catalog.methods.machine_settings import SETTING_SOLVERS, effective_C, svr_predictors
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.training_fold import Approximation, Training
from fkd.core.predictors import Predictor
from fkd.core.removal import fkl_penalty, margin_mu, shrinkage
from fkd.core.weights import row_count


@dataclass(frozen=True)
class Parameters:
    """Price of dependence with its scale, RBF widths of inputs with sensitive columns, machine."""

    mu: float = number(0.0, at_least=0)
    gamma: float = number(0.05, above=0)
    C: float = number(0.75, above=0)
    epsilon: float = number(0.01, at_least=0)
    gamma_s: float = number(0.05, above=0)
    mu_scale: str = field(default="none", metadata={"choices": SCALES})
    ridges: str = field(default="fixed", metadata={"choices": RIDGE_RULES})
    approximation: Approximation = field(default_factory=Approximation)
    solver: str = field(default="auto", metadata={"choices": SETTING_SOLVERS})
    C_rule: str = option("fixed", choices=RIDGE_RULES)


def _mu(p: Parameters, training: Training) -> float:
    """Return the strength of a shrinkage that pays the published price beside the sum of losses."""
    n = row_count(len(training.y), training.weights.fit)
    return margin_mu(fkl_penalty(price_of(p, n), n=n), n=n, C=effective_C(p, training))


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, those on one kernel with one solver from one batch."""
    found: dict[Parameters, Predictor] = {}
    for group in by_dependence(settings):
        shrunk = shrinkage(products_with_s(training, group[0]))
        for solver in dict.fromkeys(p.solver for p in group):
            chosen = [p for p in group if p.solver == solver]
            wanted = [(_mu(p, training), effective_C(p, training), p.epsilon) for p in chosen]
            fitted = svr_predictors(training, chosen[0], shrunk, wanted)
            found.update(zip(chosen, fitted, strict=True))
    yield from (found[p] for p in settings)


METHOD = Method(
    name="svr_fkl",
    title="SVR-FKL",
    parameters=Parameters,
    fit=_fit,
    strength="mu",
    shared=kernel_key,
    functions=functions_of_kernel,
    published={
        problem: Published(
            fixed=svr_fkd.METHOD.published[problem].fixed,
            grid=krr_fkl.METHOD.published[problem].grid,
        )
        for problem in krr_fkl.METHOD.published
    },
    weighs="both",
)

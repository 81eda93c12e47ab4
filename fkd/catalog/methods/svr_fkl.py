"""Support vector regression with a price on dependence (SVR-FKL)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods import krr_fkl, svr_fkd
from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.dependence_settings import (
    SCALES,
    dependence_removals,
    functions_of_kernel,
    price_of,
)
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, kernel_key
from fkd.catalog.methods.machine_settings import SETTING_SOLVERS, svr_predictors
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.removal import fkl_penalty
from fkd.core.training import Training
from fkd.core.weights import weighted_std


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


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, those on one kernel with one solver from one batch."""
    n = training.count
    # The published price is that of the sum of losses, a penalty of the loss in units of y.
    unit = float(weighted_std(training.y, training.weights.fit)) or 1.0
    removals = dependence_removals(training, settings)
    return svr_predictors(
        training,
        [
            (p, removal, unit * fkl_penalty(price_of(p, n), n=n))
            for p, removal in zip(settings, removals, strict=True)
        ],
    )


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

"""Kernel ridge regression with a price on dependence (KRR-FKL, Pérez-Suay et al. 2017)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.dependence_settings import (
    SCALES,
    dependence_removals,
    functions_of_kernel,
    price_of,
)
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, kernel_key, kernel_of
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.plain_ridge import ridge_setting
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.removal import fkl_penalty
from fkd.core.ridge import fit_ridge
from fkd.core.training import Training


@dataclass(frozen=True)
class Parameters:
    """Price of dependence with its scale, RBF widths of inputs with sensitive columns, ridge."""

    mu: float = number(0.0, at_least=0)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    gamma_s: float = number(0.05, above=0)
    mu_scale: str = field(default="none", metadata={"choices": SCALES})
    fit_intercept: bool = False
    approximation: Approximation = field(default_factory=Approximation)
    ridges: str = option("fixed", choices=RIDGE_RULES)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, all mu of one ridge from one factorisation."""
    n = training.moments(kernel_of(settings[0])).n
    removals = dependence_removals(training, settings)
    wanted = [
        ridge_setting(training, p, removal, fkl_penalty(price_of(p, n), n=n))
        for p, removal in zip(settings, removals, strict=True)
    ]
    return (model.expansion for model in fit_ridge(training, wanted))


METHOD = Method(
    name="krr_fkl",
    title="KRR-FKL",
    parameters=Parameters,
    fit=_fit,
    strength="mu",
    shared=kernel_key,
    functions=functions_of_kernel,
    published={
        "crimes": Published(grid={"mu": (0.0, 0.05, 0.25, 0.6, 1.0)}),
        "acs_income": Published(grid={"mu": (0.0, 0.05, 0.25, 1.0)}),
        "acs_travel_time": Published(grid={"mu": (0.0, 0.5, 1.0, 2.0)}),
    },
    weighs="both",
)

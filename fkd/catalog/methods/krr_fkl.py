"""Kernel ridge regression with a price on dependence (KRR-FKL, Pérez-Suay et al. 2017)."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.dependence_settings import (
    SCALES,
    by_dependence,
    functions_of_kernel,
    price_of,
    products_with_s,
)
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, effective_ridge, kernel_key
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.training_fold import Approximation, Training
from fkd.core.predictors import Predictor
from fkd.rivals.fair_kernel_learning import penalised_expansions


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


def _system(p: Parameters) -> Hashable:
    """Return the key under which settings of one dependence differ in their mu alone."""
    return (p.alpha, p.ridges, p.fit_intercept)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, all mu of one system from one factorisation."""
    found: dict[Parameters, Predictor] = {}
    for group in by_dependence(settings):
        feature_map, moments = training.reduced(group[0].gamma, group[0].approximation)
        sums = products_with_s(training, group[0])
        for key in dict.fromkeys(map(_system, group)):
            chosen = [p for p in group if _system(p) == key]
            fitted = penalised_expansions(
                feature_map,
                moments,
                sums,
                alpha=effective_ridge(chosen[0].alpha, chosen[0], moments.n),
                mus=[price_of(p, moments.n) for p in chosen],
                fit_intercept=chosen[0].fit_intercept,
            )
            found.update(zip(chosen, fitted, strict=True))
    yield from (found[p] for p in settings)


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

"""Kernel ridge regression with a price on dependence (KRR-FKL, Pérez-Suay et al. 2017)."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import later, number
from fkd.catalog.methods.kernel_settings import kernel_key
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.training_fold import Approximation, Training
from fkd.core.predictors import Predictor
from fkd.core.row_weights import row_count, times_weights
from fkd.rivals.fair_kernel_learning import (
    feature_products,
    penalised_expansions,
    sensitive_factor,
)

# The published code has no 1/n; later ports divide by n or by n squared.
_SCALES = {"none": 0, "n": 1, "n_squared": 2}


@dataclass(frozen=True)
class Parameters:
    """Price of dependence with its scale, RBF widths of inputs with sensitive columns, ridge."""

    mu: float = number(0.0, at_least=0)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    gamma_s: float = number(0.05, above=0)
    mu_scale: str = field(default="none", metadata={"choices": tuple(_SCALES)})
    fit_intercept: bool = later(False)
    approximation: Approximation = field(default_factory=Approximation)


def _system(p: Parameters) -> Hashable:
    """Return the key under which settings differ in their mu alone."""
    return (*kernel_key(p), p.alpha, p.gamma_s, p.fit_intercept)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, all mu of one system from one factorisation."""
    found: dict[Parameters, Predictor] = {}
    for key in dict.fromkeys(map(_system, settings)):
        group = [p for p in settings if _system(p) == key]
        feature_map, moments = training.reduced(group[0].gamma, group[0].approximation)
        w = training.weights.fit
        n = row_count(len(training.y), w)
        F = sensitive_factor(training.S, group[0].gamma_s, w)
        fitted = penalised_expansions(
            feature_map,
            moments,
            feature_products(feature_map, training.X, times_weights(F, w)),
            alpha=group[0].alpha,
            mus=[p.mu / n ** _SCALES[p.mu_scale] for p in group],
            fit_intercept=group[0].fit_intercept,
        )
        found.update(zip(group, fitted, strict=True))
    yield from (found[p] for p in settings)


METHOD = Method(
    name="krr_fkl",
    title="KRR-FKL",
    parameters=Parameters,
    fit=_fit,
    strength="mu",
    shared=kernel_key,
    published={
        "crimes": Published(grid={"mu": (0.0, 0.05, 0.25, 0.6, 1.0)}),
        "acs_income": Published(grid={"mu": (0.0, 0.05, 0.25, 1.0)}),
        "acs_travel_time": Published(grid={"mu": (0.0, 0.5, 1.0, 2.0)}),
    },
    weighs="both",
)

"""Kernel ridge regression on the shrunk kernel (KRR-FKS)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.calibration import CALIBRATIONS, calibrated
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, effective_ridge, kernel_key
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
from fkd.core.removal import ridge_mu
from fkd.core.ridge import ridge_expansions
from fkd.core.sensitive_basis import BASES
from fkd.core.weights import row_count


@dataclass(frozen=True)
class Parameters:
    """Price of dependence, RBF widths of inputs with sensitive columns, ridge of the predictor."""

    penalty: float = number(0.0, at_least=0)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    gamma_s: float = number(10.0, above=0)
    basis: str = field(default="rbf", metadata={"choices": BASES})
    given: str = field(default="none", metadata={"choices": GIVEN})
    fit_intercept: bool = True
    calibrate: str = field(default="mean", metadata={"choices": CALIBRATIONS})
    approximation: Approximation = field(default_factory=Approximation)
    ridges: str = option("fixed", choices=RIDGE_RULES)


def _mu(p: Parameters, n: float) -> float:
    return ridge_mu(p.penalty, n=n, alpha=effective_ridge(p.alpha, p, n))


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, those of one shrinkage from one decomposition."""
    found: dict[Parameters, Predictor] = {}
    for group in by_shrinkage(settings):
        feature_map, moments = training.reduced(group[0].gamma, group[0].approximation)
        shrunk = shrinkage_of(training, group[0])
        for free in (False, True):
            chosen = [p for p in group if p.fit_intercept is free]
            n = moments.n
            pairs = [(_mu(p, n), effective_ridge(p.alpha, p, n)) for p in chosen]
            fitted = ridge_expansions(feature_map, moments, shrunk, pairs, fit_intercept=free)
            for p, f in zip(chosen, fitted, strict=True):
                found[p] = calibrated(f, training, p.calibrate)
    yield from (found[p] for p in settings)


def _represent(training: Training, p: Parameters, X: Array) -> Array:
    """Return the features of rows X that the regression sees."""
    n = row_count(len(training.y), training.weights.fit)
    return shrunk_features(training, p, _mu(p, n), X)


METHOD = Method(
    name="krr_fks",
    title="KRR-FKS",
    parameters=Parameters,
    fit=_fit,
    strength="penalty",
    shared=kernel_key,
    represent=_represent,
    functions=functions_of,
    published={"acs_income": Published(grid={"penalty": PENALTIES})},
    ours=True,
    weighs="each",
)

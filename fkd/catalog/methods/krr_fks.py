"""Kernel ridge regression on the shrunk kernel (KRR-FKS)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.calibration import CALIBRATIONS, calibrated
from fkd.catalog.methods.kernel_settings import (
    GIVEN,
    RIDGE_RULES,
    effective_ridge,
    fair_features_of,
    kernel_key,
    kernel_of,
)
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.plain_ridge import ridge_setting
from fkd.catalog.methods.shrinkage_settings import (
    PENALTIES,
    functions_of,
    shrinkage_of,
)
from fkd.core.arrays import Array
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.removal import ridge_mu
from fkd.core.ridge import fit_ridge
from fkd.core.sensitive_basis import BASES
from fkd.core.training import Training


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


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, those of one shrinkage from one decomposition."""
    wanted = [ridge_setting(training, p, shrinkage_of(p), p.penalty) for p in settings]
    for p, model in zip(settings, fit_ridge(training, wanted), strict=True):
        yield calibrated(model.expansion, training, p.calibrate)


def _represent(training: Training, p: Parameters, X: Array) -> Array:
    """Return the features of rows X that the regression sees."""
    n = training.moments(kernel_of(p)).n
    mu = ridge_mu(p.penalty, n=n, alpha=effective_ridge(p.alpha, p, n))
    return fair_features_of(training, p, shrinkage_of(p), mu, X)


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

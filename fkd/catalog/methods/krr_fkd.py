"""Kernel ridge regression on the fair kernel (KRR-FKD)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.calibration import CALIBRATIONS, calibrated
from fkd.catalog.methods.kernel_settings import (
    RIDGE_RULES,
    features_left,
    functions_of_path,
    kernel_key,
    path_of,
)
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.plain_ridge import ridge_setting
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import Predictor
from fkd.core.ridge import fit_ridge
from fkd.core.sensitive_basis import BASES
from fkd.core.training import Training


@dataclass(frozen=True)
class Parameters:
    """RBF width, ridge of the predictor, ridge of the removal, number of removal iterations."""

    iterations: int = number(0, at_least=0)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    ridge: float = number(0.1, above=0)
    fit_intercept: bool = False
    center_sensitive: bool = False
    approximation: Approximation = field(default_factory=Approximation)
    basis: str = option("columns", choices=BASES)
    gamma_s: float = option(10.0, gt=0)
    ridges: str = option("fixed", choices=RIDGE_RULES)
    calibrate: str = option("mean", choices=CALIBRATIONS)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, those of one path from one factorisation."""
    wanted = [ridge_setting(training, p, path_of(training, p), p.iterations) for p in settings]
    for p, model in zip(settings, fit_ridge(training, wanted), strict=True):
        yield calibrated(model.expansion, training, p.calibrate)


METHOD = Method(
    name="krr_fkd",
    title="KRR-FKD",
    parameters=Parameters,
    fit=_fit,
    strength="iterations",
    shared=kernel_key,
    represent=features_left,
    functions=functions_of_path,
    published={
        "crimes": Published(grid={"iterations": (0, 5, 10, 18)}),
        "acs_income": Published(grid={"iterations": (0, 15, 20, 30)}),
        "acs_travel_time": Published(grid={"iterations": (0, 15, 20, 30)}),
    },
    weighs="each",
)

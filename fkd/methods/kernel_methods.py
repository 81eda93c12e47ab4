"""Kernel ridge regression and support vector regression, each with every removal.

A method combines the parameters of a learner with those of a removal:

| removal | ridge | SVR |
|---|---|---|
| none | krr | svr |
| path: Fair Kernel Decomposition | krr_fkd | svr_fkd |
| shrinkage: Fair Kernel Shrinkage | krr_fks | svr_fks |
| shrinkage by all pairs of rows: Fair Kernel Learning | krr_fkl | svr_fkl |

The parameters of a removal return its settings and strength (`removal`), those of a learner turn
them into settings of `fkd.core.ridge.fit_ridge` or `fkd.core.svr.fit_svr`, which also fit the
estimators of `fkd.estimators`.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fkd.baselines.fkl import fkl_removal
from fkd.core.arrays import Array
from fkd.core.conditioning import Functions
from fkd.core.feature_maps import Approximation, KernelSettings
from fkd.core.predictors import MapExpansion, Predictor
from fkd.core.removal import fkl_penalty, margin_mu, ridge_mu
from fkd.core.ridge import RidgeSetting, fit_ridge
from fkd.core.sensitive_basis import BASES, BasisSettings
from fkd.core.svr import SOLVERS, SVRSetting, fit_svr
from fkd.core.training import PathSettings, RemovalSettings, ShrinkageSettings, Training
from fkd.core.weights import weighted_median, weighted_std
from fkd.methods.declaration import Method, Published, number, option

# A ridge is added to a sum over rows, so that a fixed one counts less with more rows. "per_row"
# means the given value on `REFERENCE_ROWS` rows, those of the paper's census state, and grows with
# the number of rows. C multiplies a sum over rows, and shrinks with their number.
RIDGE_RULES = ("fixed", "per_row")
REFERENCE_ROWS = 4370
CALIBRATIONS = ("mean", "median")
GIVEN = ("none", "y")
# Powers of n by which the penalty of FKL is divided. The published code does not divide; later
# implementations divide by n or by its square.
_POWERS = {"none": 0.0, "n": 1.0, "n_squared": 2.0}
# Penalties of the default grid: the first ones change hardly anything, the last ones leave hardly
# anything to remove.
PENALTIES = (0.0, 0.3, 1.0, 2.0, 4.0, 7.0, 12.0, 20.0, 35.0, 70.0, 150.0, 400.0, 3000.0)


@dataclass(frozen=True)
class KernelParameters:
    """An RBF kernel and its feature map."""

    gamma: float = number(0.05, above=0)
    approximation: Approximation = field(default_factory=Approximation)

    @property
    def kernel(self) -> KernelSettings:
        """The kernel as the fitting functions take it."""
        return KernelSettings(gamma=self.gamma, approximation=self.approximation)


@dataclass(frozen=True)
class RidgeParameters(KernelParameters):
    """Ridge regression on a kernel."""

    alpha: float = number(0.25, above=0)
    fit_intercept: bool = False


@dataclass(frozen=True)
class KRR(RidgeParameters):
    """Ridge regression whose ridges may grow with the rows, and whose constant may be a median."""

    ridges: str = option("fixed", choices=RIDGE_RULES)
    calibrate: str = option("mean", choices=CALIBRATIONS)

    def removal(self, training: Training, kernel: KernelSettings) -> tuple[RemovalSettings, float]:
        """Return no removal."""
        return None, 0

    def shrinkage_mu(self, training: Training, penalty: float) -> float:
        """Return the mu of a shrinkage at a penalty."""
        n = training.moments(self.kernel).n
        return ridge_mu(penalty, n=n, alpha=effective_ridge(self.alpha, self, n))


@dataclass(frozen=True)
class SVR(KernelParameters):
    """Support vector regression: penalty of errors, half width of the insensitive tube, solver."""

    C: float = number(0.75, above=0)
    epsilon: float = number(0.01, at_least=0)
    # "auto" is resolved to "batched" for reduced maps of many rows before trials are planned.
    solver: str = option("auto", choices=SOLVERS)
    C_rule: str = option("fixed", choices=RIDGE_RULES)

    def removal(self, training: Training, kernel: KernelSettings) -> tuple[RemovalSettings, float]:
        """Return no removal."""
        return None, 0

    def effective_C(self, training: Training) -> float:
        """Return the penalty of errors on these rows."""
        return self.C if self.C_rule == "fixed" else self.C * REFERENCE_ROWS / training.count

    def unit(self, training: Training) -> float:
        """Return the deviation of y, in units of which the loss is penalised."""
        return float(weighted_std(training.y, training.weights.fit)) or 1.0

    def shrinkage_mu(self, training: Training, penalty: float) -> float:
        """Return the mu of a shrinkage at a penalty."""
        unit, C = self.unit(training), self.effective_C(training)
        return margin_mu(penalty, n=training.count, C=C, unit=unit)


@dataclass(frozen=True)
class PathParameters:
    """A removal path: its length, its ridge, the functions of s that it removes."""

    iterations: int = number(0, at_least=0)
    ridge: float = number(0.1, above=0)
    ridges: str = option("fixed", choices=RIDGE_RULES)
    center_sensitive: bool = False
    basis: str = option("columns", choices=BASES)
    gamma_s: float = number(10.0, above=0)

    @property
    def functions(self) -> Functions | None:
        """The functions of s that are removed, None for the columns themselves."""
        if self.basis == "columns":
            return None
        return Functions(BasisSettings(self.basis, self.gamma_s))

    def removal(self, training: Training, kernel: KernelSettings) -> tuple[RemovalSettings, float]:
        """Return the path and its length."""
        n = training.moments(kernel, "removal").n
        ridge = effective_ridge(self.ridge, self, n)
        return PathSettings(ridge, self.center_sensitive, self.functions), self.iterations


@dataclass(frozen=True)
class ShrinkageParameters:
    """A shrinkage: its penalty, the functions of s, conditioning columns."""

    penalty: float = number(0.0, at_least=0)
    gamma_s: float = number(10.0, above=0)
    basis: str = option("rbf", choices=BASES)
    given: str = option("none", choices=GIVEN)

    @property
    def functions(self) -> Functions:
        """The functions of s with which covariance is penalised."""
        return Functions(BasisSettings(self.basis, self.gamma_s), self.given)

    def removal(self, training: Training, kernel: KernelSettings) -> tuple[RemovalSettings, float]:
        """Return the shrinkage and its penalty."""
        return ShrinkageSettings(self.functions), self.penalty


@dataclass(frozen=True)
class FKLParameters:
    """Fair kernel learning (Pérez-Suay et al. 2017): its penalty, the kernel of s."""

    penalty: float = number(0.0, at_least=0)
    gamma_s: float = number(0.05, above=0)
    penalty_scale: str = option("none", choices=tuple(_POWERS))
    ridges: str = option("fixed", choices=RIDGE_RULES)

    @property
    def functions(self) -> Functions:
        """Functions of s whose inner products approximate the kernel of s."""
        return Functions(BasisSettings("rbf", self.gamma_s))

    def published_mu(self, n: float) -> float:
        """Return mu, the published penalty, on n training rows.

        It multiplies a sum over all pairs of rows. If ridges grow with the number of rows, its
        weight relative to the mean squared error is that on `REFERENCE_ROWS` rows.
        """
        rows = n if self.ridges == "fixed" else float(REFERENCE_ROWS)
        return float(self.penalty * rows ** (1.0 - _POWERS[self.penalty_scale]) / n)

    def removal(self, training: Training, kernel: KernelSettings) -> tuple[RemovalSettings, float]:
        """Return the shrinkage by the kernel of s, and its penalty.

        As published, all training rows are compared. Under a shared map the functions of s are
        those of the reserved rows.
        """
        penalty = fkl_penalty(self.published_mu(training.count), n=training.count)
        if kernel.approximation.shared:
            return ShrinkageSettings(self.functions), penalty
        return fkl_removal(training, kernel, self.gamma_s), penalty


@dataclass(frozen=True)
class KRRFKD(PathParameters, KRR):
    """Ridge regression after a removal path."""


@dataclass(frozen=True)
class KRRFKS(ShrinkageParameters, KRR):
    """Ridge regression on the shrunk kernel."""

    fit_intercept: bool = True


@dataclass(frozen=True)
class KRRFKL(FKLParameters, KRR):
    """Ridge regression by fair kernel learning."""


@dataclass(frozen=True)
class SVRFKD(PathParameters, SVR):
    """Support vector regression after a removal path."""

    ridge: float = number(0.05, above=0)


@dataclass(frozen=True)
class SVRFKS(ShrinkageParameters, SVR):
    """Support vector regression on the shrunk kernel."""


@dataclass(frozen=True)
class SVRFKL(FKLParameters, SVR):
    """Support vector regression by fair kernel learning."""

    def removal(self, training: Training, kernel: KernelSettings) -> tuple[RemovalSettings, float]:
        """Return the shrinkage by the kernel of s, and its penalty."""
        removal, penalty = super().removal(training, kernel)
        # The published penalty is added to the sum of losses in the unit of y.
        return removal, self.unit(training) * penalty


def effective_ridge(value: float, parameters: object, n: float) -> float:
    """Return the value of a ridge on n training rows, by the rule of a setting."""
    if getattr(parameters, "ridges", "fixed") == "fixed":
        return value
    return value * n / REFERENCE_ROWS


def least_ridge(parameters: object, n: int) -> float:
    """Return the smallest ridge of a setting on n training rows, infinity if it has none."""
    ridges = [getattr(parameters, name) for name in ("ridge", "alpha") if hasattr(parameters, name)]
    return min((effective_ridge(ridge, parameters, n) for ridge in ridges), default=math.inf)


def kernel_key(p: KernelParameters) -> tuple[Hashable, ...]:
    """Return the key of the factorisation: settings on the same kernel share it."""
    return ("rbf", p.gamma, p.approximation)


def ridge_setting(
    training: Training, p: RidgeParameters, removal: RemovalSettings, strength: float
) -> RidgeSetting:
    """Return the ridge regression of a setting after a removal."""
    alpha = effective_ridge(p.alpha, p, training.moments(p.kernel).n)
    return RidgeSetting(p.kernel, removal, strength, alpha, p.fit_intercept)


def plain_ridge(training: Training, p: RidgeParameters) -> MapExpansion:
    """Return kernel ridge regression without removal."""
    (model,) = fit_ridge(training, [ridge_setting(training, p, None, 0)])
    return model.expansion


def _fit_ridge(training: Training, settings: Sequence[KRR]) -> Iterator[Predictor]:
    """Yield the predictors, those of one removal from one factorisation."""
    wanted = [ridge_setting(training, p, *p.removal(training, p.kernel)) for p in settings]
    for p, model in zip(settings, fit_ridge(training, wanted), strict=True):
        yield _calibrated(model.expansion, training, p.calibrate)


def _calibrated(f: MapExpansion, training: Training, kind: str) -> MapExpansion:
    """Return f, or f plus the median of the residuals of the training rows.

    The constant of a ridge regression minimises the squared error. If methods are compared by
    absolute error, a constant at the median of the residuals is a fair comparison.
    """
    if kind == "mean":
        return f
    residuals = (training.y - f.predict(training.X))[:, None]
    (median,) = weighted_median(residuals, training.weights.fit)
    return replace(f, intercept=f.intercept + float(median))


def _fit_svr(training: Training, settings: Sequence[SVR]) -> Iterator[Predictor]:
    """Yield the predictors as soon as each is fitted, those on one kernel from one matrix."""
    wanted = [
        SVRSetting(
            p.kernel,
            *p.removal(training, p.kernel),
            p.effective_C(training),
            p.epsilon,
            batched=p.solver == "batched",
        )
        for p in settings
    ]
    return (model.predictor for model in fit_svr(training, wanted))


def _represent(training: Training, p: KRR | SVR, X: Array) -> Array:
    """Return the features of rows X after the removal of a setting."""
    removal, strength = p.removal(training, p.kernel)
    if isinstance(removal, ShrinkageSettings):
        strength = p.shrinkage_mu(training, strength)
    removed = training.removals(p.kernel, removal, strength).at(strength)
    return removed.features(training.feature_map(p.kernel).transform(X))


def _functions(p: Any) -> Functions | None:
    """Return the functions of s that a removal needs."""
    functions: Functions | None = p.functions
    return functions


_FKD_GRIDS = {
    "crimes": (0, 5, 10, 18),
    "acs_income": (0, 15, 20, 30),
    "acs_travel_time": (0, 15, 20, 30),
}
_SVR_FKD_GRIDS = {
    "crimes": (0, 5, 30, 45, 60, 80),
    "acs_income": (0, 45, 60, 80, 100),
    "acs_travel_time": (0, 45, 60, 100),
}
_FKL_GRIDS = {
    "crimes": (0.0, 0.05, 0.25, 0.6, 1.0),
    "acs_income": (0.0, 0.05, 0.25, 1.0),
    "acs_travel_time": (0.0, 0.5, 1.0, 2.0),
}
_SVR_FIXED: dict[str, dict[str, float]] = {
    "crimes": {},
    "acs_income": {"epsilon": 0.005, "C": 0.5},
    "acs_travel_time": {"epsilon": 0.001, "C": 0.125, "gamma": 0.01},
}
SVR_PUBLISHED = {problem: Published(fixed=fixed) for problem, fixed in _SVR_FIXED.items()}


def _with_grids(
    strength: str,
    grids: Mapping[str, Sequence[float]],
    published: Mapping[str, Published] | None = None,
) -> dict[str, Published]:
    """Return the published settings with a grid of strengths per problem."""
    return {
        problem: replace((published or {}).get(problem, Published()), grid={strength: values})
        for problem, values in grids.items()
    }


FKD_PUBLISHED = _with_grids("iterations", _FKD_GRIDS)
SVR_FKD_PUBLISHED = _with_grids("iterations", _SVR_FKD_GRIDS, SVR_PUBLISHED)

_Fit = Callable[[Training, Sequence[Any]], Iterator[Predictor]]
_LEARNERS: dict[str, tuple[str, _Fit]] = {"krr": ("KRR", _fit_ridge), "svr": ("SVR", _fit_svr)}
_REMOVALS: dict[str, dict[str, Any]] = {
    "fkd": {"strength": "iterations", "represent": _represent, "weighs": "each"},
    "fks": {"strength": "penalty", "represent": _represent, "weighs": "each", "ours": True},
    "fkl": {"strength": "penalty", "weighs": "both"},
}


def _combined(
    learner: str, removal: str, parameters: type, published: Mapping[str, Published]
) -> Method:
    """Return the method of a learner with a removal, such as `krr_fkd`."""
    title, fit = _LEARNERS[learner]
    return Method(
        name=f"{learner}_{removal}",
        title=f"{title}-{removal.upper()}",
        parameters=parameters,
        fit=fit,
        shared=kernel_key,
        functions=_functions,
        published=published,
        **_REMOVALS[removal],
    )


_SVR_FKS_PUBLISHED = _with_grids("penalty", dict.fromkeys(_SVR_FIXED, PENALTIES), SVR_PUBLISHED)

METHODS = (
    Method("krr", "KRR", KRR, _fit_ridge, shared=kernel_key, weighs="fit"),
    Method("svr", "SVR", SVR, _fit_svr, shared=kernel_key, published=SVR_PUBLISHED, weighs="fit"),
    _combined("krr", "fkd", KRRFKD, FKD_PUBLISHED),
    _combined("krr", "fks", KRRFKS, _with_grids("penalty", {"acs_income": PENALTIES})),
    _combined("krr", "fkl", KRRFKL, _with_grids("penalty", _FKL_GRIDS)),
    _combined("svr", "fkd", SVRFKD, SVR_FKD_PUBLISHED),
    _combined("svr", "fks", SVRFKS, _SVR_FKS_PUBLISHED),
    _combined("svr", "fkl", SVRFKL, _with_grids("penalty", _FKL_GRIDS, SVR_PUBLISHED)),
)

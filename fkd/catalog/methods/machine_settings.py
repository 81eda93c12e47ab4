"""Support vector regressions of a method's parameters."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from fkd.catalog.methods.kernel_settings import REFERENCE_ROWS, OnKernel, kernel_of
from fkd.core.predictors import Predictor
from fkd.core.svr import SOLVERS, SVRSetting, fit_svr
from fkd.core.training import RemovalSettings, Training

# "auto" is resolved to "batched" for reduced maps of many rows before trials are planned.
SETTING_SOLVERS = SOLVERS


class OnSolver(OnKernel, Protocol):
    """Parameters of a support vector machine on a kernel."""

    @property
    def C(self) -> float:
        """Penalty of errors."""

    @property
    def C_rule(self) -> str:
        """Rule of the penalty, one of `RIDGE_RULES`."""

    @property
    def epsilon(self) -> float:
        """Half width of the insensitive tube."""

    @property
    def solver(self) -> str:
        """The solver, one of `SETTING_SOLVERS`."""


def effective_C(p: OnSolver, training: Training) -> float:
    """Return the penalty of a setting on these rows.

    It multiplies a sum over rows: with more rows a fixed one regularises less. "per_row" means the
    given value on the reference's rows, and less on more.
    """
    if p.C_rule == "fixed":
        return p.C
    return p.C * REFERENCE_ROWS / training.count


def svr_predictors(
    training: Training, settings: Sequence[tuple[OnSolver, RemovalSettings, float]]
) -> Iterator[Predictor]:
    """Yield one predictor per (setting, removal, strength), in order."""
    machines = [
        SVRSetting(
            kernel_of(p),
            removal,
            strength,
            effective_C(p, training),
            p.epsilon,
            batched=p.solver == "batched",
        )
        for p, removal, strength in settings
    ]
    return (model.predictor for model in fit_svr(training, machines))

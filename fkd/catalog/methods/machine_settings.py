"""Support vector regressions of settings that share a feature map."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from fkd.catalog.methods.kernel_settings import REFERENCE_ROWS, OnKernel
from fkd.catalog.methods.training_fold import Training
from fkd.core.moments import Moments
from fkd.core.predictors import Predictor
from fkd.core.removal import Removals
from fkd.core.svm import GAP, ITERATIONS, Machine, Solution, Source, gap_message, solve_machines
from fkd.core.weights import row_count
from fkd.estimators.support_vector_regression import svr_expansions

# On a reduced map of more rows than libsvm is made for, auto is settled to batched.
SETTING_SOLVERS = ("auto", "libsvm", "batched")


class OnSolver(OnKernel, Protocol):
    """Parameters of a support vector machine on a kernel."""

    @property
    def C(self) -> float:
        """Penalty of errors."""

    @property
    def C_rule(self) -> str:
        """Whether it falls as rows are added, one of `RIDGE_RULES`."""

    @property
    def solver(self) -> str:
        """Who solves it, one of `SETTING_SOLVERS`."""


def effective_C(p: OnSolver, training: Training) -> float:
    """Return what the penalty of a setting is on these rows.

    It weighs a sum over rows: a fixed one regularises the less the more there are. Per row it is
    what is written on the reference's rows, less on more.
    """
    if p.C_rule == "fixed":
        return p.C
    return p.C * REFERENCE_ROWS / row_count(len(training.y), training.weights.fit)


def svr_predictors(
    training: Training,
    first: OnSolver,
    removals: Removals,
    wanted: Sequence[tuple[float, float, float]],
) -> Iterator[Predictor]:
    """Yield one predictor per (strength, C, epsilon), in order.

    Parameters
    ----------
    training, removals
        Rows, what may be taken out of their features.
    first
        A setting that has kernel and solver of all.
    wanted
        As `fkd.estimators.support_vector_regression.svr_machines` takes them.
    """
    # Weights are factors of C: the passes themselves see every row once.
    feature_map, moments = training.reduced(first.gamma, first.approximation, "once")
    if first.solver != "batched":
        data = feature_map, training.X, training.y, removals, wanted
        yield from svr_expansions(*data, weights=training.weights.fit)
        return
    source = training.streamed(first.gamma, first.approximation)
    for one in certified_machines(source, moments, removals, wanted):
        yield feature_map.expansion(one.beta, one.intercept)


def certified_machines(
    source: Source,
    moments: Moments,
    removals: Removals,
    wanted: Sequence[tuple[float, float, float]],
) -> list[Solution]:
    """Return one machine per (strength, C, epsilon), in order; one that misses its gap is refused.

    Parameters
    ----------
    source, moments
        Features of the rows, their sums.
    removals, wanted
        As in `svr_predictors`.
    """
    machines = [Machine(C, removals.at(strength), epsilon) for strength, C, epsilon in wanted]
    found = solve_machines(source, [moments], machines, tol=GAP, max_iter=ITERATIONS)
    names = [f"strength {s:g} with C {C:g}, epsilon {epsilon:g}" for s, C, epsilon in wanted]
    missed = gap_message(list(zip(names, found, strict=True)), GAP)
    if missed is not None:
        raise ValueError(missed)
    return found

"""Support vector regression on fair kernels: libsvm, or the batched solver of `fkd.core.svm`.

`fit_svr` is the entry: it fits several settings to training rows. `FairSVR` calls it with one
removal, the methods svr, svr_fkd and svr_fks with many settings.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR

from fkd.core.arrays import Array, Precision, Rows, Source
from fkd.core.feature_maps import ExactMap, FeatureMap, KernelSettings
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import Removals, fair_features, fair_gram, margin_mu
from fkd.core.svm import (
    GAP,
    ITERATIONS,
    SINGLE_GAP,
    Loss,
    Machine,
    Solution,
    gap_message,
    solve_machines,
)
from fkd.core.training import RemovalSettings, Training, group_settings
from fkd.core.validation import choice, not_negative, positive, step_limit
from fkd.core.weights import weighted_std

SOLVERS = ("auto", "libsvm", "batched")
# The cost of libsvm grows with the square of the number of rows: minutes for this many.
LIBSVM_ROWS = 10_000
# Up to this many rows the kernel matrix of a reduced map is formed if the caller allows it. libsvm
# reads it faster than it multiplies features.
PRECOMPUTED_ROWS = 10_000
LIBSVM_TOL = 1e-3  # the default of libsvm, named because published numbers depend on it
# Scaled rows need some ten thousand steps; a million take a second on a hundred rows, a minute on
# four thousand. Without a limit a target far beyond C never converges.
LIBSVM_STEPS = 1_000_000


@dataclass(frozen=True)
class SVRSetting:
    """Support vector regression after a removal."""

    kernel: KernelSettings
    removal: RemovalSettings
    strength: float  # iterations of a path, penalty of a shrinkage
    C: float  # penalty of errors beyond epsilon, above 0
    epsilon: float  # half width of the insensitive tube
    batched: bool = False


@dataclass(frozen=True)
class SVRModel:
    """A fitted machine."""

    predictor: MapExpansion
    removals: Removals
    iterations: int  # steps of libsvm, or passes over the rows
    gap: float | None = None  # certified relative duality gap; None for libsvm

    def scores(self, X: Rows) -> Array:
        """Return the predictions, (k, 1)."""
        return self.predictor.predict(X)[:, None]


def fit_svr(
    training: Training,
    settings: Sequence[SVRSetting],
    *,
    tol: float = LIBSVM_TOL,
    max_iter: int = LIBSVM_STEPS,
    precomputed_rows: int = PRECOMPUTED_ROWS,
    warn: bool = False,
) -> Iterator[SVRModel]:
    """Fit support vector regressions to training rows, and yield one model per setting, in order.

    Parameters
    ----------
    training, settings
        Training rows, settings. Settings with the same kernel and removal share its directions,
        neighbours with the same strength one fair kernel matrix. No model depends on the other
        settings.
    tol, max_iter
        Stopping criteria: violation of the optimality conditions and number of steps of libsvm,
        which issues a ConvergenceWarning, -1 being no limit; relative duality gap and number of
        passes of the batched solver, at most 2000.
    precomputed_rows
        Largest number of rows for which the kernel matrix of a reduced map is formed.
    warn
        Issue a ConvergenceWarning if the batched solver misses the gap instead of a ValueError.
    """
    rule: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    groups = group_settings(settings, "kernel", "removal", "batched")
    solved: dict[int, SVRModel] = {}
    following = 0
    for k, group in enumerate(groups):
        chosen = [settings[i] for i in group]
        kernel, strongest = chosen[0].kernel, max(setting.strength for setting in chosen)
        removals = training.removals(kernel, chosen[0].removal, strongest)
        wanted = [_machine(training, setting, removals) for setting in chosen]
        feature_map = training.feature_map(kernel)
        models: Iterable[SVRModel]
        if chosen[0].batched:
            source = training.features(kernel, batched_precision(tol))
            # Weights are factors of C: the moments count each row once.
            moments = training.moments(kernel, "once")
            found = batched_regressions(source, moments, removals, wanted, warn=warn, **rule)
            models = [
                SVRModel(feature_map.expansion(s.beta, s.intercept), removals, s.iterations, s.gap)
                for s in found
            ]
        else:
            if all(settings[later[0]].kernel != kernel for later in groups[k + 1 :]):
                training.discard_moments(kernel)
            rows = training.X, training.y, training.weights.fit
            models = libsvm_models(
                feature_map, *rows, removals, wanted, precomputed_rows=precomputed_rows, **rule
            )
        for i, model in zip(group, models, strict=True):
            solved[i] = model
            while following in solved:
                yield solved.pop(following)
                following += 1


def use_batched(solver: str, *, exact: bool, n: int) -> bool:
    """Return whether the batched solver is used, for a `solver` of `SOLVERS` and n rows."""
    if choice("solver", solver, SOLVERS) == "batched" and exact:
        raise ValueError(
            "solver must be 'auto' or 'libsvm' if approximation='exact', got 'batched', which "
            "works on features. Use approximation='nystroem'"
        )
    return solver == "batched" or (solver == "auto" and not exact and n > LIBSVM_ROWS)


def _machine(
    training: Training, setting: SVRSetting, removals: Removals
) -> tuple[float, float, float]:
    """Return the strength of the removal, C and epsilon of a setting."""
    C, strength = positive("C", setting.C), setting.strength
    if not removals.nested:
        # A constant target has no unit.
        unit = float(weighted_std(training.y, training.weights.fit)) or 1.0
        strength = margin_mu(strength, n=training.count, C=C, unit=unit)
    return strength, C, setting.epsilon


def libsvm_models(
    feature_map: FeatureMap,
    X: Rows,
    y: Array,
    w: Array | None,
    removals: Removals,
    settings: Sequence[tuple[float, float, float]],
    *,
    tol: float = LIBSVM_TOL,
    max_iter: int = LIBSVM_STEPS,
    precomputed_rows: int = PRECOMPUTED_ROWS,
) -> Iterator[SVRModel]:
    """Yield one machine of libsvm per (strength of the removal, C, epsilon), in order."""
    precomputed = isinstance(feature_map, ExactMap) or X.shape[0] <= precomputed_rows
    K = feature_map.training_gram(X) if precomputed else None
    fitted, fair = -1.0, np.empty(0)
    for strength, C, epsilon in settings:
        removed = removals.at(strength)
        if strength != fitted:
            fair = (
                fair_features(feature_map, X, removed)
                if K is None
                # A symmetric matrix's transpose has the row order that libsvm reads without a copy.
                else fair_gram(feature_map, X, removed, K).T
            )
            fitted = strength
        svr = SVR(
            kernel="precomputed" if precomputed else "linear",
            C=positive("C", C),
            epsilon=not_negative("epsilon", epsilon),
            cache_size=1000,
            tol=positive("tol", tol),
            max_iter=step_limit("max_iter", max_iter),
        ).fit(fair, y, sample_weight=w)
        a = np.zeros(X.shape[0])
        a[svr.support_] = svr.dual_coef_[0]
        beta = removed.weights(feature_map.training_adjoint(X, a))
        found = feature_map.expansion(beta, float(svr.intercept_[0]))
        yield SVRModel(found, removals, int(svr.n_iter_))


def batched_regressions(
    source: Source,
    moments: Moments,
    removals: Removals,
    settings: Sequence[tuple[float, float, float]],
    *,
    tol: float = GAP,
    max_iter: int = ITERATIONS,
    warn: bool = False,
) -> list[Solution]:
    """Return one solution per (strength of the removal, C, epsilon), in order.

    Parameters
    ----------
    source, moments
        Features of the rows, their moments without weights.
    removals, settings
        The removal, the machines.
    tol, max_iter, warn
        As in `fit_svr`.
    """
    machines = [Machine(C, removals.at(strength), epsilon) for strength, C, epsilon in settings]
    found = solve_batch(source, moments, machines, loss="tube", tol=tol, max_iter=max_iter)
    names = [f"strength {s:g} with C {C:g}, epsilon {epsilon:g}" for s, C, epsilon in settings]
    report_gaps(zip(names, found, strict=True), tol, warn=warn)
    return found


def solve_batch(
    source: Source,
    moments: Moments,
    machines: Sequence[Machine],
    *,
    loss: Loss,
    tol: float,
    max_iter: int,
) -> list[Solution]:
    """Return the solutions of machines on one fold; -1 is the largest number of passes."""
    passes = step_limit("max_iter", max_iter)
    passes = ITERATIONS if passes == -1 else min(passes, ITERATIONS)
    return solve_machines(source, moments, machines, loss=loss, tol=tol, max_iter=passes)


def batched_precision(tol: float) -> Precision:
    """Return the precision in which the batched solver can reach a gap."""
    return np.float32 if positive("tol", tol) >= SINGLE_GAP else np.float64


def report_gaps(solutions: Iterable[tuple[str, Solution]], tol: float, *, warn: bool) -> None:
    """Raise ValueError, or warn, if a named machine missed the gap."""
    message = gap_message(list(solutions), tol)
    if message is None:
        return
    if not warn:
        raise ValueError(message)
    warnings.warn(message, ConvergenceWarning, stacklevel=2)

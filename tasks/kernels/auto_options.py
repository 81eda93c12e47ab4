"""Resolve `auto` options of methods for a table."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from fkd.core.feature_maps import EXACT_ROWS, Adequacy, Approximation, adequate_landmarks
from fkd.core.kernels import Kernel
from fkd.core.moments import Rounding
from fkd.core.svr import LIBSVM_ROWS
from fkd.methods.declaration import kernel_cost
from fkd.methods.kernel_methods import effective_ridge, least_ridge
from fkd.problems.table import Table
from tasks.kernels.shared_map import SharedMap, encoder_of, rounding_of, store_map
from tasks.kernels.shared_training import sums_of
from tasks.kernels.streaming import MapSums
from tasks.plan.trials import Inputs, Job
from tasks.storage.environment import blas_threads
from tasks.storage.records import digest
from tasks.storage.store import open_store

# To be raised when the same rows give another number of landmarks.
_VERSION = 2
# Rows on which numbers of landmarks are compared; more rows hardly change the result.
_SAMPLE = 8192
# Largest number of landmarks that is chosen by default, for the time of a pass over the rows.
_MOST = 4000
_STEP = 50  # numbers of landmarks are multiples, so that a few more rows do not change them


@dataclass(frozen=True)
class Choice:
    """An approximation and the reason for it."""

    approximation: Approximation
    why: str
    adequacy: Adequacy | None = None  # None if the kernel is exact


def choose_approximation(setting: Any, inputs: Inputs, table: Table, memory: float) -> Choice:
    """Return the exact kernel if it fits into memory, else landmarks for the required accuracy.

    Parameters
    ----------
    setting
        Setting with kernel, ridge and accuracy.
    inputs, table
        The rows.
    memory
        Memory of a worker in bytes.
    """
    n = max(len(fold.train) for fold in inputs.splits.all(table).values())
    exact = Approximation("exact")
    needed = kernel_cost([replace(setting, approximation=exact)], n, 0).bytes
    if n <= EXACT_ROWS and needed <= memory:
        why = f"exact: {n} training rows are at most {EXACT_ROWS}, {_gib(needed)} fit into memory"
        return Choice(exact, why)
    asked, alpha = setting.approximation.accuracy, getattr(setting, "alpha", 1.0)
    sampled = min(_SAMPLE, len(inputs.splits.reserved(table)) or table.n)
    found = _adequacy(inputs, setting.gamma, asked, effective_ridge(alpha, setting, sampled))
    reserved = len(inputs.splits.reserved(table))
    shared = 2 * found.landmarks <= reserved
    chosen = Approximation("nystroem", found.landmarks, shared=shared)
    reason = (
        f"{n} training rows are more than {EXACT_ROWS}"
        if n > EXACT_ROWS
        else f"{_gib(needed)} do not fit into {_gib(memory)} of memory"
    )
    why = (
        f"nystroem with {found.landmarks} landmarks under "
        f"{'one map for all folds' if shared else 'a map of each fold'}: {reason}; "
        f"{found.unexplained:.1%} of the kernel stays unexplained ({asked:.1%} asked for); half "
        f"the landmarks would change predictions of a model of {sampled // 2} rows by "
        f"{found.halved:.2g} of their deviation"
    )
    return Choice(chosen, why, found)


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


@lru_cache(maxsize=64)
def _adequacy(inputs: Inputs, gamma: float, accuracy: float, alpha: float) -> Adequacy:
    """Return the number of landmarks for an accuracy, from the store if it is known."""
    identity = {
        "version": _VERSION,
        "data": inputs.table_digest,
        "folds": inputs.splits.folds.model_dump(mode="json"),
        "seeds": [inputs.seed, inputs.splits.seed],
        "scale": [inputs.scale, inputs.scale_on],
        "asked": [gamma, accuracy, alpha],
    }
    store, name = open_store(inputs.settings), f"moments/{digest(identity)}.landmarks"
    kept = store.read(name)
    if kept is not None:
        return Adequacy(**json.loads(kept))
    found = _tried(inputs, gamma, accuracy, alpha)
    store.write(name, json.dumps(asdict(found)).encode())
    return found


def _tried(inputs: Inputs, gamma: float, accuracy: float, alpha: float) -> Adequacy:
    """Return the number of landmarks for an accuracy on a sample of rows.

    The sample comes from reserved rows if there are any. Otherwise it comes from all rows: only a
    number of landmarks is learned from them.
    """
    table = inputs.table
    rng = np.random.default_rng([inputs.seed, _SAMPLE])
    reserved = inputs.splits.reserved(table)
    rows = reserved if len(reserved) else np.arange(table.n)
    rows = np.sort(rng.choice(rows, min(_SAMPLE, len(rows)), replace=False))
    with blas_threads(inputs.blas_threads):
        sample = table.take(rows)
        X = encoder_of(sample, inputs).transform(sample)
        found = adequate_landmarks(
            Kernel("rbf", gamma),
            X,
            sample.y,
            accuracy=accuracy,
            most=min(_MOST, len(X) // 2),
            alpha=alpha,
            rng=rng,
        )
    rounded = -(-found.landmarks // _STEP) * _STEP
    return Adequacy(min(rounded, len(X)), found.unexplained, found.halved)


def resolve_auto(settings: Sequence[Any], inputs: Inputs, table: Table, memory: float) -> list[Any]:
    """Return the settings with `auto` options resolved, each from its rows only.

    Parameters
    ----------
    settings
        Settings of a configuration.
    inputs, table
        The rows.
    memory
        Bytes that a worker has.
    """

    @cache
    def rounding(shared: SharedMap) -> Rounding:
        # Cached, because each call reads the file of the map.
        return rounding_of(store_map(shared))

    def resolve(setting: Any) -> Any:
        approximation = getattr(setting, "approximation", None)
        if approximation is None:
            return setting
        if approximation.kind == "auto":
            approximation = choose_approximation(setting, inputs, table, memory).approximation
            setting = replace(setting, approximation=approximation)
        if getattr(setting, "solver", None) == "auto" and approximation.kind != "exact":
            n = max(len(fold.train) for fold in inputs.splits.all(table).values())
            setting = replace(setting, solver="batched") if n > LIBSVM_ROWS else setting
        if not approximation.shared or approximation.sums != "auto":
            return setting
        shared = SharedMap.of(inputs, setting.gamma, approximation)
        precision = rounding(shared).fastest(table.n, least_ridge(setting, table.n))
        return replace(setting, approximation=replace(approximation, sums=precision))

    return [resolve(setting) for setting in settings]


def sum_remarks(jobs: Iterable[Job]) -> list[str]:
    """Return for each shared map a message about the precision of sums."""
    least: dict[MapSums, float] = {}
    for trial, inputs in dict.fromkeys((t, job.inputs) for job in jobs for t in job.trials):
        if (sums := sums_of(trial, inputs)) is not None:
            ridge = least_ridge(trial.setting(), inputs.table.n)
            least[sums] = min(ridge, least.get(sums, ridge))
    return [_remark(sums, ridge) for sums, ridge in least.items()]


def _remark(sums: MapSums, ridge: float) -> str:
    n = sums.shared.inputs.table.n
    if sums.shared.approximation.kind != "nystroem":
        return f"one pass over {n} rows, with sums of their features"
    rounding = rounding_of(store_map(sums.shared))
    means = {
        "float32": "kernel values in single precision",
        "float64": "kernel values in double precision",
        "rows": "rows whitened one by one",
    }
    return (
        f"one pass over {n} rows, {means[sums.precision]}. Rounding adds {rounding.single * n:.1e} "
        f"in single and {rounding.double * n:.1e} in double precision to a ridge of {ridge:.3g} "
        f"(condition number of the landmarks {rounding.condition:.1e})"
    )

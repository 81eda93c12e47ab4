"""Resample a score of trials on the same draws of rows, so that trials can be compared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from configs.errors import UserError
from fkd.core.arrays import Array
from fkd.measures import REPORTED
from fkd.measures.pairwise import pairwise_on_subsamples
from fkd.measures.resampling import quarter, repeated, rescaled_draws
from tasks.plan.trials import Inputs
from tasks.storage.environment import blas_threads
from tasks.storage.records import TrialStore, digest
from tasks.storage.store import open_store

_VERSION = 3  # of the values, part of their name in the store; raise it if a measure changes
_ERRORS: dict[str, Callable[[Array], Any]] = {
    "mae": lambda errors: np.abs(errors).mean(),
    "mse": lambda errors: np.square(errors).mean(),
    "rmse": lambda errors: np.sqrt(np.square(errors).mean()),
}
_SEED = 20260706  # of the quarters: one for all trials, whatever the seed of the run


@dataclass(frozen=True)
class Resampling:
    """One score of one trial on all pooled test rows and on draws of them.

    Parameters
    ----------
    inputs
        The data of the trial.
    record_keys
        The keys of its records in the order of the folds.
    column, score
        The measured column and the score.
    draws
        The number of random quarters.
    """

    inputs: Inputs
    record_keys: tuple[str, ...]
    column: str
    score: str
    draws: int

    @property
    def name(self) -> str:
        """The name of the values in the store."""
        key = digest([self.record_keys, self.column, self.score, self.draws, _SEED, _VERSION])
        return f"resampled/{key[:2]}/{key}.arrays"

    def read(self) -> Array | None:
        """Return the stored score on all rows and each rescaled draw (1 + draws,), or None."""
        arrays = open_store(self.inputs.settings).read_arrays(self.name)
        return None if arrays is None else np.asarray(arrays["values"], dtype=np.float64)


def resample(job: Resampling) -> None:
    """Compute the score of a trial on all rows and on quarters of them, and store the values.

    Draws are rescaled as in `fkd.measures.interval`: scores on few rows differ from those on all
    rows in level and spread.
    """
    if job.read() is not None:
        return
    y, f, s = _pooled_rows(job)
    rng = np.random.default_rng(_SEED)
    with blas_threads(job.inputs.blas_threads):
        first = _score(job.score, y, f, s)
        quarters = (quarter(len(y), rng) for _ in range(job.draws))
        if job.score in REPORTED and REPORTED[job.score].interval == "pairs":
            found = np.abs(pairwise_on_subsamples(y, [f], s, quarters)[0])
        else:
            draws = map(repeated, quarters)
            found = np.array([_score(job.score, y[rows], f[rows], s[rows]) for rows in draws])
    if np.isnan(found).any():
        raise ValueError(
            f"{job.score} must be defined on every quarter of the rows, got NaN on one"
        )
    # No score is negative; a front of negative draws would go beyond the constant prediction.
    others = np.maximum(rescaled_draws(first, found, len(y)), 0.0)
    values = {"values": np.array([first, *others])}
    open_store(job.inputs.settings).write_arrays(job.name, values)


def _pooled_rows(job: Resampling) -> tuple[Array, Array, Array]:
    """Return target, prediction and sensitive column of the rows that some fold tested."""
    inputs = job.inputs
    table = inputs.table
    store = TrialStore(open_store(inputs.settings))
    y_pred = inputs.splits.pool(table, (stored_predictions(store, k) for k in job.record_keys))
    tested = ~np.isnan(y_pred)
    return table.y[tested], y_pred[tested], table.S([job.column])[tested, 0]


def stored_predictions(store: TrialStore, key: str) -> Array:
    """Return the stored predictions of a record."""
    found = store.predictions(key)
    if found is None:
        raise UserError(
            f"The predictions of record {key[:12]} under {store.address} are damaged or missing. "
            "Run the same command again to compute them."
        )
    return found


def _score(name: str, y: Array, f: Array, s: Array) -> float:
    """Return one score of predictions f."""
    if name in _ERRORS:
        return float(_ERRORS[name](y - f))
    measure = REPORTED[name].scaled()
    return float(measure(*measure.columns(y, f, s)))

"""Run a job on a worker: fit the trials of a split, measure them, store their records.

Also estimate the time and memory of jobs.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri, stdtrit
from sklearn.metrics import mean_absolute_error, mean_squared_error

from configs.errors import UserError
from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.predictors import Predictor, predict_all
from fkd.measures import REPORTED
from fkd.measures.groups import UndefinedMeasureError
from fkd.measures.resampling import BINNED_FROM, SharedSubsamples, quarter
from fkd.methods import Cost, Training, method
from fkd.methods.declaration import streaming_flops
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.kernels.shared_training import shared_sums, shared_training, sums_of
from tasks.plan.splits import Fold
from tasks.plan.training import Passes, make_training, measure_weights, model_inputs
from tasks.plan.trials import Inputs, Job, Trial, check_versions
from tasks.storage.environment import PeakMemory, blas_threads, environment
from tasks.storage.records import PredictedRows, RecordWriter, StoredFit, TrialRecord, TrialStore
from tasks.storage.store import open_store

# Subsamples per fit. With 25, the standard error of an interval's width is about 1/7 of it.
DRAWS = 25
_BINNED = tuple(m.scaled() for m in REPORTED.values() if m.interval == "binned")
# Half width of a 95 % interval in standard deviations: normal, and Student's t for so few draws.
_KNOWN, _DRAWN = float(ndtri(0.975)), float(stdtrit(DRAWS - 1, 0.975))
# Distinguishes these draws from others with the same seed.
_ENDS = 3


def is_counted(n: int, w: Array | None) -> bool:
    """Return True if intervals of n rows are computed from counts in cells, without weights."""
    return w is None and n >= BINNED_FROM


def end_names(measure: str) -> tuple[str, str]:
    """Return the names of the lower and upper end of a measure in a record."""
    return f"{measure}_lower", f"{measure}_upper"


class CountedEnds:
    """95 % intervals of the error and of measures that can be binned.

    Parameters
    ----------
    y
        Targets of the test rows.
    columns
        Measured columns of these rows.
    seed
        Seed of the run. All of its fits use the same subsamples.
    """

    def __init__(self, y: Array, columns: Mapping[str, Array], seed: int) -> None:
        rng = np.random.default_rng([seed, _ENDS])
        quarters = [quarter(len(y), rng) for _ in range(DRAWS)]
        self.y = y
        self.drawn = {name: SharedSubsamples(s, quarters) for name, s in columns.items()}

    def around(
        self, y_pred: Array, found: Mapping[str, Mapping[str, float]]
    ) -> dict[str, dict[str, float]]:
        """Return the ends of intervals by measured column.

        Parameters
        ----------
        y_pred
            Predictions of the test rows.
        found
            Scores of the predictions by column.
        """
        errors = np.abs(y_pred - self.y)
        mean, rows = float(errors.mean(axis=0)), len(errors)
        half = _KNOWN * float(errors.std(axis=0)) / np.sqrt(rows)
        by_column = {}
        for column, drawn in self.drawn.items():
            by_column[column] = _around("mae", mean, half, np.inf)
            for name, spread in drawn.deviations(_BINNED, y_pred).items():
                value, most = found[column][name], REPORTED[name].range[1]
                by_column[column] |= _around(name, value, _DRAWN * spread, most)
        return by_column


def _around(name: str, value: float, half: float, most: float) -> dict[str, float]:
    """Return both ends by name, within the range of the measure."""
    lower, upper = end_names(name)
    return {lower: max(0.0, value - half), upper: min(most, value + half)}


T = TypeVar("T")
# Rows that are encoded at a time; a multiple of the blocks of a prediction.
_ROWS = 4 * BLOCK_ROWS
# Models that were fitted within this time predict together, because they share kernel blocks.
_BATCH_SECONDS = 5.0


def run_job(job: Job, passes: Passes | None = None) -> list[TrialRecord]:
    """Compute a job's trials and return their records. Each is stored seconds after its fit.

    Stored predictions are measured instead of fitting the trial again.

    Parameters
    ----------
    job
        The trials.
    passes
        Kernel matrix on other workers, for methods that read it in passes. None: this process
        computes its own.
    """
    store = TrialStore(open_store(job.inputs.settings))
    check_versions(job.trials, job.inputs)
    records, fits = store.read_with_fits(job.record_keys)
    if job.inputs.predictions == "keep":
        records = {key: record for key, record in records.items() if key in fits}
    pairs = zip(job.trials, job.record_keys, strict=True)
    missing = [(trial, key) for trial, key in pairs if key not in records]
    if not missing:
        return list(records.values())
    with RecordWriter(store) as writer:
        return [*records.values(), *_computed(job, missing, fits, passes, writer)]


def _computed(
    job: Job,
    missing: Sequence[tuple[Trial, str]],
    fits: Mapping[str, StoredFit],
    passes: Passes | None,
    writer: RecordWriter,
) -> list[TrialRecord]:
    """Compute and write the records of trials, each while the next fit is computed."""
    inputs, made = job.inputs, list[TrialRecord]()
    peak = PeakMemory()
    table = inputs.table
    fold = inputs.splits.all(table)[job.split]
    keeps = inputs.keeps_predictions(job.split, table)
    with blas_threads(inputs.blas_threads):
        test = table.take(fold.test)
        w = measure_weights(table, inputs.weights)
        w = None if w is None else w[fold.test]
        scores = RowScores(test, inputs.measure_on, w)
        # Inner folds only select; outer folds are reported, with intervals.
        counted = job.split in inputs.splits.outer(table) and is_counted(test.n, w)
        ends = CountedEnds(test.y, scores.columns, inputs.seed) if counted else None

        def keep(trial: Trial, key: str, fit: StoredFit, *, kept: bool) -> None:
            found = scores.of(fit.y_pred)
            if ends is not None:
                own = ends.around(fit.y_pred, found)
                found = {name: {**found[name], **own[name]} for name in found}
            record = TrialRecord(
                key=key,
                method=trial.method,
                version=trial.version,
                parameters=trial.parameters,
                strength=trial.strength,
                split=job.split,
                measures=found,
                seconds=fit.seconds,
                predicted=PredictedRows.from_predictions(np.asarray(fit.y_pred, dtype=np.float64)),
                environment=fit.environment,
            )
            writer.write(record, None if kept or not keeps else fit.y_pred)
            made.append(record)

        for trial, key in missing:
            if key in fits:
                keep(trial, key, fits[key], kept=True)
        unfitted = [(trial, key) for trial, key in missing if key not in fits]
        if not unfitted:
            return made
        training, encoder = training_for(job.trials, table, fold, inputs)
        training = training if passes is None else training.reading(passes)
        for name, members in groupby(unfitted, key=lambda pair: pair[0].method):
            trials, keys = zip(*members, strict=True)
            fitted = zip(trials, keys, _timed(fitted_models(training, name, trials)), strict=True)
            for batch in _batches(fitted):
                predictors = [predictor for _, _, (predictor, _) in batch]
                predicted = predict_rows(trials, predictors, encoder, test, inputs)
                used = {**environment(name), **peak.environment()}
                for (trial, key, (_, seconds)), y_pred in zip(batch, predicted, strict=True):
                    keep(trial, key, StoredFit(y_pred, seconds, used), kept=False)
    return made


def training_for(
    trials: Sequence[Trial], table: Table, fold: Fold, inputs: Inputs
) -> tuple[Training, Encoder]:
    """Return the training rows of a fold for trials, and their encoder."""
    shared = any(sums_of(trial, inputs) for trial in trials)
    return (shared_training if shared else make_training)(table, fold, inputs)


def predict_rows(
    trials: Sequence[Trial],
    predictors: Sequence[Predictor],
    encoder: Encoder,
    rows: Table,
    inputs: Inputs,
) -> list[Array]:
    """Return the predictions of several models of a method, encoding a block of rows at a time."""
    name = trials[0].method
    # Models on a shared map, or on a matrix read in passes, are expansions that read sparse rows.
    sparse = method(name).in_passes or all(sums_of(t, inputs) is not None for t in trials)
    parts = [
        predict_all(
            predictors, model_inputs(name, encoder, rows.take(block), inputs, sparse=sparse)
        )
        for block in row_blocks(rows.n, _ROWS)
    ]
    return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]


def fitted_models(training: Training, name: str, trials: Sequence[Trial]) -> Iterator[Predictor]:
    """Yield one predictor per trial of one method, in order."""
    return method(name).fit(training, [trial.setting() for trial in trials])


class RowScores:
    """Errors and declared measures of predictions of the same rows.

    Parameters
    ----------
    rows
        Rows that were predicted.
    columns
        Names of the measured columns.
    w
        Sample weights, None if each row counts once.
    """

    def __init__(self, rows: Table, columns: Sequence[str], w: Array | None = None) -> None:
        self.y, self.w = rows.y, w
        self.columns = {column: rows.S([column])[:, 0] for column in columns}
        self._measures = {
            column: {
                name: measure.scaled().on_rows(rows.y, s, w) for name, measure in REPORTED.items()
            }
            for column, s in self.columns.items()
        }

    def of(self, y_pred: Array) -> dict[str, dict[str, float]]:
        """Return the scores of a prediction by column. Undefined measures are left out."""
        if not np.isfinite(y_pred).all():
            raise ValueError("predictions must be finite, got NaN or infinity")
        weights: Any = {"sample_weight": self.w}
        errors = {
            "mae": float(mean_absolute_error(self.y, y_pred, **weights)),
            "mse": float(mean_squared_error(self.y, y_pred, **weights)),
        }
        found = {column: dict(errors) for column in self.columns}
        for column, measures in self._measures.items():
            for name, measure in measures.items():
                with suppress(UndefinedMeasureError):
                    found[column][name] = measure(y_pred)
        return found


def _batches(fitted: Iterable[T]) -> Iterator[list[T]]:
    """Yield fitted models in groups; a group ends when its first model has waited long enough."""
    batch: list[T] = []
    since = time.monotonic()
    for one in fitted:
        batch.append(one)
        if time.monotonic() - since > _BATCH_SECONDS:
            yield batch
            batch, since = [], time.monotonic()
    if batch:
        yield batch


def _timed(fitted: Iterator[Predictor]) -> Iterator[tuple[Predictor, float]]:
    """Yield each predictor with its seconds; the first includes shared computations."""
    start = time.perf_counter()
    for predictor in fitted:
        yield predictor, time.perf_counter() - start
        start = time.perf_counter()


_PROBE = 600  # a product of this size takes milliseconds, long enough to time


@dataclass(frozen=True)
class PlannedCost:
    """The cost of all jobs, and the memory of the largest one."""

    flops: float
    bytes: float
    seconds: float  # on one worker


def planned_cost(jobs: Sequence[Job], table: Table) -> PlannedCost:
    """Return the cost of the jobs at the speed of a matrix product on this machine."""
    costs = [job_cost(job, table) for job in jobs]
    # One pass over all rows for each shared feature map.
    passes = sum(
        streaming_flops(sums.shared.approximation, table.n, _inputs(table))
        for sums in shared_sums(jobs)
    )
    flops = sum(cost.flops for cost in costs) + passes
    return PlannedCost(
        flops, max((c.bytes for c in costs), default=0.0), flops / _flops_per_second()
    )


def job_cost(job: Job, table: Table) -> Cost:
    """Return the cost of a job, whose methods run one after another on the same rows."""
    n, d = len(job.inputs.splits.all(table)[job.split].train), _inputs(table)
    by_method: dict[str, list[object]] = {}
    for trial in job.trials:
        by_method.setdefault(trial.method, []).append(trial.setting())
    costs = [method(name).cost(settings, n, d) for name, settings in by_method.items()]
    return Cost(sum(c.flops for c in costs), max(c.bytes for c in costs))


def _inputs(table: Table) -> int:
    """Return the largest possible number of columns of encoded rows."""
    return len(table.numeric_names) + sum(len(levels) + 1 for levels in table.levels)


def refuse_too_large(jobs: Sequence[Job], table: Table, limit: int | None) -> None:
    """Raise UserError before any work if a job does not fit into the memory of a worker."""
    if limit is None:
        return
    for job in jobs:
        needed = job_cost(job, table).bytes
        if needed > limit:
            raise UserError(
                f"{job.trials[0].method} on fold {job.split} would need about "
                f"{needed / 2**30:.2g} GiB, but a worker has {limit / 2**30:.2g} GiB; use "
                "approximation: {kind: nystroem, landmarks: 1000}, or fewer workers by "
                "--set cluster.workers=1."
            )


def _flops_per_second() -> float:
    """Return the speed of a matrix product in this process, the best of three."""
    A = np.ones((_PROBE, _PROBE))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        A @ A
        best = min(best, time.perf_counter() - start)
    return 2.0 * _PROBE**3 / float(best)

"""Ends of intervals of a fit's numbers, where its test rows are very many."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri, stdtrit
from sklearn.metrics import mean_absolute_error, mean_squared_error

from fkd.core.arrays import BLOCK_ROWS, Array, row_blocks
from fkd.core.predictors import Predictor, predict_all
from fkd.measures import REPORTED
from fkd.measures.groups import UndefinedMeasureError
from fkd.measures.resampling import BINNED_FROM, SharedSubsamples, quarter
from fkd.methods import Training, method
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.kernels.shared_training import shared_training, sums_of
from tasks.plan.splits import Fold
from tasks.plan.training import Passes, cached_table, make_training, measure_weights, model_inputs
from tasks.plan.trials import Inputs, Job, Trial, check_versions, record_key
from tasks.storage.environment import PeakMemory, blas_threads, environment
from tasks.storage.records import PredictedRows, RecordWriter, TrialRecord, TrialStore
from tasks.storage.store import open_store

# Every fit of a run is drawn for: enough that the width of its interval is known to a seventh.
DRAWS = 25
_BINNED = tuple(m.scaled() for m in REPORTED.values() if m.interval == "binned")
# Deviations within which 95 % lie: of a normal distribution, and where so few draws tell them.
_KNOWN, _DRAWN = float(ndtri(0.975)), float(stdtrit(DRAWS - 1, 0.975))
# Sets the draws apart from others of the same seed.
_ENDS = 3


def is_counted(n: int, w: Array | None) -> bool:
    """Return whether n rows are so many that draws are counted in cells.

    There rows that weigh differently are alike.
    """
    return w is None and n >= BINNED_FROM


def end_names(measure: str) -> tuple[str, str]:
    """Return as what a record has both ends.

    Older records have `_low` and `_high`, quantiles of other draws: the two kinds do not mix.
    """
    return f"{measure}_lower", f"{measure}_upper"


class CountedEnds:
    """Both ends of the 95 % intervals of the error and of measures that can be binned.

    Parameters
    ----------
    y
        Targets of the test rows.
    columns
        The measured columns of these rows.
    seed
        Of the run: all its fits see draws of the same numbers.
    """

    def __init__(self, y: Array, columns: Mapping[str, Array], seed: int) -> None:
        rng = np.random.default_rng([seed, _ENDS])
        quarters = [quarter(len(y), rng) for _ in range(DRAWS)]
        self.y = y
        self.drawn = {name: SharedSubsamples(s, quarters) for name, s in columns.items()}

    def around(
        self, y_pred: Array, found: Mapping[str, Mapping[str, float]]
    ) -> dict[str, dict[str, float]]:
        """Return the ends by measured column.

        Parameters
        ----------
        y_pred
            Predictions of the test rows.
        found
            Their measures, by column.
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
    """Return both ends by name, within what the measure can be."""
    lower, upper = end_names(name)
    return {lower: max(0.0, value - half), upper: min(most, value + half)}


T = TypeVar("T")
# Encoded at a time; a multiple of a prediction's own blocks, which hence stay the same.
_ROWS = 4 * BLOCK_ROWS
# Models fitted within this time predict together: they share kernel blocks.
_BATCH_SECONDS = 5.0


def run_job(job: Job, passes: Passes | None = None) -> list[TrialRecord]:
    """Return the records of a job's trials, each of them stored seconds after its fit.

    A kernel matrix that is read in passes is this process's own, unless `passes` tell where it is.
    """
    inputs, store = job.inputs, TrialStore(open_store(job.inputs.settings))
    check_versions(job.trials, inputs)
    stored = inputs.stored(store, job.record_keys)
    found = list(store.read_all(key for key in job.record_keys if key in stored).values())
    pairs = zip(job.trials, job.record_keys, strict=True)
    missing = [(trial, key) for trial, key in pairs if key not in stored]
    if missing:
        with RecordWriter(store) as writer:
            found += _computed(job, missing, store, passes, writer)
    return found


def _computed(
    job: Job,
    missing: Sequence[tuple[Trial, str]],
    store: TrialStore,
    passes: Passes | None,
    writer: RecordWriter,
) -> list[TrialRecord]:
    """Return the records of trials that are computed now, each written beside the next ones."""
    inputs, made = job.inputs, list[TrialRecord]()

    def keep(record: TrialRecord, y_pred: Array) -> None:
        writer.write(record, y_pred if keeps else None)
        made.append(record)

    peak = PeakMemory()
    table = cached_table(inputs.settings, inputs.table_digest)
    fold = inputs.splits.all(table)[job.split]
    with blas_threads(inputs.blas_threads):
        test = table.take(fold.test)
        keeps = inputs.keeps_predictions(job.split, table)
        w = measure_weights(table, inputs.weights)
        w = None if w is None else w[fold.test]
        scores = RowScores(test, inputs.measure_on, w)
        # Inner folds choose; only what outer folds say is reported.
        counted = job.split in inputs.splits.outer(table) and is_counted(test.n, w)
        ends = CountedEnds(test.y, scores.columns, inputs.seed) if counted else None
        known = fitted_before(missing, fold, inputs, store)
        for key, (record, y_pred) in known.items():
            found = scores.of(y_pred)
            keep(replace(record, key=key, measures=found), y_pred)
        unfitted = [(trial, key) for trial, key in missing if key not in known]
        if not unfitted:
            return made
        training, encoder = training_for(job.trials, table, fold, inputs)
        training = training if passes is None else training.reading(passes)
        for name, members in groupby(unfitted, key=lambda pair: pair[0].method):
            trials, keys = zip(*members, strict=True)
            fitted = zip(trials, keys, _timed(fit_trials(training, name, trials)), strict=True)
            for batch in _batches(fitted):
                predictors = [predictor for _, _, (predictor, _) in batch]
                predicted = predict_rows(trials, predictors, encoder, test, inputs)
                used = {**environment(name), **peak.told()}
                for (trial, key, (_, seconds)), y_pred in zip(batch, predicted, strict=True):
                    found = scores.of(y_pred)
                    if ends is not None:
                        own = ends.around(y_pred, found)
                        found = {name: {**found[name], **own[name]} for name in found}
                    record = _record(trial, key, job.split, found, seconds, y_pred)
                    keep(replace(record, environment=used), y_pred)
    return made


def fitted_before(
    missing: Sequence[tuple[Trial, str]], fold: Fold, inputs: Inputs, store: TrialStore
) -> dict[str, tuple[TrialRecord, Array]]:
    """Return by key the fits that are known with other weights in their measures alone."""
    if inputs.weights is None:
        return {}
    otherwise = replace(inputs, weights=inputs.weights.measured_otherwise())
    found = {}
    for trial, key in missing:
        other = record_key(trial, fold, otherwise)
        record, y_pred = store.read(other), store.predictions(other)
        if record is not None and y_pred is not None:
            found[key] = record, y_pred
    return found


def training_for(
    trials: Sequence[Trial], table: Table, fold: Fold, inputs: Inputs
) -> tuple[Training, Encoder]:
    """Return the training rows of a fold as these trials want them, with their encoder."""
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
    # Models on a shared map are expansions on its landmarks, which read sparse rows; those of a
    # kernel matrix that is read in passes are expansions on all training rows.
    sparse = method(name).in_passes or all(sums_of(t, inputs) is not None for t in trials)
    parts = [
        predict_all(
            predictors, model_inputs(name, encoder, rows.take(block), inputs, sparse=sparse)
        )
        for block in row_blocks(rows.n, _ROWS)
    ]
    return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]


def fit_trials(training: Training, name: str, trials: Sequence[Trial]) -> Iterator[Predictor]:
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
    """Yield what was fitted in groups; a group ends when its oldest has waited long enough."""
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
    """Yield each predictor with the seconds it took; the first carries what they share."""
    start = time.perf_counter()
    for predictor in fitted:
        yield predictor, time.perf_counter() - start
        start = time.perf_counter()


def _record(
    trial: Trial,
    key: str,
    split: str,
    found: dict[str, dict[str, float]],
    seconds: float,
    y_pred: Array,
) -> TrialRecord:
    """Return the record of one trial on one split."""
    return TrialRecord(
        key=key,
        method=trial.method,
        version=trial.version,
        parameters=trial.parameters,
        strength=trial.strength,
        split=split,
        measures=found,
        seconds=seconds,
        predicted=PredictedRows.of(np.asarray(y_pred, dtype=np.float64)),
    )

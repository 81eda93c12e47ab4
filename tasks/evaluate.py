"""One job on a worker: fit the trials of a split, measure them, keep each at once."""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_absolute_error, mean_squared_error
from threadpoolctl import threadpool_limits

from fkd import measures
from fkd.encoding import Encoder
from fkd.expansion import Predictor
from fkd.methods import Training, method
from fkd.table import Table
from tasks.folds import Fold
from tasks.prepared import prepared_path, read_prepared
from tasks.settings import Settings
from tasks.store import Record, TrialStore
from tasks.trials import Inputs, Job, Trial

Array = NDArray[np.float64]


@lru_cache(maxsize=2)
def _table(settings: Settings, digest: str) -> Table:
    """Return a prepared table, read once per worker."""
    loaded = read_prepared(settings, digest)
    if loaded is None:
        raise FileNotFoundError(
            f"the prepared table {prepared_path(settings, digest)} must be readable on every "
            "worker; let FKD_HOME lie on a file system that the workers share"
        )
    return loaded.table


def run_job(job: Job) -> int:
    """Return how many trials were computed; each record is on disk before the next begins."""
    store = TrialStore(job.inputs.settings.store)
    missing = [(t, k) for t, k in zip(job.trials, job.record_keys, strict=True) if k not in store]
    if not missing:
        return 0
    table = _table(job.inputs.settings, job.inputs.table_digest)
    fold = job.inputs.splits.all(table)[job.split]
    with threadpool_limits(limits=job.inputs.blas_threads):
        training, encoder = make_training(table, fold, job.inputs)
        test = table.take(fold.test)
        for name, members in groupby(missing, key=lambda pair: pair[0].method):
            trials, keys = zip(*members, strict=True)
            fitted = _timed(fit_trials(training, name, trials))
            for trial, key, (predictor, seconds) in zip(trials, keys, fitted, strict=True):
                y_pred = predictor.predict(model_inputs(name, encoder, test, job.inputs))
                found = measure(y_pred, test, job.inputs.measure_on)
                store.write(_record(trial, key, job.split, found, seconds, y_pred))
    return len(missing)


def make_training(table: Table, fold: Fold, inputs: Inputs) -> tuple[Training, Encoder]:
    """Return the training rows as arrays, with the encoder that belongs to them."""
    train = table.take(fold.train)
    encoder = Encoder.fit(table if inputs.scale_on == "all" else train, scale=inputs.scale)
    training = Training(
        X=encoder.transform(train), y=train.y, S=train.S(inputs.sensitive), seed=inputs.seed
    )
    return training, encoder


def model_inputs(name: str, encoder: Encoder, rows: Table, inputs: Inputs) -> Array:
    """Return encoded rows; behind them the sensitive columns where the method asks for them."""
    X = encoder.transform(rows)
    return np.hstack([X, rows.S(inputs.sensitive)]) if method(name).needs_sensitive else X


def fit_trials(training: Training, name: str, trials: Sequence[Trial]) -> Iterator[Predictor]:
    """Yield one predictor per trial of one method, in order."""
    return method(name).fit(training, [trial.setting() for trial in trials])


def measure(y_pred: Array, test: Table, columns: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return accuracy with every fairness measure, by measured column."""
    if not np.isfinite(y_pred).all():
        raise ValueError("predictions must be finite, got NaN or infinity")
    y = test.y
    mae = float(mean_absolute_error(y, y_pred))
    found = {}
    for column in columns:
        s = test.S([column])[:, 0]
        found[column] = {
            "mae": mae,
            "mse": float(mean_squared_error(y, y_pred)),
            "hgr": float(measures.hgr(y_pred, s)),
            "gdp": float(measures.gdp(y_pred, s)),
            "gdp_plugin": float(measures.gdp(y_pred, s, estimator="plugin")),
            "pf": float(measures.pairwise_fairness(y, y_pred, s)),
        }
    return found


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
) -> Record:
    """Return the record of one trial on one split."""
    return Record(
        key=key,
        method=trial.method,
        version=method(trial.method).version,
        parameters=trial.parameters,
        strength=trial.strength,
        split=split,
        measures=found,
        seconds=seconds,
        y_pred=np.asarray(y_pred, dtype=np.float64),
    )

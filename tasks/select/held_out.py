"""Models and predictions for the held-out rows: refitted, read from the store, or recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.core.predictors import Predictor
from fkd.methods import Training
from fkd.problems.encoder import Encoder
from tasks.fit.job import fit_trials, predict_rows, training_for
from tasks.kernels.shared_training import sums_of
from tasks.plan.trials import Trial
from tasks.select.study import Study
from tasks.storage.environment import blas_threads
from tasks.storage.records import PredictedRows

# A refitted model is compared with kept predictions on at most this many rows.
COMPARED_ROWS = 16_384
# Tolerance of this comparison, for rounding errors.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9
# At most this many held-out rows are recorded with a champion for comparison with later rows.
MOST_KEPT = 20_000


@dataclass(frozen=True)
class Refitted:
    """A trial fitted to the held-out fold's training rows, with predictions of the test rows."""

    training: Training
    encoder: Encoder
    predictor: Predictor
    y_pred: Array


def refit(study: Study, trial: Trial) -> Refitted:
    """Return a trial's model of the held-out fold. It must predict what the store contains."""
    kept = study.store.predictions(study.held_out_key(trial))
    if kept is None or len(kept) <= COMPARED_ROWS:
        return _refit(study, [trial])[0]
    some = np.linspace(0, len(kept) - 1, COMPARED_ROWS).astype(np.intp)
    return replace(_refit(study, [trial], some)[0], y_pred=kept)


def _refit(study: Study, trials: Sequence[Trial], some: IntArray | None = None) -> list[Refitted]:
    """Return the models of trials of one method, which share computations.

    `some` are positions of held-out rows to predict, all by default.
    """
    table, inputs, fold = study.table, study.inputs, study.held_out
    with blas_threads(inputs.blas_threads):
        training, encoder = training_for(trials, table, fold, inputs)
        predictors = list(fit_trials(training, trials[0].method, trials))
        rows = table.take(fold.test if some is None else fold.test[some])
        found = predict_rows(trials, predictors, encoder, rows, inputs)
    for trial, y_pred in zip(trials, found, strict=True):
        _check_same(study, trial, y_pred, some)
    return [
        Refitted(training, encoder, predictor, y_pred)
        for predictor, y_pred in zip(predictors, found, strict=True)
    ]


def _check_same(study: Study, trial: Trial, y_pred: Array, some: IntArray | None) -> None:
    """Raise an error if a refitted model differs from the one whose scores are stored.

    Rows are compared one by one if their predictions were kept, else by a summary of all rows.
    """
    key = study.held_out_key(trial)
    record, kept = study.store.read(key), study.store.predictions(key)
    if record is None:
        return
    if kept is not None:
        kept = kept if some is None else kept[some]
        gap = float(np.abs(kept - y_pred).max())
        same = np.allclose(kept, y_pred, rtol=_RELATIVE, atol=_ABSOLUTE)
    else:
        gap = record.predicted.distance(PredictedRows.from_predictions(y_pred))
        same = gap <= _ABSOLUTE + _RELATIVE * record.predicted.size
    if not same:
        raise RuntimeError(
            f"The refitted {trial.method} must predict what its trial predicted, got a difference "
            f"of {gap:.2e}. Its version was not raised."
        )


def held_out_predictions(study: Study, trials: Sequence[Trial]) -> list[Array]:
    """Return the predictions of the held-out rows by trials, in units of the target's range.

    Predictions that were not kept, or are damaged, are computed by refitting these trials together.
    They are written to the store unless the study drops all predictions.
    """
    found = study.predicted
    together: dict[tuple[str, bool], list[Trial]] = {}  # of one method, on one kind of feature map
    for trial in dict.fromkeys(trials):
        if trial in found:
            continue
        kept = study.store.predictions(study.held_out_key(trial))
        if kept is not None:
            found[trial] = kept
        else:
            kind = trial.method, sums_of(trial, study.inputs) is None
            together.setdefault(kind, []).append(trial)
    for members in together.values():
        for trial, model in zip(members, _refit(study, members), strict=True):
            found[trial] = model.y_pred
            record = study.store.read(study.held_out_key(trial))
            if study.inputs.predictions != "drop" and record is not None:
                study.store.write_predictions(record, model.y_pred)
    return [found[trial] for trial in trials]


def predicted_targets(study: Study, trial: Trial) -> Array | None:
    """Return the predictions of the held-out rows in the target's unit.

    They are None if the trial has no record on the held-out fold, because it failed there.
    """
    if study.held_out_key(trial) not in study.store:
        return None
    low, high = study.table.target_range
    return np.asarray(low + (high - low) * held_out_predictions(study, [trial])[0])


@dataclass(frozen=True)
class HeldOutRecord:
    """Held-out rows of a champion, for comparison with later rows.

    Parameters
    ----------
    y, y_pred
        Target and prediction in the target's unit, (n,).
    S
        The measured columns in their units, (n, l).
    columns
        Their names.
    target_range, sensitive_range
        The ranges by which measures are scaled.
    """

    y: Array
    y_pred: Array
    S: Array
    columns: tuple[str, ...]
    target_range: tuple[float, float]
    sensitive_range: Array

    def arrays(self) -> dict[str, AnyArray]:
        """Return the record as arrays of numbers or text, which npz stores without pickle."""
        return {
            **vars(self),
            "columns": np.array(self.columns, dtype=np.str_),
            "target_range": np.array(self.target_range),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the record with these `arrays`."""
        plain: dict[str, Any] = dict(arrays)
        plain["columns"] = tuple(str(name) for name in arrays["columns"])
        plain["target_range"] = tuple(arrays["target_range"].tolist())
        return cls(**plain)


def held_out_record_name(champion: str) -> str:
    """Return the name of the record among the files of the parent run, by the champion's key."""
    return f"watch/{champion}.npz"


def held_out_record(study: Study, trial: Trial) -> HeldOutRecord | None:
    """Return the record of a selected trial, None if it has no predictions of held-out rows."""
    y_pred = predicted_targets(study, trial)
    if y_pred is None:
        return None
    table, columns, rows = study.table, study.inputs.measure_on, study.held_out.test
    kept = np.arange(len(rows))
    if len(rows) > MOST_KEPT:
        rng = np.random.default_rng(study.config.seed)
        kept = np.sort(rng.choice(len(rows), MOST_KEPT, replace=False))
    places = np.array([table.sensitive_names.index(name) for name in columns])
    return HeldOutRecord(
        table.target[rows[kept]],
        y_pred[kept],
        table.sensitive[np.ix_(rows[kept], places)],
        columns,
        table.target_range,
        table.sensitive_range[places],
    )

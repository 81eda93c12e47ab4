"""Trials of the held-out fold fitted again: as a model, or for predictions that were not kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fkd.catalog.encoder import Encoder
from fkd.catalog.methods import Training
from fkd.core.arrays import Array
from fkd.core.predictors import Predictor
from tasks.adapters.blas import blas_threads
from tasks.adapters.predicted import PredictedRows
from tasks.planned.trials import Trial, record_key
from tasks.study.evaluate import fit_trials, predict_rows, training_for
from tasks.study.opening import Study

# By how much a prediction may differ from that of the same fit, for rounding's sake.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9


@dataclass(frozen=True)
class Refitted:
    """One trial on the held-out fold's training rows, with what it says of the test rows."""

    training: Training
    encoder: Encoder
    predictor: Predictor
    y_pred: Array


def refit(study: Study, trial: Trial) -> Refitted:
    """Return a trial's model of the held-out fold, which must predict what is stored of it."""
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    with blas_threads(inputs.blas_threads):
        training, encoder = training_for([trial], table, fold, inputs)
        (predictor,) = fit_trials(training, trial.method, [trial])
        rows = table.take(fold.test)
        (y_pred,) = predict_rows([trial], [predictor], encoder, rows, inputs)
    _check_same(study, trial, y_pred)
    return Refitted(training, encoder, predictor, y_pred)


def held_out_predictions(study: Study, trials: Sequence[Trial]) -> list[Array]:
    """Return what stored trials say of the held-out rows.

    Predictions that were not kept, or are damaged, come from another fit of that one trial; where
    this study keeps such, they are put back.
    """
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    found = []
    for trial in trials:
        key = record_key(trial, fold, inputs)
        y_pred = study.store.predictions(key)
        if y_pred is None:
            y_pred = refit(study, trial).y_pred
            if inputs.keeps_predictions(len(fold.test)):
                study.store.write_predictions(key, y_pred)
        found.append(y_pred)
    return found


def _check_same(study: Study, trial: Trial, y_pred: Array) -> None:
    """Refuse a refitted model that is not the one whose scores are stored.

    By each row where predictions were kept, else by what the record says of all of them.
    """
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    key = record_key(trial, fold, study.inputs)
    record, kept = study.store.read(key), study.store.predictions(key)
    if record is None:
        return
    if kept is not None:
        gap = float(np.abs(kept - y_pred).max())
        same = np.allclose(kept, y_pred, rtol=_RELATIVE, atol=_ABSOLUTE)
    else:
        gap = record.predicted.distance(PredictedRows.of(y_pred))
        same = gap <= _ABSOLUTE + _RELATIVE * record.predicted.size
    if not same:
        raise RuntimeError(
            f"the refitted {trial.method} must predict what its trial predicted, got a difference "
            f"of {gap:.2e}; its version was not raised"
        )

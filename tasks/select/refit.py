"""Fit trials again for the held-out rows: as models, or for predictions that were not kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fkd.core.arrays import Array, IntArray
from fkd.core.predictors import Predictor
from fkd.methods import Training
from fkd.problems.encoder import Encoder
from tasks.fit.job import fit_trials, predict_rows, training_for
from tasks.kernels.shared_training import sums_of
from tasks.plan.trials import Inputs, Trial, record_key
from tasks.select.study import Study
from tasks.storage.environment import blas_threads
from tasks.storage.records import PredictedRows

# Of more rows whose predictions were kept, so many are predicted again to be compared.
COMPARED_ROWS = 16_384
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
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    kept = study.store.predictions(record_key(trial, fold, study.inputs))
    if kept is None or len(kept) <= COMPARED_ROWS:
        (found,) = _refitted(study, [trial])
        return found
    some = np.linspace(0, len(kept) - 1, COMPARED_ROWS).astype(np.intp)
    (found,) = _refitted(study, [trial], some)
    return replace(found, y_pred=kept)


def _refitted(
    study: Study, trials: Sequence[Trial], some: IntArray | None = None
) -> list[Refitted]:
    """Return the models of several trials of one method, which share what can be shared.

    Parameters
    ----------
    study, trials
        Of which study, which ones.
    some
        Which of the held-out rows to predict, all if not said.
    """
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    with blas_threads(inputs.blas_threads):
        training, encoder = training_for(trials, table, fold, inputs)
        predictors = list(fit_trials(training, trials[0].method, trials))
        rows = table.take(fold.test if some is None else fold.test[some])
        found = predict_rows(trials, predictors, encoder, rows, inputs)
    for trial, y_pred in zip(trials, found, strict=True):
        _check_same(study, trial, y_pred, some)
    pairs = zip(predictors, found, strict=True)
    return [Refitted(training, encoder, predictor, y_pred) for predictor, y_pred in pairs]


def held_out_predictions(study: Study, trials: Sequence[Trial]) -> list[Array]:
    """Return what stored trials say of the held-out rows.

    Predictions that were not kept, or are damaged, come from another fit of these trials; unless
    the study drops all, they are put back: what is shown once is shown again.
    """
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    keys = {trial: record_key(trial, fold, inputs) for trial in trials}
    found = {trial: study.store.predictions(key) for trial, key in keys.items()}
    for members in _alike([t for t in keys if found[t] is None], inputs):
        for trial, model in zip(members, _refitted(study, members), strict=True):
            found[trial] = model.y_pred
            record = study.store.read(keys[trial])
            if inputs.predictions != "drop" and record is not None:
                study.store.write_predictions(record, model.y_pred)
    return [y_pred for trial in trials if (y_pred := found[trial]) is not None]


def _alike(trials: Sequence[Trial], inputs: Inputs) -> list[list[Trial]]:
    """Return the trials in groups that are fitted together: of one method, on one kind of map."""
    groups: dict[tuple[str, bool], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.method, sums_of(trial, inputs) is None), []).append(trial)
    return list(groups.values())


def _check_same(study: Study, trial: Trial, y_pred: Array, some: IntArray | None) -> None:
    """Refuse a refitted model that is not the one whose scores are stored.

    By each row where predictions were kept, else by what the record says of all of them.
    """
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    key = record_key(trial, fold, study.inputs)
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
            f"the refitted {trial.method} must predict what its trial predicted, got a difference "
            f"of {gap:.2e}; its version was not raised"
        )


def foresee(study: Study, trials: Sequence[Trial]) -> None:
    """Have the predictions of several trials ready: fitted again together, where that is needed."""
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    unknown = [trial for trial in trials if _name(trial) not in study.made]
    wanted = [trial for trial in unknown if record_key(trial, fold, study.inputs) in study.store]
    for trial, y_pred in zip(wanted, held_out_predictions(study, wanted), strict=True):
        study.made[_name(trial)] = y_pred


def predicted_targets(study: Study, trial: Trial) -> Array | None:
    """Return the predictions, of a refitted model where they were not kept; None without a record.

    A trial that failed on the held-out fold has none.
    """
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    if record_key(trial, fold, inputs) not in study.store:
        return None
    y_pred = study.once(_name(trial), lambda: held_out_predictions(study, [trial])[0])
    low, high = table.target_range
    return np.asarray(low + (high - low) * y_pred)


def _name(trial: Trial) -> tuple[str, str]:
    """Return under which name a study keeps what a trial predicts."""
    return "predicted", trial.key

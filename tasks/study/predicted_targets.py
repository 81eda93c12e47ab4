"""What a trial predicts for the held-out rows, in the target's own unit."""

from collections.abc import Sequence

import numpy as np

from fkd.core.arrays import Array
from tasks.planned.trials import Trial, record_key
from tasks.study.opening import Study
from tasks.study.refit import held_out_predictions


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

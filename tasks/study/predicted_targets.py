"""What a trial predicts for the held-out rows, in the target's own unit."""

import numpy as np

from fkd.core.arrays import Array
from tasks.planned.trials import Trial, record_key
from tasks.study.opening import Study
from tasks.study.refit import held_out_predictions


def predicted_targets(study: Study, trial: Trial) -> Array | None:
    """Return the predictions, of a refitted model where they were not kept; None without a record.

    A trial that failed on the held-out fold has none.
    """
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    if record_key(trial, fold, inputs) not in study.store:
        return None
    if trial.key not in study.predicted:
        (study.predicted[trial.key],) = held_out_predictions(study, [trial])
    y_pred = study.predicted[trial.key]
    low, high = table.target_range
    return np.asarray(low + (high - low) * y_pred)

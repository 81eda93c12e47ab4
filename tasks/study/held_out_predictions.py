"""What a trial predicts for the held-out rows."""

import numpy as np

from fkd.core.arrays import Array
from tasks.planned.trials import Trial, record_key
from tasks.study.opening import Study


def held_out_predictions(study: Study, trial: Trial) -> Array | None:
    """Return the predictions in the target's own unit, None where they were not kept."""
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    record = study.store.read(record_key(trial, fold, inputs))
    if record is None:
        return None
    low, high = table.target_range
    return np.asarray(low + (high - low) * record.y_pred)

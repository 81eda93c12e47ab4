"""The held-out rows of a champion, kept for comparison with later rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from fkd.core.arrays import AnyArray, Array
from tasks.plan.trials import Trial
from tasks.select.groups import raw_sensitive
from tasks.select.refit import predicted_targets
from tasks.select.study import Study

# Of more held-out rows so many are drawn: what they cannot tell apart is no drift to act on.
MOST_KEPT = 20_000


@dataclass(frozen=True)
class HeldOutRecord:
    """Truth, prediction and measured columns of rows that took no part in choosing a model.

    Parameters
    ----------
    y, y_pred
        In the target's own unit, (n,).
    S
        The measured columns in theirs, (n, l).
    columns
        What these are called.
    target_range, sensitive_range
        The units of the published measures.
    """

    y: Array
    y_pred: Array
    S: Array
    columns: tuple[str, ...]
    target_range: tuple[float, float]
    sensitive_range: Array

    def arrays(self) -> dict[str, AnyArray]:
        """Return the record as arrays of numbers or text, which npz keeps without pickle."""
        return {
            "y": self.y,
            "y_pred": self.y_pred,
            "S": self.S,
            "columns": np.array(self.columns, dtype=np.str_),
            "target_range": np.array(self.target_range),
            "sensitive_range": self.sensitive_range,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the record whose `arrays` these are."""
        low, high = arrays["target_range"].tolist()
        return cls(
            arrays["y"],
            arrays["y_pred"],
            arrays["S"],
            tuple(str(name) for name in arrays["columns"]),
            (low, high),
            arrays["sensitive_range"],
        )


def record_name(champion: str) -> str:
    """Return under which name a champion's parent run has the record, by the champion's key."""
    return f"watch/{champion}.npz"


def held_out_record(study: Study, trial: Trial) -> HeldOutRecord | None:
    """Return the record of a chosen trial, None where it predicts no held-out rows."""
    y_pred = predicted_targets(study, trial)
    if y_pred is None:
        return None
    table, columns = study.loaded.table, study.inputs.measure_on
    rows = study.inputs.splits.held_out_fold(table).test
    kept = np.arange(len(rows))
    if len(rows) > MOST_KEPT:
        rng = np.random.default_rng(study.config.seed)
        kept = np.sort(rng.choice(len(rows), MOST_KEPT, replace=False))
    test = table.take(rows[kept])
    places = [table.sensitive_names.index(name) for name in columns]
    return HeldOutRecord(
        test.target,
        y_pred[kept],
        np.column_stack([raw_sensitive(test, name) for name in columns]),
        columns,
        table.target_range,
        table.sensitive_range[places],
    )

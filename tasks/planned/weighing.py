"""For how many rows each row of a table counts."""

import numpy as np

from configs.errors import UserError
from configs.weighting import WeightsConfig
from fkd.core.arrays import AnyArray, Array
from fkd.core.weights import UNWEIGHTED, RowWeights
from fkd.measures import survey_weights
from fkd.problems.table import Table
from tasks.planned.splits import Splits

# Of a side of a split, rows whose weight must be above 0: of a single one nothing can be measured.
_LEAST = 2


def check_row_weights(table: Table, weights: WeightsConfig | None, splits: Splits) -> None:
    """Refuse, before any fit, a column that holds no weights, or none for some split."""
    if weights is None:
        return
    w = _column(table, weights)
    for label, fold in splits.all(table).items():
        for side, rows in (("train", fold.train), ("test", fold.test)):
            if (found := np.count_nonzero(w[rows])) < _LEAST:
                raise UserError(
                    f"weights.column must be above 0 for at least {_LEAST} rows that fold {label} "
                    f"{side}s on, got {found} in {weights.column!r}; name fewer folds, or another "
                    "column."
                )


def fit_weights(table: Table, weights: WeightsConfig | None) -> RowWeights:
    """Return the weights of all rows in what is removed and in what is fitted.

    A row of weight 0 is absent from both, even from what is not weighed.
    """
    if weights is None or not weights.train:
        return UNWEIGHTED
    w = _column(table, weights)
    if (w == 1).all():
        return UNWEIGHTED
    here = None if (w > 0).all() else (w > 0).astype(np.float64)
    return RowWeights(w if weights.removal else here, w if weights.fit else here)


def measure_weights(table: Table, weights: WeightsConfig | None) -> Array | None:
    """Return the weights of all rows in measures, None where each counts once."""
    if weights is None or not weights.measures:
        return None
    w = _column(table, weights)
    return None if (w == 1).all() else w


def _column(table: Table, weights: WeightsConfig) -> Array:
    """Return the column of weights, scaled so that a row counts once on average.

    Over the whole table: scaled by split, the same row would count differently in each.
    """
    column = table.extra[weights.column]
    _check_column(weights.column, column)
    return survey_weights(column)


def _check_column(name: str, column: AnyArray) -> None:
    """Refuse what is no weight in some row, or in all of them."""
    rule = f"weights.column must hold a number from 0 on in every row, got {name!r} with"
    if column.dtype.kind not in "buif":
        word = next((str(value) for value in column if not _is_number(str(value))), "")
        raise UserError(
            f"{rule} {f'the word {word!r}' if word else 'a missing value'}; leave such rows out of "
            "the file, or name another column."
        )
    # Written so that NaN is wrong too.
    wrong = np.flatnonzero(~((column >= 0) & (column < np.inf)))
    if len(wrong):
        raise UserError(
            f"{rule} {column[wrong[0]]:g} in {len(wrong)} of {len(column)} rows; leave such rows "
            "out of the file, or name another column."
        )
    if not column.any():
        raise UserError(
            f"weights.column must be above 0 in some rows, got {name!r} with 0 in all of "
            f"{len(column)}; name another column."
        )


def _is_number(text: str) -> bool:
    """Return whether a label reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True

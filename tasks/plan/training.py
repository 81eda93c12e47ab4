"""Training rows of a fold as arrays, and the weights of rows."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from configs.errors import UserError
from configs.run import WeightsConfig
from fkd.core.arrays import Array, IntArray, Rows
from fkd.core.weights import UNWEIGHTED, RowWeights
from fkd.measures import survey_weights
from fkd.methods import Training, method
from fkd.paper.algorithm2 import KernelPasses
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.plan.splits import Fold, Splits
from tasks.plan.trials import Inputs

_LEAST = 2  # rows with a positive weight per side of a split; one row cannot be measured

# From the width of a kernel and positions of rows: passes over the kernel matrix of all rows, and
# its columns of these rows.
Passes = Callable[[float, IntArray], KernelPasses]


def check_row_weights(table: Table, weights: WeightsConfig | None, splits: Splits) -> None:
    """Refuse a column that does not contain weights, or none for some side of a split."""
    if weights is None:
        return
    w = _column(table, weights)
    for label, fold in splits.all(table).items():
        for side, rows in (("train", fold.train), ("test", fold.test)):
            if (found := np.count_nonzero(w[rows])) < _LEAST:
                raise UserError(
                    f"weights.column must be positive in at least {_LEAST} rows that fold {label} "
                    f"{side}s on, got {found} in {weights.column!r}. Set fewer folds, or another "
                    "column."
                )


def fit_weights(table: Table, weights: WeightsConfig | None) -> RowWeights:
    """Return the weights of all rows in the removal and in the fit.

    A row of weight 0 is absent from both, even if one of them is not weighted.
    """
    if weights is None or not weights.train:
        return UNWEIGHTED
    w = _column(table, weights)
    if (w == 1).all():
        return UNWEIGHTED
    present = None if (w > 0).all() else (w > 0).astype(np.float64)
    return RowWeights(w if weights.removal else present, w if weights.fit else present)


def measure_weights(table: Table, weights: WeightsConfig | None) -> Array | None:
    """Return the weights of all rows in measures, None if each counts once."""
    if weights is None or not weights.measures:
        return None
    w = _column(table, weights)
    return None if (w == 1).all() else w


def _column(table: Table, weights: WeightsConfig) -> Array:
    """Return the weights with a mean of 1 over the whole table.

    Scaled within a split, the same row would have another weight in each split.
    """
    name, column = weights.column, table.extra[weights.column]
    rule = f"weights.column must be a number from 0 on in every row, got {name!r} with"
    remedy = "Leave such rows out of the file, or set another column."
    if column.dtype.kind not in "buif":
        word = next((str(value) for value in column if not _is_number(str(value))), "")
        found = f"the word {word!r}" if word else "a missing value"
        raise UserError(f"{rule} {found}. {remedy}")
    # NaN is wrong too.
    wrong = np.flatnonzero(~((column >= 0) & (column < np.inf)))
    if len(wrong):
        found = f"{column[wrong[0]]:g} in {len(wrong)} of {len(column)} rows"
        raise UserError(f"{rule} {found}. {remedy}")
    if not column.any():
        raise UserError(
            f"weights.column must be positive in some rows, got {name!r} with 0 in all of "
            f"{len(column)}. Set another column."
        )
    return survey_weights(column)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class EncodedRows(Training):
    """Rows of a training fold that are taken from the table and encoded on first use.

    Not every method uses X: with a shared map, ridge regression uses moments only and batched
    support vector machines use blocks of features. Networks encode one batch at a time.
    """

    take: Callable[[], Table]
    encoder: Encoder
    sensitive: Sequence[str]

    def __init__(
        self, take: Callable[[], Table], encoder: Encoder, sensitive: Sequence[str], **parts: Any
    ) -> None:
        own = {"take": take, "encoder": encoder, "sensitive": sensitive, "_cache": {}}
        for name, value in {**parts, **own}.items():
            object.__setattr__(self, name, value)

    @cached_property
    def table(self) -> Table:
        """The rows before encoding."""
        return self.take()

    @cached_property
    def X(self) -> Array:
        """The encoded rows, (n, d)."""
        return self.encoder.transform(self.table)

    @cached_property
    def y(self) -> Array:
        """The targets, (n,)."""
        return self.table.y

    @cached_property
    def S(self) -> Array:
        """The sensitive columns to be removed, (n, l)."""
        return self.table.S(self.sensitive)

    def rows(self, positions: IntArray) -> Array:
        """Return some of the rows, encoded in this call."""
        return self.encoder.transform(self.table.take(positions))

    def reading(self, passes: Passes) -> Training:
        """Return the same rows with a kernel matrix on other workers."""
        cached = {"table", "X", "y", "S", "_cache"}
        parts = {name: value for name, value in vars(self).items() if name not in cached}
        return EncodedRows(**{**parts, "take": lambda: self.table, "passes": passes})


def make_training(table: Table, fold: Fold, inputs: Inputs) -> tuple[Training, Encoder]:
    """Return the training rows of a fold with their encoder."""
    weights = fit_weights(table, inputs.weights)
    rows = weights.present(fold.train)
    train = table.take(rows)
    # `take` validates the rows.
    learnt = table.take(slice(None)) if inputs.scale_on == "all" else train
    encoder = Encoder.fit(learnt, scale=inputs.scale)
    parts = {"seed": inputs.seed, "weights": weights.part(rows)}
    return EncodedRows(lambda: train, encoder, inputs.sensitive, **parts), encoder


def model_inputs(
    name: str, encoder: Encoder, rows: Table, inputs: Inputs, *, sparse: bool = False
) -> Rows:
    """Return encoded rows, followed by the sensitive columns if the method needs them.

    With `sparse`, the result is a sparse array if most values are zeros.
    """
    if not method(name).needs_sensitive:
        return encoder.rows(rows) if sparse else encoder.transform(rows)
    return np.hstack([encoder.transform(rows), rows.S(inputs.sensitive)])

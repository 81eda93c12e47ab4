"""For how many rows each row of a table counts."""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from configs.errors import UnreadableTableError, UserError
from configs.run import WeightsConfig
from fkd.core.arrays import AnyArray, Array, IntArray, Rows
from fkd.core.weights import UNWEIGHTED, RowWeights
from fkd.measures import survey_weights
from fkd.methods import Training, method
from fkd.paper.algorithm2 import KernelPasses
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.data.load import map_prepared, prepared_name
from tasks.plan.splits import Fold, Splits
from tasks.plan.trials import Inputs
from tasks.storage.settings import Settings
from tasks.storage.store import open_store

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


# From a kernel's width with some rows: the kernel matrix of all, the columns of these.
Passes = Callable[[float, IntArray], KernelPasses]


class EncodedRows(Training):
    """Rows of a training fold that are taken from their table, and encoded, if a method asks.

    Under a shared map ridge regression needs moments alone, batched support vector machines
    features block by block; networks take a few batches at a time, dummies targets; libsvm asks
    for X.
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
        """The rows as they are."""
        return self.take()

    @cached_property
    def X(self) -> Array:
        """The rows as inputs, (n, d)."""
        return self.encoder.transform(self.table)

    @cached_property
    def y(self) -> Array:
        """Their targets, (n,)."""
        return self.table.y

    @cached_property
    def S(self) -> Array:
        """Their columns that are to be removed, (n, l)."""
        return self.table.S(self.sensitive)

    def rows(self, positions: IntArray) -> Array:
        """Return some of the rows, encoded for this call."""
        return self.encoder.transform(self.table.take(positions))

    def reading(self, passes: Passes) -> Training:
        """Return the same rows with a kernel matrix that lies elsewhere."""
        made = {"table", "X", "y", "S", "_cache"}
        kept = {name: value for name, value in vars(self).items() if name not in made}
        return EncodedRows(**{**kept, "take": lambda: self.table, "passes": passes})


def make_training(table: Table, fold: Fold, inputs: Inputs) -> tuple[Training, Encoder]:
    """Return the training rows as arrays, with the encoder that belongs to them."""
    weights = fit_weights(table, inputs.weights)
    rows = weights.present(fold.train)
    train = table.take(rows)
    # Taken even where all are meant: rows are checked when they are taken.
    learnt = table.take(slice(None)) if inputs.scale_on == "all" else train
    encoder = Encoder.fit(learnt, scale=inputs.scale)
    parts = {"seed": inputs.seed, "weights": weights.part(rows)}
    return EncodedRows(lambda: train, encoder, inputs.sensitive, **parts), encoder


def model_inputs(
    name: str, encoder: Encoder, rows: Table, inputs: Inputs, *, sparse: bool = False
) -> Rows:
    """Return encoded rows; behind them the sensitive columns where the method asks for them.

    Zeros are left out where most values are zeros, if the model can be `sparse`.
    """
    if not method(name).needs_sensitive:
        return encoder.rows(rows) if sparse else encoder.transform(rows)
    return np.hstack([encoder.transform(rows), rows.S(inputs.sensitive)])


@lru_cache(maxsize=2)
def cached_table(settings: Settings, digest: str) -> Table:
    """Return a prepared table, opened once per worker; rows are read as they are taken."""
    cause = "it is absent or damaged"
    try:
        if (found := map_prepared(settings, digest)) is not None:
            return found
    except OSError as error:
        if error.errno is None:
            raise  # of a server, which has its own sentence
        cause = str(error)
    where = open_store(settings).shown(prepared_name(digest))
    raise UnreadableTableError(
        f"the prepared table {where} must be readable on every worker, but {cause}; let FKD_STORE "
        "be a place that all of them see, then run the same command"
    )

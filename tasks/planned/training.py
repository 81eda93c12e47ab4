"""Rows of a split as arrays: what a model is trained on, what it predicts from."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fkd.core.arrays import Array, IntArray, Rows
from fkd.methods import Training, method
from fkd.paper.algorithm2 import KernelPasses
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.planned.folds import Fold
from tasks.planned.trials import Inputs
from tasks.planned.weighing import fit_weights

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

"""Rows of a split as arrays: what a model is trained on, what it predicts from."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fkd.catalog.encoder import Encoder
from fkd.catalog.methods import Training, method
from fkd.catalog.table import Table
from fkd.core.arrays import Array, IntArray, Rows
from fkd.paper.kernel_tiles import KernelPasses
from tasks.planned.folds import Fold
from tasks.planned.trials import Inputs
from tasks.planned.weighing import fit_weights

# From a kernel's width with some rows: the kernel matrix of all, the columns of these.
Passes = Callable[[float, IntArray], KernelPasses]


class EncodedRows(Training):
    """Rows of a training fold that are encoded as one matrix only if a method asks for X itself.

    Under a shared map ridge regression needs moments alone, batched support vector machines
    features block by block; networks take a few batches at a time, dummies none; libsvm does ask.
    """

    table: Table
    encoder: Encoder

    def __init__(self, table: Table, encoder: Encoder, **parts: Any) -> None:
        own = {"table": table, "encoder": encoder, "_maps": {}, "_sums": {}}
        for name, value in {**parts, **own}.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Reached only where no such attribute exists yet.
        if name != "X":
            raise AttributeError(name)
        X = self.encoder.transform(self.table)
        object.__setattr__(self, "X", X)
        return X

    def rows(self, positions: IntArray) -> Array:
        """Return some of the rows, encoded for this call."""
        return self.encoder.transform(self.table.take(positions))

    def reading(self, passes: Passes) -> Training:
        """Return the same rows with a kernel matrix that lies elsewhere."""
        kept = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return EncodedRows(**{**kept, "passes": passes})


def make_training(table: Table, fold: Fold, inputs: Inputs) -> tuple[Training, Encoder]:
    """Return the training rows as arrays, with the encoder that belongs to them."""
    weights = fit_weights(table, inputs.weights)
    rows = weights.present(fold.train)
    train = table.take(rows)
    # Taken even where all are meant: rows are checked when they are taken.
    learnt = table.take(slice(None)) if inputs.scale_on == "all" else train
    encoder = Encoder.fit(learnt, scale=inputs.scale)
    training = EncodedRows(
        train,
        encoder,
        y=train.y,
        S=train.S(inputs.sensitive),
        seed=inputs.seed,
        weights=weights.part(rows),
    )
    return training, encoder


def model_inputs(
    name: str, encoder: Encoder, rows: Table, inputs: Inputs, *, sparse: bool = False
) -> Rows:
    """Return encoded rows; behind them the sensitive columns where the method asks for them.

    Zeros are left out where most values are zeros, if the model can be `sparse`.
    """
    if not method(name).needs_sensitive:
        return encoder.rows(rows) if sparse else encoder.transform(rows)
    return np.hstack([encoder.transform(rows), rows.S(inputs.sensitive)])

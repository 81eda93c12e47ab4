"""Rows of a split as arrays: what a model is trained on, what it predicts from."""

import numpy as np

from fkd.catalog.encoder import Encoder
from fkd.catalog.methods import Training, method
from fkd.catalog.table import Table
from fkd.core.arrays import Rows
from tasks.planned.folds import Fold
from tasks.planned.trials import Inputs
from tasks.planned.weighing import fit_weights


def make_training(table: Table, fold: Fold, inputs: Inputs) -> tuple[Training, Encoder]:
    """Return the training rows as arrays, with the encoder that belongs to them."""
    weights = fit_weights(table, inputs.weights)
    rows = weights.present(fold.train)
    train = table.take(rows)
    # Taken even where all are meant: rows are checked when they are taken.
    learnt = table.take(slice(None)) if inputs.scale_on == "all" else train
    encoder = Encoder.fit(learnt, scale=inputs.scale)
    training = Training(
        X=encoder.transform(train),
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

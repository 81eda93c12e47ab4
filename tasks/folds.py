"""Rows cut into training and test parts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from configs.data import FoldsConfig
from configs.errors import UserError
from fkd.table import Table


@dataclass(frozen=True)
class Fold:
    """Positions of training rows with those of the test rows."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def make_folds(table: Table, folds: FoldsConfig, seed: int) -> list[Fold]:
    """Return the folds of a table, the same for every method.

    Parameters
    ----------
    table
        The rows to cut.
    folds
        Kind "shuffled" is scikit-learn's KFold with shuffle, so that others can rebuild it.
    seed
        The run's seed.
    """
    if table.n < folds.k:
        raise UserError(
            f"folds.k must be at most the number of rows ({table.n}), got {folds.k}; "
            "lower it by --set folds.k=..."
        )
    splitter = KFold(folds.k, shuffle=True, random_state=seed)
    return [Fold(train, test) for train, test in splitter.split(table.target)]

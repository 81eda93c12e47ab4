"""Rows that the same splits train on, which is what moments are summed over."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.planned.folds import Fold


@dataclass(frozen=True)
class Cell:
    """Rows that no split tells apart: the training rows of a split are a union of cells."""

    rows: NDArray[np.int64]  # sorted
    trains: frozenset[str]  # labels of the splits that train on them


def make_cells(folds: Mapping[str, Fold], n: int) -> list[Cell]:
    """Return the cells of n rows; rows that no split trains on are in none.

    Five folds with four inner ones make 17 cells, one more for reserved rows.
    """
    pattern = np.zeros(n, dtype=np.int64)
    for fold in folds.values():
        trained = np.zeros(n, dtype=np.int64)
        trained[fold.train] = 1
        # Renumbered each time, so that any number of splits fits an integer.
        pattern = np.unique(2 * pattern + trained, return_inverse=True)[1]
    order = np.argsort(pattern, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(pattern[order])) + 1)
    firsts = {label: np.isin([p[0] for p in parts], fold.train) for label, fold in folds.items()}
    cells = [
        Cell(part, frozenset(label for label, trains in firsts.items() if trains[i]))
        for i, part in enumerate(parts)
    ]
    return [cell for cell in cells if cell.trains]

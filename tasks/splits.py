"""Training rows against test rows: the outer folds, and the inner ones that choose."""

import hashlib
from dataclasses import dataclass

import numpy as np

from configs.data import FoldsConfig
from fkd.table import Table
from tasks.folds import Fold, make_folds


@dataclass(frozen=True)
class Splits:
    """How rows are divided, rebuilt from a few numbers wherever it is needed."""

    folds: FoldsConfig
    seed: int
    inner_folds: int

    def outer(self, table: Table) -> dict[str, Fold]:
        """Return the folds that every figure rests on, labelled 0, 1, ..."""
        return {str(i): f for i, f in enumerate(make_folds(table, self.folds, self.seed))}

    def held_out(self, table: Table) -> str:
        """Return the label of the fold whose test rows never help to choose: the newest in time."""
        return str(len(self.outer(table)) - 1) if self.folds.kind == "forward" else "0"

    def inner(self, table: Table) -> dict[str, Fold]:
        """Return folds of the held-out fold's training rows alone, labelled 0.0, 0.1, ..."""
        label = self.held_out(table)
        rows = self.outer(table)[label].train
        # Rows of one year cannot be tested forward among themselves.
        config = FoldsConfig(k=self.inner_folds)
        if self.folds.kind == "grouped":
            config = self.folds.model_copy(update={"k": self.inner_folds})
        parts = make_folds(table.take(rows), config, self.seed)
        return {
            f"{label}.{i}": Fold(train=rows[part.train], test=rows[part.test])
            for i, part in enumerate(parts)
        }

    def all(self, table: Table) -> dict[str, Fold]:
        """Return the outer with the inner folds."""
        return {**self.outer(table), **self.inner(table)}


def split_digest(fold: Fold) -> str:
    """Return a digest of which rows train, which test."""
    text = hashlib.sha256()
    for rows in (fold.train, fold.test):
        text.update(np.ascontiguousarray(rows, dtype=np.int64).tobytes() + b"|")
    return text.hexdigest()

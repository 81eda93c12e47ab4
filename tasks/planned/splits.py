"""Training rows against test rows: outer folds, inner ones that select."""

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from configs.data import FoldsConfig
from fkd.core.arrays import Array
from fkd.problems.table import Table
from tasks.planned.folds import Fold, make_folds, never_tested, reserved_rows


@dataclass(frozen=True)
class Splits:
    """How rows are divided, rebuilt from a few numbers wherever it is needed."""

    folds: FoldsConfig
    seed: int
    inner_folds: int

    def outer(self, table: Table) -> dict[str, Fold]:
        """Return the folds that every figure rests on, labelled 0, 1, ..."""
        return _once("outer", self, table, self._outer)

    def _outer(self, table: Table) -> dict[str, Fold]:
        reserved = self.reserved(table)
        folds = make_folds(table, self.folds, self.seed)
        return {str(i): never_tested(fold, reserved) for i, fold in enumerate(folds)}

    def reserved(self, table: Table) -> NDArray[np.int64]:
        """Return the rows that are on the training side of every fold."""
        return reserved_rows(table, self.folds, self.seed)

    def held_out(self, table: Table) -> str:
        """Return the label of the fold whose test rows never help to select: the newest in time."""
        return str(len(self.outer(table)) - 1) if self.folds.kind == "forward" else "0"

    def held_out_fold(self, table: Table) -> Fold:
        """Return the fold of that label."""
        return self.outer(table)[self.held_out(table)]

    def inner(self, table: Table) -> dict[str, Fold]:
        """Return folds of the held-out fold's training rows alone, labelled 0.0, 0.1, ..."""
        return _once("inner", self, table, self._inner)

    def _inner(self, table: Table) -> dict[str, Fold]:
        if not self.inner_folds:
            return {}
        label = self.held_out(table)
        rows = self.held_out_fold(table).train
        # Rows of one year cannot be tested forward among themselves.
        config = FoldsConfig(k=self.inner_folds)
        if self.folds.kind in ("grouped", "growing"):
            config = self.folds.model_copy(update={"k": self.inner_folds})
        parts = make_folds(table, config, self.seed, rows=rows, key="select.inner_folds")
        reserved = self.reserved(table)
        return {f"{label}.{i}": never_tested(part, reserved) for i, part in enumerate(parts)}

    def pool(self, table: Table, y_pred: Iterable[Array]) -> Array:
        """Return one prediction per row from those of every outer fold; NaN: never tested."""
        found = np.full(table.n, np.nan)
        for fold, part in zip(self.outer(table).values(), y_pred, strict=True):
            found[fold.test] = part
        return found

    def all(self, table: Table) -> dict[str, Fold]:
        """Return the outer with the inner folds."""
        return {**self.outer(table), **self.inner(table)}


_Key = tuple[str, Splits, int, bool]
_made: dict[_Key, dict[str, Fold]] = {}
# Kinds of folds that the number of rows decides: tables of as many have the same.
_BY_NUMBER = ("shuffled", "growing")


def _once(
    which: str, splits: Splits, table: Table, make: Callable[[Table], dict[str, Fold]]
) -> dict[str, Fold]:
    """Return the folds of a table, made once for as long as the table that first asked lives.

    Every step of a run asks for them, and a million rows take seconds to shuffle.
    """
    numbered = splits.folds.kind in _BY_NUMBER
    key = which, splits, table.n if numbered else id(table), numbered
    found = _made.get(key)
    if found is None:
        found = _made[key] = make(table)
        weakref.finalize(table, _made.pop, key, None)
    return found

"""Rows cut into training parts, each with its test part."""

import hashlib
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold

from configs.data import FoldsConfig
from configs.errors import UserError, check_name
from fkd.core.arrays import Array
from fkd.problems.table import Table

# Sets the draw of reserved rows apart from other draws of the same seed.
_RESERVED = 1
_GROWING = 3
_DRAWN = 65_536


@dataclass(frozen=True)
class Fold:
    """Positions of training rows with those of the test rows."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]

    @cached_property
    def digest(self) -> str:
        """Which rows train, which test, as 64 hexadecimal digits."""
        text = hashlib.sha256()
        for rows in (self.train, self.test):
            text.update(np.ascontiguousarray(rows, dtype=np.int64).tobytes() + b"|")
        return text.hexdigest()


def make_folds(
    table: Table,
    folds: FoldsConfig,
    seed: int,
    *,
    rows: NDArray[np.int64] | None = None,
    key: str = "folds.k",
) -> list[Fold]:
    """Return the folds of a table, the same for every method.

    Parameters
    ----------
    table
        The rows to cut.
    folds
        "shuffled" is scikit-learn's KFold with shuffle, "grouped" its GroupKFold with shuffle, so
        that others can rebuild them; "forward" trains on one time, tests on the next; "growing"
        draws each row's fold from its place, so that it keeps it when rows are added behind.
    seed
        The run's seed.
    rows
        The positions of those that are cut, all if not said. No column is read but the one that
        decides: copying a million rows takes longer than cutting them.
    key
        Where the number of folds stands in the configuration, for errors.
    """
    if rows is None:
        return _cut(table.n, slice(None), table, folds, seed, key)
    parts = _cut(len(rows), rows, table, folds, seed, key)
    return [Fold(rows[part.train], rows[part.test]) for part in parts]


def _cut(
    n: int,
    rows: NDArray[np.int64] | slice,
    table: Table,
    folds: FoldsConfig,
    seed: int,
    key: str,
) -> list[Fold]:
    """Return the folds of n rows of a table, as positions among them."""
    if folds.kind == "forward":
        return _forward(_column(table, folds.by or "year")[rows], folds)
    if folds.kind == "growing":
        _check_count(folds.k, n, "rows", key)
        return _growing(n, folds.k, seed, key)
    if folds.kind == "grouped":
        groups = _column(table, str(folds.by))[rows]
        _check_count(folds.k, len(np.unique(groups)), f"different values of {folds.by}", key)
        return _grouped(groups, folds, seed)
    _check_count(folds.k, n, "rows", key)
    splitter = KFold(folds.k, shuffle=True, random_state=seed)
    return [Fold(train, test) for train, test in splitter.split(np.empty((n, 0)))]


def reserved_rows(table: Table, folds: FoldsConfig, seed: int) -> NDArray[np.int64]:
    """Return the sorted positions of the rows that no fold tests on, whole groups of them."""
    rng = np.random.default_rng([seed, _RESERVED])
    if folds.base:
        if folds.base > table.n:
            raise UserError(
                f"folds.base must be at most the number of rows ({table.n}), got {folds.base}; "
                "it is the number of rows that the table had first."
            )
        chosen = rng.choice(folds.base, size=round(folds.reserve * folds.base), replace=False)
        return np.sort(chosen)
    wanted = round(folds.reserve * table.n)
    if not wanted or folds.kind != "grouped":
        return np.sort(rng.choice(table.n, size=wanted, replace=False))
    _, group, sizes = np.unique(
        _column(table, str(folds.by)), return_inverse=True, return_counts=True
    )
    order = rng.permutation(len(sizes))
    # The first groups that together have at least as many rows as wanted.
    chosen = order[: int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1]
    return np.flatnonzero(np.isin(group, chosen))


def never_tested(fold: Fold, reserved: NDArray[np.int64]) -> Fold:
    """Return the fold with the reserved rows on its training side."""
    if not len(reserved):
        return fold
    # By marks on all rows: sets of a million positions take seconds to join.
    ends = [int(rows.max(axis=0)) for rows in (fold.train, fold.test, reserved) if len(rows)]
    trained, tested = np.zeros((2, 1 + max(ends)), dtype=bool)
    trained[fold.train] = trained[reserved] = tested[fold.test] = True
    tested[reserved] = False
    test = np.flatnonzero(tested)
    if not len(test):
        raise UserError(
            "folds.reserve must leave rows to test on in every fold, but one has none left; "
            "lower it by --set folds.reserve=..."
        )
    return Fold(np.flatnonzero(trained), test)


def _growing(n: int, k: int, seed: int, key: str) -> list[Fold]:
    """Draw the folds of so many rows at a time: whatever follows does not change them."""
    parts = [
        np.random.default_rng([seed, _GROWING, i]).integers(k, size=_DRAWN)
        for i in range(-(-n // _DRAWN))
    ]
    drawn = np.concatenate(parts)[:n]
    if len(np.unique(drawn)) < k:
        raise UserError(
            f"{key} must be small enough for every fold of kind growing to draw a row, got {k} "
            f"folds of {n} rows; lower it by --set {key}=..., or name another kind."
        )
    return [Fold(np.flatnonzero(drawn != i), np.flatnonzero(drawn == i)) for i in range(k)]


def _grouped(groups: NDArray[np.generic], folds: FoldsConfig, seed: int) -> list[Fold]:
    """Keep each group on one side of every fold."""
    splitter = GroupKFold(folds.k, shuffle=True, random_state=seed)
    return [Fold(train, test) for train, test in splitter.split(groups, groups=groups)]


def _forward(times: NDArray[np.generic], folds: FoldsConfig) -> list[Fold]:
    """Train on each time, test on the next one; the latest k pairs."""
    moments = np.unique(times)
    if len(moments) < 2:
        raise UserError(
            f"folds of kind forward need at least two values of {folds.by or 'year'}, got "
            f"{moments.tolist()}; name several years, such as --set data.year=[2017,2018]."
        )
    pairs = list(pairwise(moments))[-folds.k :]
    return [
        Fold(np.flatnonzero(times == before), np.flatnonzero(times == after))
        for before, after in pairs
    ]


def _column(table: Table, name: str) -> NDArray[np.generic]:
    """Return the column by which rows are grouped or ordered."""
    try:
        check_name(name, table.extra, key="folds.by")
    except ValueError as error:
        raise UserError(f"{error}.") from None
    column: NDArray[np.generic] = table.extra[name]
    return column


def _check_count(k: int, available: int, what: str, key: str) -> None:
    """Refuse more parts than there is to part; which key asked for them is named."""
    if available >= k:
        return
    # Inner folds are cut from the rows that train where the first outer fold tests.
    where = "" if key == "folds.k" else " that train beside the held-out fold"
    cure = f"lower it by --set {key}={available}" if available >= 2 else f"there are too few {what}"
    raise UserError(
        f"{key} must be at most the number of {what}{where} ({available}), got {k}; {cure}."
    )


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

"""Outer and inner folds of a table's rows."""

import hashlib
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold

from configs.data import FoldsConfig
from configs.errors import UserError, check_name
from fkd.core.arrays import Array
from fkd.problems.table import Table

_RESERVED, _GROWING = 1, 3  # streams of random numbers of the same seed
_DRAWN = 65_536  # rows per stream of growing folds
# The number of rows decides folds of these kinds: tables of equal size share them.
_BY_SIZE = ("shuffled", "growing")


@dataclass(frozen=True)
class Fold:
    """Positions of training and test rows."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]

    @cached_property
    def digest(self) -> str:
        """The sha256 of both positions."""
        text = hashlib.sha256()
        for rows in (self.train, self.test):
            text.update(np.ascontiguousarray(rows, dtype=np.int64).tobytes() + b"|")
        return text.hexdigest()


_Folds = dict[str, Fold]
_folds: dict[tuple[str, "Splits", int, bool], _Folds] = {}


def _cached(make: Callable[["Splits", Table], _Folds]) -> Callable[["Splits", Table], _Folds]:
    """Cache the folds of a table until the table that they were made for is deleted.

    Every step of a run asks for them, and shuffling a million rows takes seconds.
    """

    @wraps(make)
    def cached(splits: "Splits", table: Table) -> _Folds:
        by_size = splits.folds.kind in _BY_SIZE
        key = make.__name__, splits, table.n if by_size else id(table), by_size
        found = _folds.get(key)
        if found is None:
            found = _folds[key] = make(splits, table)
            weakref.finalize(table, _folds.pop, key, None)
        return found

    return cached


@dataclass(frozen=True)
class Splits:
    """Outer and inner folds, rebuilt from the configuration wherever they are needed."""

    folds: FoldsConfig
    seed: int
    inner_folds: int

    @_cached
    def outer(self, table: Table) -> dict[str, Fold]:
        """Return the folds that all reported numbers use, labelled 0, 1, ..."""
        reserved = self.reserved(table)
        folds = make_folds(table, self.folds, self.seed)
        return {str(i): train_on_reserved(fold, reserved) for i, fold in enumerate(folds)}

    def reserved(self, table: Table) -> NDArray[np.int64]:
        """Return the rows that train in every fold."""
        return reserved_rows(table, self.folds, self.seed)

    def held_out(self, table: Table) -> str:
        """Return the label of the held-out fold, the newest in time.

        Its test rows are not used to select a champion.
        """
        return str(len(self.outer(table)) - 1) if self.folds.kind == "forward" else "0"

    def held_out_fold(self, table: Table) -> Fold:
        """Return the held-out fold."""
        return self.outer(table)[self.held_out(table)]

    @_cached
    def inner(self, table: Table) -> dict[str, Fold]:
        """Return folds of the held-out fold's training rows, labelled 0.0, 0.1, ..."""
        if not self.inner_folds:
            return {}
        label = self.held_out(table)
        rows = self.held_out_fold(table).train
        # The rows of one year cannot be split forward.
        config = FoldsConfig(k=self.inner_folds)
        if self.folds.kind in ("grouped", "growing"):
            config = self.folds.model_copy(update={"k": self.inner_folds})
        parts = make_folds(table, config, self.seed, rows=rows, key="select.inner_folds")
        reserved = self.reserved(table)
        return {f"{label}.{i}": train_on_reserved(part, reserved) for i, part in enumerate(parts)}

    def all(self, table: Table) -> dict[str, Fold]:
        """Return the outer and inner folds."""
        return {**self.outer(table), **self.inner(table)}

    def pool(self, table: Table, y_pred: Iterable[Array]) -> Array:
        """Return one prediction per row from those of every outer fold, NaN for untested rows."""
        found = np.full(table.n, np.nan)
        for fold, part in zip(self.outer(table).values(), y_pred, strict=True):
            found[fold.test] = part
        return found


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
        The rows.
    folds
        "shuffled" is scikit-learn's KFold with shuffle, "grouped" its GroupKFold with shuffle.
        "forward" trains on one time and tests on the next. "growing" draws the fold of each row
        from its position, so that appended rows do not change the folds of existing ones.
    seed
        The run's seed.
    rows
        Positions of the rows to be split, all by default. Only the column that decides is read,
        because copying a million rows takes longer than splitting them.
    key
        The configuration key of the number of folds, for errors.
    """
    chosen = slice(None) if rows is None else rows
    n = table.n if rows is None else len(rows)
    if folds.kind == "forward":
        parts = _forward(_column(table, folds.by or "year")[chosen], folds)
    elif folds.kind == "growing":
        _check_count(folds.k, n, "rows", key)
        parts = _growing(n, folds.k, seed, key)
    elif folds.kind == "grouped":
        groups = _column(table, str(folds.by))[chosen]
        _check_count(folds.k, len(np.unique(groups)), f"different values of {folds.by}", key)
        splitter = GroupKFold(folds.k, shuffle=True, random_state=seed)
        parts = [Fold(train, test) for train, test in splitter.split(groups, groups=groups)]
    else:
        _check_count(folds.k, n, "rows", key)
        splitter = KFold(folds.k, shuffle=True, random_state=seed)
        parts = [Fold(train, test) for train, test in splitter.split(np.empty((n, 0)))]
    return parts if rows is None else [Fold(rows[p.train], rows[p.test]) for p in parts]


def reserved_rows(table: Table, folds: FoldsConfig, seed: int) -> NDArray[np.int64]:
    """Return the sorted positions of the rows that no fold tests on, in whole groups."""
    rng = np.random.default_rng([seed, _RESERVED])
    if folds.base:
        if folds.base > table.n:
            raise UserError(
                f"folds.base must be at most the number of rows ({table.n}), got {folds.base}. "
                "Set it to the number of rows that the table had first."
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


def train_on_reserved(fold: Fold, reserved: NDArray[np.int64]) -> Fold:
    """Return the fold with the reserved rows moved to its training rows."""
    if not len(reserved):
        return fold
    # Masks of all rows: set operations on a million positions take seconds.
    size = 1 + max(int(rows.max()) for rows in (fold.train, fold.test, reserved) if len(rows))
    train, test = np.zeros((2, size), dtype=bool)
    train[fold.train] = train[reserved] = test[fold.test] = True
    test[reserved] = False
    if not test.any():
        raise UserError(
            "folds.reserve must leave test rows in every fold, but one fold has none. Lower it by "
            "--set folds.reserve=..."
        )
    return Fold(np.flatnonzero(train), np.flatnonzero(test))


def _growing(n: int, k: int, seed: int, key: str) -> list[Fold]:
    """Draw folds in blocks of rows: appended rows do not change those of earlier blocks."""
    parts = [
        np.random.default_rng([seed, _GROWING, i]).integers(k, size=_DRAWN)
        for i in range(-(-n // _DRAWN))
    ]
    drawn = np.concatenate(parts)[:n]
    if len(np.unique(drawn)) < k:
        raise UserError(
            f"{key} must give every fold of kind growing a row, got {k} folds of {n} rows. Lower "
            f"it by --set {key}=..., or set folds.kind to another kind."
        )
    return [Fold(np.flatnonzero(drawn != i), np.flatnonzero(drawn == i)) for i in range(k)]


def _forward(times: NDArray[np.generic], folds: FoldsConfig) -> list[Fold]:
    """Train on each time and test on the next one; return the latest k pairs."""
    moments = np.unique(times)
    if len(moments) < 2:
        raise UserError(
            f"folds of kind forward need at least two values of {folds.by or 'year'}, got "
            f"{moments.tolist()}. Set several years, for example --set data.year=[2017,2018]."
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
    """Refuse more folds than there are rows or groups."""
    if available >= k:
        return
    where = "" if key == "folds.k" else " in the training rows of the held-out fold"
    remedy = f"Lower it by --set {key}={available}" if available >= 2 else f"Too few {what}"
    raise UserError(
        f"{key} must be at most the number of {what}{where} ({available}), got {k}. {remedy}."
    )

"""Rows that a solver reads again in every pass, a block at a time."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fkd.core.arrays import AnyArray, Array


@dataclass(frozen=True)
class RowBlock:
    """Features of some rows with their target, all of them in the same folds.

    Rows that different machines are trained on stand in different blocks: a machine skips the
    blocks that are not its own, instead of multiplying by zeros.
    """

    G: AnyArray  # (k, r), single or double precision
    y: Array  # (k,); -1 or 1 for a hinge
    folds: tuple[int, ...] = (0,)
    weights: Array | None = None  # (k,), factors of C; None is 1 of each


# Each call yields the same blocks in the same order.
Source = Callable[[], Iterable[RowBlock]]

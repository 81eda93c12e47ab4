"""Inputs that go along with a sensitive column, which removal has to contend with."""

from dataclasses import dataclass

import numpy as np

from fkd.core.arrays import Array, IntArray
from fkd.problems.table import Table


@dataclass(frozen=True)
class Proxy:
    """An input with how closely it goes along with a sensitive column, from 0 to 1."""

    name: str
    correlation: float


def strongest_proxies(
    table: Table, column: str, *, most: int = 3, above: float = 0.3
) -> list[Proxy]:
    """Return the inputs most related to a sensitive column, strongest first, at least one.

    A number by its absolute correlation, a category by the correlation ratio: the correlation of
    the column with its own mean in each category.

    Parameters
    ----------
    table, column
        Rows, and the sensitive column's name; the column itself is left out.
    most, above
        How many at most; how closely related the second and further ones are at least.
    """
    s = table.S([column])[:, 0]
    found = [
        Proxy(name, _correlation(x, s))
        for name, x in zip(table.numeric_names, table.numeric.T, strict=True)
        if name != column
    ]
    found += [
        Proxy(name, _correlation(_group_means(codes, s), s))
        for name, codes in zip(table.categorical_names, table.codes.T, strict=True)
        if name != column
    ]
    ordered = sorted(found, key=lambda proxy: -proxy.correlation)
    close = [proxy for proxy in ordered if proxy.correlation > above]
    return close[:most] or [proxy for proxy in ordered[:1] if proxy.correlation > 0]


def _group_means(codes: IntArray, s: Array) -> Array:
    """Return for each row the mean of s over the rows of its category."""
    group = codes - codes.min()  # small numbers already: sorting a million rows would be the price
    rows = np.bincount(group)
    return np.asarray((np.bincount(group, weights=s) / np.maximum(rows, 1))[group])


def _correlation(x: Array, s: Array) -> float:
    """Return the absolute correlation in the rows that have both, 0 where one is constant."""
    present = ~np.isnan(x)
    x, s = x[present], s[present]
    if not len(x):
        return 0.0
    a, b = x - x.mean(), s - s.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return abs(float(a @ b)) / scale if scale > 0 else 0.0

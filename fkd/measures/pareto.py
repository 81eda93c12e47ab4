"""Selection among trials that minimise several quantities, such as error and dependence.

`non_dominated` returns the Pareto front, `knee` its point of strongest bend, and `select` the best
point within limits.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array


def non_dominated(points: ArrayLike) -> NDArray[np.bool_]:
    """Return the mask of points that no other point dominates.

    A point dominates another if it is no worse in any coordinate and better in one. Equal points do
    not dominate each other.

    Parameters
    ----------
    points
        One row per point, all coordinates minimised (p, d).

    Returns
    -------
    Array of bool
        Mask (p,).
    """
    rows = _as_points(points)
    mask = np.ones(len(rows), dtype=bool)
    for i, row in enumerate(rows):
        no_worse, better = (row >= rows).all(axis=1), (row > rows).any(axis=1)
        mask[i] = not (no_worse & better).any(axis=0)
    return mask


def knee(points: ArrayLike, *, tolerance: ArrayLike | None = None) -> int:
    """Return the index of the front's point farthest below the line between the front's ends.

    Both coordinates are scaled to the range of the front, so that units do not matter.

    Parameters
    ----------
    points
        One row per point, both coordinates minimised (p, 2).
    tolerance
        Noise of both coordinates, >= 0, for all points (2,) or for each (p, 2). The best value of
        each coordinate is then 0. Values within the tolerance count as 0, larger ones as their
        excess. If the excesses of the front differ by less than the tolerance, they are scaled by
        the tolerance, so that a coordinate in which points hardly differ has little influence. Of
        equal points the one with the smallest coordinates is returned, comparing the first
        coordinate first.

    Returns
    -------
    int
        A row number. It is an end of the front if no point lies below the line.

    Examples
    --------
    >>> from fkd.measures.pareto import knee
    >>> points = [[0.0, 0.004], [0.02, 0.001], [0.08, 0.0]]
    >>> knee(points)
    1
    >>> knee(points, tolerance=[0.001, 0.005])
    0
    """
    rows = _as_points(points)
    p = len(rows)
    if rows.shape[1] != 2:
        raise ValueError(f"points must have two coordinates here, got {rows.shape[1]}")
    front = np.flatnonzero(non_dominated(rows))
    noise = np.zeros_like(rows)
    if tolerance is not None:
        noise = np.asarray(tolerance, dtype=np.float64)
        if noise.shape not in ((2,), (p, 2)) or not (np.isfinite(noise) & (noise >= 0)).all():
            raise ValueError(
                f"tolerance must be two finite numbers >= 0, or two for each of {p} points, got "
                f"{tolerance!r}"
            )
        noise = np.broadcast_to(noise, (p, 2))
        front = front[np.lexsort((rows[front, 1], rows[front, 0]))]
        rows = np.maximum(rows - noise, 0.0)
    low, high = rows[front].min(axis=0), rows[front].max(axis=0)
    spread = np.maximum(high - low, noise[front].max(axis=0))
    # The ends are now (0, 1) and (1, 0), so the sum measures the distance from their line.
    distance = ((rows[front] - low) / np.where(spread > 0, spread, 1.0)).sum(axis=1)
    return int(front[np.argmin(distance)])


def select(
    points: Mapping[str, ArrayLike], *, minimise: str, subject_to: Mapping[str, float]
) -> int:
    """Return the index of the point with the smallest `minimise` among those within all limits.

    Parameters
    ----------
    points
        One column per quantity (a dict of sequences, or a data frame), all of the same length.
    minimise
        Name of the column to minimise. Of equal points, the first one with the smallest limited
        quantities is returned.
    subject_to
        Largest allowed value per column. It may be empty.

    Returns
    -------
    int
        A position in the columns.
    """
    values = _as_points(np.column_stack([_column(points, k) for k in (minimise, *subject_to)]))
    limits = np.array(list(subject_to.values()), dtype=np.float64)
    if np.isnan(limits).any():
        raise ValueError(f"subject_to must hold numbers, got {dict(subject_to)}")
    allowed = np.flatnonzero((values[:, 1:] <= limits).all(axis=1))
    if len(allowed) == 0:
        raise ValueError(_unreachable(values, minimise, subject_to))
    # lexsort orders by its last key first, hence the reversal.
    return int(allowed[np.lexsort(values[allowed].T[::-1])[0]])


def _unreachable(values: Array, minimise: str, subject_to: Mapping[str, float]) -> str:
    """Return the error message: the limits that no point meets, and the smallest values."""
    reachable = []
    for j, (name, limit) in enumerate(subject_to.items(), start=1):
        i = int(np.lexsort((values[:, 0], values[:, j]))[0])
        if values[i, j] > limit:
            reachable.append(
                f"the least {name} reachable is {values[i, j]:.6g} "
                f"(with {minimise} {values[i, 0]:.6g})"
            )
    rule = ", ".join(f"{name} <= {limit:g}" for name, limit in subject_to.items())
    cause = "; ".join(reachable) or "each limit can be met alone, but not all of them at once"
    return f"subject_to must leave a choice, got {rule} for {len(values)} points; {cause}"


def _column(points: Mapping[str, ArrayLike], name: str) -> Array:
    """Return one named quantity."""
    if name not in points:
        raise ValueError(f"points must have a column {name!r}, got {', '.join(map(str, points))}")
    return np.asarray(points[name], dtype=np.float64)


def _as_points(points: ArrayLike) -> Array:
    """Return a finite matrix of at least one point."""
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0:
        raise ValueError(f"points must be a table of at least one row, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        i = int(np.argwhere(~np.isfinite(rows))[0, 0])
        raise ValueError(f"points must be finite, got {rows[i]} in row {i}; drop failed trials")
    return rows

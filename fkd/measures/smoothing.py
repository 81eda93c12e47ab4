"""Means of a prediction near each value of an attribute, under a Gaussian window."""

from collections.abc import Iterator

import numpy as np

from fkd.core.arrays import Array, IntArray, row_blocks

TILE_CELLS = 1 << 17  # 1 MB, worked in place: several times faster than a tile beyond the cache
# More pairs of a point and a level than this go by way of points at fixed distances.
MOST_CELLS = 1 << 26
# So many of them lie within one window.
PER_WINDOW = 128
# Rows farther than so many windows weigh less than 3e-18 of one at the point itself.
_REACH = 9.0
_POINTS = 128  # of one tile of neighbours
# Places of a narrower window could not be told apart.
_MOST_PLACES = 1 << 40


def level_totals(d: Array, s: Array, w: Array | None = None) -> tuple[Array, Array]:
    """Return the levels of s with the sum of d and the number of rows at each, (levels, 2)."""
    # Rows that share s share their weight: ages cost as many columns as there are ages.
    levels, inverse, counts = np.unique(s, return_inverse=True, return_counts=True)
    if w is not None:
        return levels, np.stack([np.bincount(inverse, weights=v) for v in (w * d, w)], axis=1)
    return levels, np.stack([np.bincount(inverse, weights=d), counts], axis=1)


def on_points(points: Array, levels: Array, totals: Array, h: float) -> tuple[Array, Array]:
    """Return the smoothed mean at any points, with the log of the density up to a constant."""
    if len(points) * len(levels) > MOST_CELLS and (nodes := _nodes(levels, totals, h)):
        levels, totals, h = nodes[0], nodes[1], _window(h, spread=1)
    return smooth(points, levels, totals, h)


def at_levels(levels: Array, totals: Array, h: float) -> Array:
    """Return the smoothed mean at the levels themselves."""
    if len(levels) ** 2 <= MOST_CELLS:
        return smooth(levels, levels, totals, h)[0]
    if nodes := _nodes(levels, totals, h):
        points, shared, lower, share = nodes
        at_nodes = _sums_of_neighbours(points, shared, _window(h, spread=2))
        sums = (1 - share)[:, None] * at_nodes[lower] + share[:, None] * at_nodes[lower + 1]
    else:
        sums = _sums_of_neighbours(levels, totals, h)
    mean: Array = sums[:, 0] / sums[:, 1]
    return mean


def smooth(points: Array, levels: Array, totals: Array, h: float) -> tuple[Array, Array]:
    """Return the mean at the points and the log density by weighing each level at each point."""
    mean, log_density = np.empty(len(points)), np.empty(len(points))
    for tile in row_blocks(len(points), max(1, TILE_CELLS // len(levels))):
        halves = points[tile, None] - levels
        halves *= np.sqrt(0.5) / h
        np.square(halves, out=halves)
        nearest = halves.min(axis=1)
        # The largest weight of each point is now one, so no sum can underflow to zero.
        weights = np.exp(np.subtract(nearest[:, None], halves, out=halves), out=halves)
        sums = weights @ totals
        mean[tile] = sums[:, 0] / sums[:, 1]
        log_density[tile] = np.log(sums[:, 1]) - nearest
    return mean, log_density


def _nodes(levels: Array, totals: Array, h: float) -> tuple[Array, Array, IntArray, Array] | None:
    """Share out the levels among equidistant points, of which only those with rows are kept.

    Returns
    -------
    tuple or None
        The points, their totals, for each level the number of the point below it, its share in the
        point above; None where they would be as many as the levels.
    """
    step = h / PER_WINDOW
    places = (levels - levels[0]) / step
    if places[-1] >= _MOST_PLACES:
        return None
    below = places.astype(np.int64)
    share = places - below
    taken = np.unique(below)
    taken = np.unique(np.concatenate([taken, taken + 1]))
    if len(taken) >= len(levels):
        return None
    lower = np.searchsorted(taken, below)
    shared = np.stack(
        [
            np.bincount(lower, weights=column * (1 - share), minlength=len(taken))
            + np.bincount(lower + 1, weights=column * share, minlength=len(taken))
            for column in totals.T
        ],
        axis=1,
    )
    return levels[0] + step * taken, shared, lower, share


def _window(h: float, *, spread: int) -> float:
    """Return the window that, with what sharing out adds so many times, equals one of width h."""
    return float(h * np.sqrt(1 - spread / 6 / PER_WINDOW**2))


def _sums_of_neighbours(points: Array, totals: Array, h: float) -> Array:
    """Weighted sums at the points themselves of all points within reach."""
    sums = np.empty_like(totals)
    for tile, near in _neighbours(points, _REACH * h):
        halves = points[tile, None] - points[near]
        halves *= np.sqrt(0.5) / h
        np.square(halves, out=halves)
        sums[tile] = np.exp(np.negative(halves, out=halves), out=halves) @ totals[near]
    return sums


def _neighbours(points: Array, reach: float) -> Iterator[tuple[slice, slice]]:
    """Yield the points in tiles, each with all points that one of the tile reaches."""
    for tile in row_blocks(len(points), _POINTS):
        first = np.searchsorted(points, points[tile.start] - reach)
        stop = np.searchsorted(points, points[tile.stop - 1] + reach, side="right")
        yield tile, slice(int(first), int(stop))

"""HGR and GDP of many rows, from counts in the cells of a grid.

Rounding both columns to a few hundred points reduces any number of rows to one table of counts.
Counts of blocks of rows add up, and a subsample or a permutation of the rows is counted again in
about a millisecond. The density and the smoothed means of `hgr` and `gdp` are then computed from
the table.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array
from fkd.core.validation import as_numbers, choice, weight_vector
from fkd.measures.columns import SHARES, Counts, Nodes, count_cells, is_constant, total_weight
from fkd.measures.gdp import GRID, mean_at_levels, mean_on_grid, rate, require_unit_range
from fkd.measures.hgr import density_from_cells, witsenhausen

# Rounding to 512 points moves a row by at most a thousandth of the range.
POINTS = 512
# Options of HGR and GDP that binned rows support.
BINNED_OPTIONS = {"estimator": ("grid", "plugin"), "margins": ("standard", "range", "given")}
Ends = tuple[float, float]


@dataclass(frozen=True)
class BinnedRows:
    """Rows counted at fixed points of the prediction and of the attribute.

    Counts of two blocks of rows add up to the counts of both, exactly and in any order, because
    they are integers (sums of fractional weights agree up to rounding). Pairwise fairness is not
    available: it needs all rows at once (`PairwiseRows`).

    Parameters
    ----------
    f_nodes, s_nodes
        Points of prediction and attribute.
    cells
        Counts from `count_cells`.
    rows
        Number of rows, regardless of their weights.
    f_ends, s_ends
        Smallest and largest value of either column.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import BinnedRows, Nodes
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> points = {"f_nodes": Nodes.between(-1, 2), "s_nodes": Nodes.between(0, 1)}
    >>> first = BinnedRows.from_rows(f[:200], s[:200], **points)
    >>> second = BinnedRows.from_rows(f[200:], s[200:], **points)
    >>> (first + second).rows
    400
    >>> bool((first + second).gdp() > 0.1)
    True
    """

    f_nodes: Nodes
    s_nodes: Nodes
    cells: Counts | Array
    rows: int
    f_ends: Ends
    s_ends: Ends

    @classmethod
    def from_rows(
        cls,
        y_pred: ArrayLike,
        sensitive: ArrayLike,
        *,
        f_nodes: Nodes,
        s_nodes: Nodes,
        sample_weight: ArrayLike | None = None,
    ) -> "BinnedRows":
        """Return the counts of one block of rows.

        Parameters
        ----------
        y_pred
            Predictions (n,), n >= 1, within the points of f.
        sensitive
            One column (n,), within the points of s, or among them if they are levels.
        f_nodes, s_nodes
            `Nodes.between(low, high)`, or `Nodes.levels` for a column with few values. They are
            the same for all blocks.
        sample_weight
            Weights (n,), >= 0, in the same unit for all blocks.
        """
        f, s = as_numbers(y_pred, "y_pred"), as_numbers(sensitive, "sensitive")
        if f.ndim != 1 or len(f) == 0:
            raise ValueError(f"y_pred must be one column with rows, got shape {f.shape}")
        if s.shape != f.shape:
            raise ValueError(f"sensitive must have the shape {f.shape} of y_pred, got {s.shape}")
        w = weight_vector(sample_weight, len(f))
        if w is not None:
            f, s, w = f[w > 0], s[w > 0], w[w > 0]
        _require_inside("y_pred", f, f_nodes)
        _require_inside("sensitive", s, s_nodes)
        cells = count_cells(f, f_nodes, s, s_nodes, w)
        return cls(f_nodes, s_nodes, cells, len(f), _ends(f), _ends(s))

    def __add__(self, other: "BinnedRows") -> "BinnedRows":
        for mine, theirs in ((self.f_nodes, other.f_nodes), (self.s_nodes, other.s_nodes)):
            if not np.array_equal(mine.points, theirs.points) or mine.step != theirs.step:
                raise ValueError(
                    f"binned rows must have the same points, got {len(mine.points)} from "
                    f"{mine.points[0]:g} to {mine.points[-1]:g} with {len(theirs.points)} from "
                    f"{theirs.points[0]:g} to {theirs.points[-1]:g}"
                )
        return BinnedRows(
            self.f_nodes,
            self.s_nodes,
            self.cells + other.cells,
            self.rows + other.rows,
            _joined(self.f_ends, other.f_ends),
            _joined(self.s_ends, other.s_ends),
        )

    def hgr(self, *, margins: Literal["standard"] | None = None) -> float:
        """Return `hgr` of all counted rows, with standard margins."""
        if margins is not None:
            choice("margins", margins, ("standard",))
        if self._is_constant:
            return 0.0
        f, s = (self._standardised(axis) for axis in (0, 1))
        P = density_from_cells(self.cells, f, s, self._total)
        return float(np.clip(witsenhausen(P)[1], 0.0, 1.0))

    def gdp(
        self,
        *,
        estimator: Literal["grid", "plugin"] = "grid",
        margins: Literal["range", "given"] | None = None,
    ) -> float:
        """Return `gdp` of all counted rows, with the default bandwidth."""
        choice("estimator", estimator, ("grid", "plugin"))
        margins = margins or "range"
        choice("margins", margins, ("range", "given"))
        if self._is_constant:
            return 0.0
        low, high = self.s_ends if margins == "range" else (0.0, 1.0)
        s = self.s_nodes.scaled(low, high - low)
        counts = self._margin(1)
        d = self.f_nodes.points - self._moments(0)[0]
        totals = np.stack([d @ self.cells / SHARES**2, counts], axis=1)
        levels, totals = s.points[counts > 0], totals[counts > 0]
        if estimator == "plugin":
            h = self._moments(1)[1] / (high - low) * rate(self._total)
            return mean_at_levels(levels, totals, s.window(h))
        h = rate(self._total)
        require_unit_range((np.array(self.s_ends) - low) / (high - low), h)
        return mean_on_grid(GRID, levels, totals, s.window(h))

    @cached_property
    def _total(self) -> float:
        """Sum of the weights. All rows lie within the points."""
        return total_weight(self._margin(1), self.rows)

    @property
    def _is_constant(self) -> bool:
        return any(is_constant(np.array(ends)) for ends in (self.f_ends, self.s_ends))

    def _margin(self, axis: int) -> Array:
        """Return the rows at each point of f (0) or s (1)."""
        return np.asarray(self.cells.sum(axis=1 - axis) / SHARES**2)

    def _moments(self, axis: int) -> tuple[float, float]:
        """Return mean and standard deviation (n) of f (0) or s (1)."""
        nodes, counts = (self.f_nodes, self.s_nodes)[axis], self._margin(axis)
        mean = float(nodes.points @ counts / self._total)
        # Minus the variance that linear binning adds.
        variance = float((nodes.points - mean) ** 2 @ counts / self._total) - nodes.step**2 / 6
        if variance <= nodes.step**2:
            raise ValueError(
                f"{('y_pred', 'sensitive')[axis]} must vary by more than a step of its points, "
                f"{nodes.step:g}. Use a narrower range or more points"
            )
        return mean, float(np.sqrt(variance))

    def _standardised(self, axis: int) -> Nodes:
        """Return the points of f (0) or s (1) in standard deviations (n - 1) from the mean."""
        nodes, (mean, deviation) = (self.f_nodes, self.s_nodes)[axis], self._moments(axis)
        return nodes.scaled(mean, deviation * float(np.sqrt(self._total / (self._total - 1))))


@dataclass(frozen=True)
class RoundedColumn:
    """A column rounded to at most 512 points, so that any subset of its rows is counted fast.

    Parameters
    ----------
    nodes
        The points.
    index
        Position of each row's point, (n,).
    """

    nodes: Nodes
    index: NDArray[np.int32]

    @classmethod
    def from_column(cls, values: Array) -> "RoundedColumn | None":
        """Return the rounded column, or None if rounding would change the measures.

        A step of one bandwidth adds a twelfth to the variance of the kernel. A column with long
        tails or an outlier has wider steps: its rows would share a few points.
        """
        if is_constant(values):
            return cls(Nodes(values[:1], 0.0), np.zeros(len(values), dtype=np.int32))
        nodes = Nodes.few_levels(values, POINTS)
        if nodes is not None:
            return cls(nodes, np.searchsorted(nodes.points, values).astype(np.int32))
        low, high = np.quantile(values, [0.1, 0.9])
        # Between these quantiles a normal column has 2.56 standard deviations.
        bandwidth = rate(len(values)) * float(high - low) / 2.56
        if np.ptp(values) / (POINTS - 1) > bandwidth:
            return None
        points = np.linspace(values.min(), values.max(), POINTS)
        positions = (values - points[0]) * ((POINTS - 1) / (points[-1] - points[0]))
        return cls(Nodes(points, 0.0), np.rint(positions).astype(np.int32))

    def take(self, rows: NDArray[np.intp]) -> "RoundedColumn":
        """Return some of the rows, at the same points."""
        return RoundedColumn(self.nodes, self.index[rows])


def count_rounded(f: RoundedColumn, s: RoundedColumn, times: int = 1) -> BinnedRows:
    """Return the counts of predictions and attribute, with each row repeated `times` times."""
    shape = len(f.nodes.points), len(s.nodes.points)
    cells = f.index * np.int32(shape[1]) + s.index
    counts = times * np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    f_ends, s_ends = (
        _ends(column.nodes.points[counts.any(axis=axis)]) for column, axis in ((f, 1), (s, 0))
    )
    n = times * len(f.index)
    return BinnedRows(f.nodes, s.nodes, counts * SHARES**2, n, f_ends, s_ends)


def _require_inside(name: str, values: Array, nodes: Nodes) -> None:
    """Raise if a row lies outside of the points."""
    low, high = nodes.points[0], nodes.points[-1]
    if not nodes.step and not np.isin(values, nodes.points).all():
        unknown = values[~np.isin(values, nodes.points)][0]
        raise ValueError(f"{name} must be among its {len(nodes.points)} levels, got {unknown:g}")
    if values.min() < low or values.max() > high:
        raise ValueError(
            f"{name} must lie between the ends of its points, [{low:g}, {high:g}], got "
            f"[{values.min():g}, {values.max():g}]. Use a wider range for all blocks"
        )


def _ends(values: Array) -> Ends:
    return float(values.min(axis=0)), float(values.max(axis=0))


def _joined(one: Ends, other: Ends) -> Ends:
    return min(one[0], other[0]), max(one[1], other[1])

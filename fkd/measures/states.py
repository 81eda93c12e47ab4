"""HGR with GDP of predictions that come in blocks, from counts that add exactly."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_numbers, require_length, weight_vector
from fkd.core.parameters import choice
from fkd.measures.cells import SHARES, Counts, Nodes, count_cells
from fkd.measures.columns import is_constant
from fkd.measures.gdp import GRID, mean_at_levels, mean_on_grid, rate, require_unit_range
from fkd.measures.hgr import density_of_cells
from fkd.measures.joint_tables import witsenhausen
from fkd.measures.repeated_rows import rows_in_all

Ends = tuple[float, float]


@dataclass(frozen=True)
class MeasureState:
    """Rows of any number of blocks, counted at points that were fixed beforehand.

    States of two blocks add up to the state of both, to the bit and in any order: only integers
    are added, unless weights are fractions, whose sums round. Pairwise fairness is not among its
    values: pairs of two blocks need the rows of both, so it takes all predictions (`PairwiseRows`),
    8 bytes each.

    Parameters
    ----------
    f_nodes, s_nodes
        Points of prediction and attribute.
    cells
        Of `count_cells`.
    rows
        How many were counted, whatever their weights.
    f_ends, s_ends
        Least and greatest value of either column.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import MeasureState, Nodes
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> points = {"f_nodes": Nodes.between(-1, 2), "s_nodes": Nodes.between(0, 1)}
    >>> first = MeasureState.of(f[:200], s[:200], **points)
    >>> second = MeasureState.of(f[200:], s[200:], **points)
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
    def of(
        cls,
        y_pred: ArrayLike,
        sensitive: ArrayLike,
        *,
        f_nodes: Nodes,
        s_nodes: Nodes,
        sample_weight: ArrayLike | None = None,
    ) -> "MeasureState":
        """Return the state of one block of rows.

        Parameters
        ----------
        y_pred
            Predictions (n,), n >= 1, within the points of f.
        sensitive
            One column (n,), within the points of s, or among them where they are levels.
        f_nodes, s_nodes
            `Nodes.between(low, high)`, or `Nodes.levels` of a column with few values; the same for
            all blocks.
        sample_weight
            How many rows each row stands for (n,), >= 0, in the same unit for all blocks.
        """
        f, s = _block(y_pred, "y_pred"), _block(sensitive, "sensitive")
        require_length(s, len(f), "sensitive")
        w = weight_vector(sample_weight, len(f))
        if w is not None:
            f, s, w = f[w > 0], s[w > 0], w[w > 0]
        for name, values, nodes in (("y_pred", f, f_nodes), ("sensitive", s, s_nodes)):
            _require_inside(name, values, nodes)
        cells = count_cells(f, f_nodes, s, s_nodes, w)
        return cls(f_nodes, s_nodes, cells, len(f), _ends(f), _ends(s))

    def __add__(self, other: "MeasureState") -> "MeasureState":
        for mine, theirs in ((self.f_nodes, other.f_nodes), (self.s_nodes, other.s_nodes)):
            if not np.array_equal(mine.points, theirs.points) or mine.step != theirs.step:
                raise ValueError(
                    f"states must have the same points to be added, got {len(mine.points)} from "
                    f"{mine.points[0]:g} to {mine.points[-1]:g} with {len(theirs.points)} from "
                    f"{theirs.points[0]:g} to {theirs.points[-1]:g}; fix them beforehand"
                )
        return MeasureState(
            self.f_nodes,
            self.s_nodes,
            self.cells + other.cells,
            self.rows + other.rows,
            _joined(self.f_ends, other.f_ends),
            _joined(self.s_ends, other.s_ends),
        )

    def value(self, *, margins: Literal["range", "given"] = "range") -> Mapping[str, float]:
        """Return HGR with both estimators of GDP, by name."""
        return {
            "hgr": self.hgr(),
            "gdp": self.gdp(margins=margins),
            "gdp_plugin": self.gdp(estimator="plugin", margins=margins),
        }

    def hgr(self) -> float:
        """Return `hgr` of all rows counted, with standard margins."""
        if self._is_constant:
            return 0.0
        f, s = (self._standardised(axis) for axis in (0, 1))
        P = density_of_cells(self.cells, f, s, self._total)
        return float(np.clip(witsenhausen(P)[1], 0.0, 1.0))

    def gdp(
        self,
        *,
        estimator: Literal["grid", "plugin"] = "grid",
        margins: Literal["range", "given"] = "range",
    ) -> float:
        """Return `gdp` of all rows counted, at its default bandwidth."""
        choice("estimator", estimator, ("grid", "plugin"))
        choice("margins", margins, ("range", "given"))
        if self._is_constant:
            return 0.0
        low, high = self.s_ends if margins == "range" else (0.0, 1.0)
        s = Nodes((self.s_nodes.points - low) / (high - low), self.s_nodes.step / (high - low))
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
        """How many rows those counted stand for: every one lies among the points."""
        return rows_in_all(self._margin(1), self.rows)

    @property
    def _is_constant(self) -> bool:
        return any(is_constant(np.array(ends)) for ends in (self.f_ends, self.s_ends))

    def _margin(self, axis: int) -> Array:
        """Rows at each point of f (0) or s (1)."""
        return np.asarray(self.cells.sum(axis=1 - axis) / SHARES**2)

    def _moments(self, axis: int) -> tuple[float, float]:
        """Mean and standard deviation (n) of f (0) or s (1)."""
        nodes, counts = (self.f_nodes, self.s_nodes)[axis], self._margin(axis)
        mean = float(nodes.points @ counts / self._total)
        # Without the spread that sharing out adds.
        variance = float((nodes.points - mean) ** 2 @ counts / self._total) - nodes.step**2 / 6
        if variance <= nodes.step**2:
            raise ValueError(
                f"{('y_pred', 'sensitive')[axis]} must vary by more than a step of its points, "
                f"{nodes.step:g}, to be measured; take a narrower range or more points"
            )
        return mean, float(np.sqrt(variance))

    def _standardised(self, axis: int) -> Nodes:
        """Points of f (0) or s (1) in standard deviations (n - 1) from the mean."""
        nodes, (mean, deviation) = (self.f_nodes, self.s_nodes)[axis], self._moments(axis)
        unit = deviation * float(np.sqrt(self._total / (self._total - 1)))
        return Nodes((nodes.points - mean) / unit, nodes.step / unit)


def _require_inside(name: str, values: Array, nodes: Nodes) -> None:
    """Refuse rows that no point would count."""
    low, high = nodes.points[0], nodes.points[-1]
    if not nodes.step and not np.isin(values, nodes.points).all():
        strange = values[~np.isin(values, nodes.points)][0]
        raise ValueError(f"{name} must be among its {len(nodes.points)} levels, got {strange:g}")
    if values.min() < low or values.max() > high:
        raise ValueError(
            f"{name} must lie between the ends of its points, [{low:g}, {high:g}], got "
            f"[{values.min():g}, {values.max():g}]; fix a wider range before the first block"
        )


def _block(values: ArrayLike, name: str) -> Array:
    """Return a column of which a single row may be left."""
    column = as_numbers(values, name)
    if column.ndim != 1 or len(column) == 0:
        raise ValueError(f"{name} must be one column with rows, got shape {column.shape}")
    return column


def _ends(values: Array) -> Ends:
    return float(values.min(axis=0)), float(values.max(axis=0))


def _joined(one: Ends, other: Ends) -> Ends:
    return min(one[0], other[0]), max(one[1], other[1])

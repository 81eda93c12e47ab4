"""Numbers of a prediction by groups of rows, each with its interval."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import as_column, as_sensitive, require_length
from fkd.core.weights import weighted_mean
from fkd.measures.columns import mean_error, mean_excess, weighed
from fkd.measures.groups import (
    ControlGroup,
    LeftOutStratum,
    as_rows,
    control_groups,
    measured_groups,
    weighed_rows,
)
from fkd.measures.pairwise import pairwise_fairness
from fkd.measures.registry import MEASURES, REPORTED
from fkd.measures.resampling import FEWEST_ROWS, Interval, interval

# pandas is imported where it is used: the library does not need it.


if TYPE_CHECKING:
    import pandas as pd

Metric = Callable[..., float]


@dataclass(frozen=True)
class MeasuredGroup:
    """A group of rows with its numbers.

    Parameters
    ----------
    label
        Of the group.
    rows
        How many it has.
    values
        Intervals by name.
    weight
        How many rows they stand for; None is as many as they are.

    Examples
    --------
    >>> from fkd.measures import MeasuredGroup
    >>> MeasuredGroup("all", 400, {}).rows
    400
    """

    label: str
    rows: int
    values: Mapping[str, Interval]
    weight: float | None = None


@dataclass(frozen=True)
class MeasureFrame:
    """Numbers of a prediction of all rows, group by group, with intervals.

    Made by `by_quantiles`, whose groups are of the sensitive attribute itself, or `by_strata`,
    which takes measures of dependence within groups of legitimate columns.

    Attributes
    ----------
    overall : MeasuredGroup
        All rows.
    groups : tuple of MeasuredGroup
        In the order of their values.
    left_out : tuple of LeftOutStratum
        Groups on which nothing can be measured, with the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import MeasureFrame
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=500)
    >>> table = MeasureFrame.by_quantiles(s, s + rng.normal(size=500), s, replicates=50)
    >>> len(table.groups), table.groups[0].rows
    (5, 100)
    >>> bool(table.difference("mean_prediction") > 0.5)
    True
    """

    overall: MeasuredGroup
    groups: tuple[MeasuredGroup, ...]
    left_out: tuple[LeftOutStratum, ...] = ()

    @classmethod
    def by_quantiles(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        sensitive_features: ArrayLike,
        *,
        metrics: Mapping[str, Metric] | None = None,
        replicates: int = 200,
        level: float = 0.95,
        random_state: int = 0,
        sample_weight: ArrayLike | None = None,
    ) -> "MeasureFrame":
        """Return metrics in each fifth of the rows along the sensitive attribute.

        Parameters
        ----------
        y_true, y_pred
            Target and predictions (n,).
        sensitive_features
            One column (n,): at most ten values are groups, more are cut at their quintiles.
        metrics
            Functions of (y_true, y_pred) by name; None is mean prediction, mean of prediction
            minus target, mean absolute error.
        replicates, level, random_state
            Of the intervals.
        sample_weight
            How many rows each row stands for (n,), >= 0; metrics get their group's by this keyword,
            and quintiles are of these.
        """
        y, f = as_column(y_true, "y_true"), as_column(y_pred, "y_pred")
        require_length(y, len(f), "y_true")
        s = as_sensitive(sensitive_features, len(f))
        if s.shape[1] != 1:
            raise ValueError(f"sensitive_features must be one column here, got {s.shape[1]}")
        w, (y, f, s) = weighed(sample_weight, y, f, s)
        options = {"replicates": replicates, "level": level}
        told = _METRICS if metrics is None else metrics
        judge = partial(_metrics, told, y, f, w, options, random_state)
        kept, left = [], []
        for group in control_groups(s[:, 0], len(f), w):
            if len(group.index) < FEWEST_ROWS:
                why = f"fewer than {FEWEST_ROWS} rows"
                left.append(LeftOutStratum(group.label, len(group.index), why))
            else:
                kept.append(judge(group))
        return cls(judge(ControlGroup("all", np.arange(len(f)))), tuple(kept), tuple(left))

    @classmethod
    def by_strata(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        sensitive_features: ArrayLike,
        *,
        control_features: Any,
        measures: tuple[str, ...] = tuple(REPORTED),
        replicates: int = 200,
        level: float = 0.95,
        random_state: int = 0,
        sample_weight: ArrayLike | None = None,
    ) -> "MeasureFrame":
        """Return measures of dependence within each group of legitimate columns.

        Parameters
        ----------
        y_true, y_pred
            Target and predictions (n,).
        sensitive_features
            One column (n,).
        control_features
            One column (n,) or several (n, k), whose combinations are the groups: text and up to
            ten numbers are levels, more numbers are cut at their quintiles. Groups of fewer than
            30 rows, or in which the attribute does not vary, are left out.
        measures
            Names of declared measures.
        replicates, level, random_state
            Of the intervals.
        sample_weight
            How many rows each row stands for (n,), >= 0.
        """
        unknown = [name for name in measures if name not in MEASURES]
        if unknown or not measures:
            raise ValueError(f"measures must be of {', '.join(MEASURES)}, got {unknown or 'none'}")
        columns = as_rows((y_true, y_pred, sensitive_features))
        columns, control, w = weighed_rows(columns, control_features, sample_weight)
        y, f, S = (np.asarray(column) for column in columns)
        if S.shape[1] != 1:
            raise ValueError(f"sensitive_features must be one column here, got {S.shape[1]}")
        options = {"replicates": replicates, "level": level}
        found, left_out = measured_groups(
            pairwise_fairness if "pf" in measures else _nothing,
            columns,
            control,
            w,
        )
        judge = partial(_dependence, measures, y, f, S[:, 0], w, options, random_state)
        everyone = judge(ControlGroup("all", np.arange(len(f))))
        return cls(everyone, tuple(judge(group) for group, _ in found), left_out)

    def difference(self, name: str) -> float:
        """Return by how much the greatest group value exceeds the least."""
        values = [float(group.values[name].estimate) for group in self.groups]
        return max(values) - min(values)

    def frame(self) -> "pd.DataFrame":
        """Return one row per group, all rows first; columns are (metric, estimate/low/high)."""
        import pandas as pd

        groups = (self.overall, *self.groups)
        columns: dict[tuple[str, str], list[Any]] = {("rows", ""): [group.rows for group in groups]}
        if self.overall.weight is not None:
            columns["weight", ""] = [group.weight for group in groups]
        for name in self.overall.values:
            for part in ("estimate", "low", "high"):
                columns[name, part] = [getattr(group.values[name], part) for group in groups]
        return pd.DataFrame(columns, index=pd.Index([group.label for group in groups]))


def _mean_prediction(y: Array, f: Array, *, sample_weight: Array | None = None) -> float:
    return float(weighted_mean(f, sample_weight))


def _nothing(*columns: Array, sample_weight: Array | None = None) -> float:
    """Stand in for a measure where groups are only to be told apart."""
    return 0.0


_METRICS: dict[str, Metric] = {
    "mean_prediction": _mean_prediction,
    "mean_excess": mean_excess,
    "mean_error": mean_error,
}


def _metrics(
    metrics: Mapping[str, Metric],
    y: Array,
    f: Array,
    w: Array | None,
    options: Mapping[str, Any],
    seed: int,
    group: ControlGroup,
) -> MeasuredGroup:
    """Return the metrics of a group's rows."""
    own = y[group.index], f[group.index]
    weights = None if w is None else w[group.index]
    values = {
        name: interval(
            metric, *own, rng=np.random.default_rng(seed), sample_weight=weights, **options
        )
        for name, metric in metrics.items()
    }
    return _measured(group, values, weights)


def _dependence(
    measures: tuple[str, ...],
    y: Array,
    f: Array,
    s: Array,
    w: Array | None,
    options: Mapping[str, Any],
    seed: int,
    group: ControlGroup,
) -> MeasuredGroup:
    """Return the measures of a group's rows."""
    own = y[group.index], f[group.index], s[group.index]
    weights = None if w is None else w[group.index]
    values = {}
    for name in measures:
        measure = MEASURES[name]
        values[name] = interval(
            measure,
            *measure.columns(*own),
            rng=np.random.default_rng(seed),
            sample_weight=weights,
            **options,
        )
    return _measured(group, values, weights)


def _measured(
    group: ControlGroup, values: Mapping[str, Interval], w: Array | None
) -> MeasuredGroup:
    """Return a group with its numbers, and how many rows its rows stand for."""
    weight = None if w is None else float(w.sum(axis=0))
    return MeasuredGroup(group.label, len(group.index), values, weight)

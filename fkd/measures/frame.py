"""Tables of metrics and measures by groups of rows, with intervals.

`MeasureFrame.by_quantiles` shows errors in quantile groups of the sensitive attribute.
`MeasureFrame.by_strata` shows measures of dependence within groups of control columns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import as_column, as_sensitive, require_length
from fkd.core.weights import weighted_mean
from fkd.measures.columns import drop_zero_weights, mean_absolute_error, mean_signed_error
from fkd.measures.groups import (
    ControlGroup,
    LeftOutStratum,
    as_rows,
    control_groups,
    drop_zero_weight_rows,
    measured_groups,
)
from fkd.measures.pairwise import pairwise_fairness
from fkd.measures.registry import MEASURES, REPORTED
from fkd.measures.resampling import FEWEST_ROWS, Interval, interval

if TYPE_CHECKING:  # pandas is optional
    import pandas as pd

Metric = Callable[..., float]


@dataclass(frozen=True)
class MeasuredGroup:
    """A group of rows with its values.

    Parameters
    ----------
    label
        Label of the group.
    rows
        Number of rows.
    values
        Intervals by name of the metric or measure.
    weight
        Sum of the weights. None without weights.

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
    """Metrics or measures of all rows and of each group, with intervals.

    It is created by `by_quantiles`, with groups of the sensitive attribute, or by `by_strata`, with
    measures of dependence within groups of control columns.

    Attributes
    ----------
    overall : MeasuredGroup
        All rows.
    groups : tuple of MeasuredGroup
        Groups in the order of their values.
    left_out : tuple of LeftOutStratum
        Groups on which the measures are undefined, with the reason.

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
            One column (n,). Up to ten distinct values are groups. More are cut at their quintiles.
        metrics
            Functions of (y_true, y_pred) by name. None is mean prediction, mean of prediction -
            target, and mean absolute error.
        replicates, level, random_state
            Number of subsamples, nominal coverage and seed of the intervals.
        sample_weight
            Weights (n,), >= 0, used for the quintiles and passed to the metrics as this keyword.
        """
        y, f = as_column(y_true, "y_true"), as_column(y_pred, "y_pred")
        require_length(y, len(f), "y_true")
        s = as_sensitive(sensitive_features, len(f))
        if s.shape[1] != 1:
            raise ValueError(f"sensitive_features must be one column here, got {s.shape[1]}")
        w, (y, f, s) = drop_zero_weights(sample_weight, y, f, s)
        options = {"replicates": replicates, "level": level}
        chosen = _METRICS if metrics is None else metrics
        measure_group = partial(_metrics, chosen, y, f, w, options, random_state)
        kept, left_out = [], []
        for group in control_groups(s[:, 0], len(f), w):
            if len(group.index) < FEWEST_ROWS:
                why = f"fewer than {FEWEST_ROWS} rows"
                left_out.append(LeftOutStratum(group.label, len(group.index), why))
            else:
                kept.append(measure_group(group))
        overall = measure_group(ControlGroup("all", np.arange(len(f))))
        return cls(overall, tuple(kept), tuple(left_out))

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
        """Return measures of dependence within each group of the control columns.

        Parameters
        ----------
        y_true, y_pred
            Target and predictions (n,).
        sensitive_features
            One column (n,).
        control_features
            One column (n,) or several (n, k), whose combinations are the groups. Text and up to ten
            distinct numbers are levels. More numbers are cut at their quintiles. Groups with fewer
            than 30 rows, or with a constant attribute, are left out.
        measures
            Names of declared measures.
        replicates, level, random_state
            Number of subsamples, nominal coverage and seed of the intervals.
        sample_weight
            Weights (n,), >= 0.
        """
        unknown = [name for name in measures if name not in MEASURES]
        if unknown or not measures:
            raise ValueError(f"measures must be of {', '.join(MEASURES)}, got {unknown or 'none'}")
        columns = as_rows((y_true, y_pred, sensitive_features))
        columns, control, w = drop_zero_weight_rows(columns, control_features, sample_weight)
        y, f, S = (np.asarray(column) for column in columns)
        if S.shape[1] != 1:
            raise ValueError(f"sensitive_features must be one column here, got {S.shape[1]}")
        options = {"replicates": replicates, "level": level}
        found, left_out = measured_groups(
            pairwise_fairness if "pf" in measures else _zero,
            columns,
            control,
            w,
        )
        measure_group = partial(_dependence, measures, y, f, S[:, 0], w, options, random_state)
        overall = measure_group(ControlGroup("all", np.arange(len(f))))
        return cls(overall, tuple(measure_group(group) for group, _ in found), left_out)

    def difference(self, name: str) -> float:
        """Return the difference between the largest and the smallest value of a group."""
        values = [float(group.values[name].estimate) for group in self.groups]
        return max(values) - min(values)

    def frame(self) -> "pd.DataFrame":
        """Return a data frame with one row per group, and columns (metric, estimate/low/high)."""
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


def _zero(*columns: Array, sample_weight: Array | None = None) -> float:
    """Return zero, as a measure that is defined on all groups."""
    return 0.0


_METRICS: dict[str, Metric] = {
    "mean_prediction": _mean_prediction,
    "mean_excess": mean_signed_error,
    "mean_error": mean_absolute_error,
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
    """Return the metrics on the rows of a group."""
    rows = y[group.index], f[group.index]
    weights = None if w is None else w[group.index]
    values = {
        name: interval(
            metric, *rows, rng=np.random.default_rng(seed), sample_weight=weights, **options
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
    """Return the measures on the rows of a group."""
    rows = y[group.index], f[group.index], s[group.index]
    weights = None if w is None else w[group.index]
    values = {}
    for name in measures:
        measure = MEASURES[name]
        values[name] = interval(
            measure,
            *measure.columns(*rows),
            rng=np.random.default_rng(seed),
            sample_weight=weights,
            **options,
        )
    return _measured(group, values, weights)


def _measured(
    group: ControlGroup, values: Mapping[str, Interval], w: Array | None
) -> MeasuredGroup:
    """Return a group with its values and the sum of its weights."""
    weight = None if w is None else float(w.sum(axis=0))
    return MeasuredGroup(group.label, len(group.index), values, weight)

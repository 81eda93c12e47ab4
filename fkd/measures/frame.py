"""Tables of metrics and measures by groups of rows, with intervals.

`MeasureFrame.by_quantiles` shows errors in quantile groups of the sensitive attribute.
`MeasureFrame.by_strata` shows measures of dependence within groups of control columns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import weight_vector
from fkd.core.weights import weighted_mean
from fkd.measures.columns import equal_columns, mean_absolute_error, mean_signed_error
from fkd.measures.groups import (
    ControlGroup,
    LeftOutStratum,
    control_groups,
    measured_groups,
    require_groups,
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
        f, y, s = equal_columns(y_pred=y_pred, y_true=y_true, sensitive_features=sensitive_features)
        w = weight_vector(sample_weight, len(f))
        chosen = _METRICS if metrics is None else metrics
        functions = {name: (metric, (y, f)) for name, metric in chosen.items()}
        groups, left_out = [], []
        for group in control_groups(s, len(s), w):
            if len(group.index) < FEWEST_ROWS:
                why = f"fewer than {FEWEST_ROWS} rows"
                left_out.append(LeftOutStratum(group.label, len(group.index), why))
            else:
                groups.append(group)
        options = {"replicates": replicates, "level": level}
        return cls(*_measured(functions, groups, len(s), w, random_state, options), tuple(left_out))

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
        f, y, s = equal_columns(y_pred=y_pred, y_true=y_true, sensitive_features=sensitive_features)
        w = weight_vector(sample_weight, len(f))
        # Pairwise fairness is the only measure that may be undefined on a group that varies in s.
        tried = pairwise_fairness if "pf" in measures else lambda *rows, sample_weight=None: 0.0
        found, left_out = measured_groups(tried, [y, f, s], control_features, w)
        require_groups(found, left_out)
        functions = {name: (MEASURES[name], MEASURES[name].columns(y, f, s)) for name in measures}
        groups, options = [group for group, _ in found], {"replicates": replicates, "level": level}
        return cls(*_measured(functions, groups, len(s), w, random_state, options), left_out)

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


_METRICS: dict[str, Metric] = {
    "mean_prediction": _mean_prediction,
    "mean_excess": mean_signed_error,
    "mean_error": mean_absolute_error,
}


def _measured(
    functions: Mapping[str, tuple[Callable[..., Any], Sequence[Array]]],
    groups: Sequence[ControlGroup],
    n: int,
    w: Array | None,
    seed: int,
    options: Mapping[str, Any],
) -> tuple[MeasuredGroup, tuple[MeasuredGroup, ...]]:
    """Return the interval of each function of its columns, on all rows and on each group."""
    everything = ControlGroup("all", np.arange(n) if w is None else np.flatnonzero(w))
    found = []
    for group in (everything, *groups):
        (group_w,) = group.rows(w)
        values = {
            name: interval(
                function,
                *group.rows(*columns),
                rng=np.random.default_rng(seed),
                sample_weight=group_w,
                **options,
            )
            for name, (function, columns) in functions.items()
        }
        weight = None if group_w is None else float(group_w.sum(axis=0))
        found.append(MeasuredGroup(group.label, len(group.index), values, weight))
    return found[0], tuple(found[1:])

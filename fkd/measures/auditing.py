"""Any model's predictions beside the truth along sensitive columns, with intervals."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_column, as_sensitive, require_length
from fkd.measures.audited_rows import POSITIVE, AuditedColumn, AuditedRows
from fkd.measures.bootstrap import Interval, bootstrap_interval, require_rows
from fkd.measures.columns import is_constant
from fkd.measures.group_means import GroupMeans
from fkd.measures.profiles import profile_of_pair
from fkd.measures.strata import LeftOutStratum


@dataclass(frozen=True)
class AuditedPair:
    """Means by thirds of two sensitive columns."""

    names: tuple[str, str]
    groups: tuple[GroupMeans, ...]
    left_out: tuple[LeftOutStratum, ...]


@dataclass(frozen=True)
class Audit:
    """What an audit found; `mae` and `error` (mean signed error) in the unit of the target."""

    rows: int
    mae: Interval
    error: Interval
    columns: tuple[AuditedColumn, ...]
    pairs: tuple[AuditedPair, ...]
    other_mae: Interval | None = None
    mae_change: Interval | None = None


def audit(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: Any,
    *,
    other: ArrayLike | None = None,
    control_features: Any = None,
    random_state: int = 0,
    replicates: int = 300,
    level: float = 0.95,
) -> Audit:
    """Return error, dependence and curves along every sensitive column, for any predictions.

    Parameters
    ----------
    y_true, y_pred
        Truth and prediction (n,), in the target's own unit.
    sensitive_features
        One column or several, (n,) or (n, l), each of more than two values; a data frame's columns
        keep their names.
    other
        Predictions of another model on the same rows: everything is then compared, row by row.
    control_features
        Legitimate columns, see `by_stratum`.
    random_state
        Seed of intervals, bands, noise floor.
    replicates
        Quarters of the rows per interval.
    level
        Of intervals and bands, in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(18, 80, size=200)
    >>> found = audit(age + rng.normal(size=200), 0.5 * age + 25, age, replicates=50)
    >>> (column,) = found.columns
    >>> bool(column.scores["hgr"].low > column.noise.upper)  # it leans on age, by more than noise
    True
    >>> error = column.profile.curves["error"]
    >>> bool(error.lowest[0] > 0 > error.highest[-1])  # too high for the young, too low for the old
    True
    """
    y, f = as_column(y_true, "y_true"), as_column(y_pred, "y_pred")
    require_length(y, len(f), "y_true")
    require_rows(len(f))
    g = None if other is None else as_column(other, "other")
    for name, column in (("y_pred", f), ("other", g)):
        if column is not None:
            require_length(column, len(f), name)
            _require_varied(column, name)
    S = as_sensitive(sensitive_features, len(f))
    names = _names(sensitive_features, S.shape[1])
    _require_values(S, names)
    rng = np.random.default_rng(random_state)
    auditor = AuditedRows(y, f, g, control_features, rng, replicates, level)
    mae = auditor.compared(_mae, y, bounds=POSITIVE)
    error = bootstrap_interval(_mean_difference, f, y, rng=rng, replicates=replicates, level=level)
    return Audit(
        len(f),
        mae.first,
        error,
        tuple(auditor.column(name, s) for name, s in zip(names, S.T, strict=True)),
        tuple(
            AuditedPair(
                (names[i], names[j]), *profile_of_pair(y, f, S[:, [i, j]], other=g, level=level)
            )
            for i, j in itertools.combinations(range(len(names)), 2)
        ),
        None if g is None else mae.second,
        None if g is None else mae.difference,
    )


def _mae(f: Array, y: Array) -> float:
    """Mean absolute error."""
    return float(np.abs(f - y).mean(axis=0))


def _mean_difference(f: Array, y: Array) -> float:
    """Mean signed error."""
    return float((f - y).mean(axis=0))


def _names(sensitive_features: Any, width: int) -> list[str]:
    """Return what the columns are called: their labels in a data frame, else numbers."""
    labels = getattr(sensitive_features, "columns", None)
    if labels is None and getattr(sensitive_features, "name", None) is not None:
        labels = [sensitive_features.name]
    return (
        [str(label) for label in labels] if labels is not None else [str(j) for j in range(width)]
    )


def _require_varied(column: Array, name: str) -> None:
    """Refuse predictions that tell no two rows apart."""
    if is_constant(column):
        raise ValueError(
            f"{name} must vary to be audited, got {len(column)} times {column[0]:g}: a constant "
            "depends on nothing; name the column that holds the predictions"
        )


def _require_values(S: Array, names: list[str]) -> None:
    """Refuse a column along which there is no curve."""
    for name, s in zip(names, S.T, strict=True):
        values = np.unique(s)
        if len(values) <= 2:
            told = " and ".join(f"{value:g}" for value in values)
            raise ValueError(
                f"sensitive_features column {name} must have more than two values to be followed "
                f"along, got {len(values)} ({told}); pass it as control_features (--group-by) "
                "beside another column, or compare its two groups by fairlearn's MetricFrame"
            )

"""Any model's predictions beside the truth along sensitive columns, with intervals."""

import itertools
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_column, as_sensitive, require_length
from fkd.core.cautions import FairnessWarning, caution
from fkd.core.sentinel_values import warn_sentinels
from fkd.measures.audited_rows import POSITIVE, AuditedColumn, AuditedRows
from fkd.measures.bootstrap import Interval, bootstrap_interval, require_rows
from fkd.measures.columns import is_constant
from fkd.measures.group_means import GroupMeans
from fkd.measures.mean_errors import mean_error, mean_excess
from fkd.measures.profiles import profile_of_pair
from fkd.measures.strata import LeftOutStratum, weighed_rows


@dataclass(frozen=True)
class AuditedPair:
    """Means by thirds of two sensitive columns."""

    names: tuple[str, str]
    groups: tuple[GroupMeans, ...]
    left_out: tuple[LeftOutStratum, ...]


@dataclass(frozen=True)
class Audit:
    """What an audit found, as `audit` returns it.

    Attributes
    ----------
    rows
        How many rows were audited.
    weight
        How many rows they stand for; None without weights.
    mae, error
        Mean absolute error and mean signed error (prediction minus target), in the unit of the
        target, each with its interval.
    columns
        What the predictions say of each sensitive column: `name`, `scores` (hgr, gdp and pf with
        their intervals), `noise` (HGR of independent columns of as many rows), `profile` (curves
        along the column); `other_scores` and `changes` with another model; `within`, `strata` and
        `left_out` with control columns.
    pairs
        For any two sensitive columns: `names`, `groups` (means by thirds of both) and `left_out`.
    other_mae, mae_change
        Mean absolute error of the other model, then that of the first minus that of the other on
        the same rows; None without another model.
    notes
        What the measures had to say of the rows, each also a `FairnessWarning`.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import audit
    >>> age = np.linspace(18, 80, 200)
    >>> found = audit(age, age + 5, age, replicates=50)
    >>> print(found.rows, round(found.mae.estimate, 6), round(found.error.estimate, 6))
    200 5.0 5.0
    """

    rows: int
    mae: Interval
    error: Interval
    columns: tuple[AuditedColumn, ...]
    pairs: tuple[AuditedPair, ...]
    other_mae: Interval | None = None
    mae_change: Interval | None = None
    weight: float | None = None
    notes: tuple[str, ...] = ()


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
    sample_weight: ArrayLike | None = None,
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
        Legitimate columns (n,) or (n, k): scores, and means by thirds of s, are then also taken
        within each of their groups of rows. Text and up to ten numbers are levels; more numbers
        are cut at their quintiles.
    random_state
        Seed of intervals, bands, noise floor.
    replicates
        How many random quarters of the rows each interval comes from.
    level
        Share of samples in which an interval, or a band, holds what it is for, in (0, 1).
    sample_weight
        How many rows each row stands for (n,), >= 0; rows of weight zero are left out. A weight of
        two gives the numbers of a row that is there twice, while intervals, bands and noise take it
        for the one row that it is. `fkd.measures.survey_weights` scales weights of another unit.

    Returns
    -------
    Audit
        Errors of all rows, then scores and curves of each sensitive column, then means of each
        pair of them.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import audit
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
    g = None if other is None else as_column(other, "other")
    if g is not None:
        require_length(g, len(f), "other")
    S = as_sensitive(sensitive_features, len(f))
    names = _names(sensitive_features, S.shape[1])
    (g, *rows), control, w = weighed_rows([g, y, f, S], control_features, sample_weight)
    y, f, S = (np.asarray(column) for column in rows)
    require_rows(len(f))
    for name, column in (("y_pred", f), ("other", g)):
        if column is not None:
            _require_varied(column, name)
    _require_values(S, names)
    rng = np.random.default_rng(random_state)
    auditor = AuditedRows(y, f, g, control, rng, replicates, level, w)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FairnessWarning)
        warn_sentinels("sensitive_features", S, names)
        warn_sentinels("y_true", y)
        found = _audited(auditor, S, names)
    # A page is made of the value alone, later; whoever called hears of it now.
    told = [one for one in caught if issubclass(one.category, FairnessWarning)]
    notes = tuple(dict.fromkeys(str(one.message) for one in told))
    for note in notes:
        caution(note)
    for one in caught:
        if one not in told:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return replace(found, notes=notes)


def _audited(rows: AuditedRows, S: Array, names: list[str]) -> Audit:
    """Return everything on rows that are fit to be audited."""
    y, f, g, w = rows.y, rows.f, rows.g, rows.w
    # Of an absolute error it does not matter which of the two comes first.
    mae = rows.compared(mean_error, y, bounds=POSITIVE)
    error = bootstrap_interval(
        mean_excess,
        y,
        f,
        rng=rows.rng,
        replicates=rows.replicates,
        level=rows.level,
        sample_weight=w,
    )
    return Audit(
        len(f),
        mae.first,
        error,
        tuple(rows.column(name, s) for name, s in zip(names, S.T, strict=True)),
        tuple(
            AuditedPair(
                (names[i], names[j]),
                *profile_of_pair(y, f, S[:, [i, j]], other=g, level=rows.level, sample_weight=w),
            )
            for i, j in itertools.combinations(range(len(names)), 2)
        ),
        None if g is None else mae.second,
        None if g is None else mae.difference,
        None if w is None else float(w.sum(axis=0)),
    )


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

"""What a fitted model says where it may not be what its user believes."""

import sys
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from fkd.core.arrays import AnyArray, Array, IntArray, Rows
from fkd.core.linalg import rank_cut, to_dense


class FairnessWarning(UserWarning):
    """A number came out, but it may not mean what the name of the model or measure promises.

    Examples
    --------
    >>> import warnings
    >>> from fkd import FairnessWarning
    >>> warnings.simplefilter("ignore", FairnessWarning)  # or "error", to stop at one
    >>> warnings.resetwarnings()
    """


def warn_user(text: str) -> None:
    """Warn the first caller outside this package and scikit-learn, which wraps some methods."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FairnessWarning, stacklevel=level)


def _is_inside(module: dict[str, Any]) -> bool:
    """Return whether a module's code is not the user's."""
    return str(module.get("__name__", "")).startswith(("fkd.", "sklearn."))


def positive(name: str, value: Any) -> float:
    """Return a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
    return float(value)


def finite(name: str, value: Any) -> float:
    """Return a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def whole(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Return an integer of at least `low`, at most `high`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    number = int(value)
    if number < low or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be {limits}, got {number}")
    return number


def boolean(name: str, value: Any) -> bool:
    """Return True or False; a word for either would always count as true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least zero."""
    if finite(name, value) < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return float(value)


def step_limit(name: str, value: Any) -> int:
    """Return a limit of steps: at least one, or -1 for none."""
    if value == -1 and not isinstance(value, bool):
        return -1
    return whole(name, value, low=1)


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """Return one of the options."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}")
    return value


# Squares of larger inputs, summed over a row, leave the range of float64.
LARGEST_INPUT = 1e150
# Squares and products of two such numbers stay far from overflow: what is measured.
LARGEST_MEASURED = 1e100
# Weights that count at all: squares of smaller ones vanish, sums beyond this are no longer exact.
LEAST_WEIGHT = 1e-100
LARGEST_WEIGHT = float(1 << 53)


def column_names(data: Any, width: int) -> list[str]:
    """Return how to speak of each column: its label in a data frame, else its number."""
    labels = getattr(data, "columns", None)
    if labels is None and getattr(data, "name", None) is not None:
        labels = [data.name]
    return (
        [repr(label) for label in labels] if labels is not None else [str(j) for j in range(width)]
    )


def real_matrix(name: str, data: Any) -> Array:
    """Return a finite float64 matrix with at least one row; a vector becomes one column."""
    refuse_masked(name, data)
    if issparse(data):
        raise ValueError(f"{name} must be dense, got a sparse matrix; pass its toarray()")
    A = data if hasattr(data, "ndim") else np.asarray(data)
    if A.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions, got {A.ndim}")
    values = np.asarray(A)
    values = values[:, None] if values.ndim == 1 else values
    if 0 in values.shape:
        raise ValueError(f"{name} must have at least one row and one column, got {values.shape}")
    names = column_names(data, values.shape[1])
    A = np.ascontiguousarray(_as_float(name, values, names))
    check_range(name, A, names)
    return A


def _as_float(name: str, values: AnyArray, names: Sequence[str]) -> Array:
    """Return the values as float64, naming the first column that holds something else."""
    if np.iscomplexobj(values):
        raise ValueError(f"{name} must hold real numbers. Complex data not supported")
    _refuse_dates(name, values, names)
    if values.dtype.kind in "biuf":
        return np.asarray(values, dtype=np.float64)
    columns = [
        _column_as_float(name, column, label) for column, label in zip(values.T, names, strict=True)
    ]
    return np.column_stack(columns)


def refuse_masked(name: str, data: Any) -> None:
    """Refuse masked values, which would lose their mask on the way."""
    if np.ma.is_masked(data):
        raise ValueError(f"{name} must not be masked, got masked values; fill or drop them")


def _refuse_dates(name: str, values: AnyArray, names: Sequence[str]) -> None:
    """Refuse dates or durations, whose missing values would become numbers."""
    dated = values.dtype.kind == "O" and any(
        isinstance(value, np.datetime64 | np.timedelta64) for value in values.flat
    )
    if dated or values.dtype.kind in "mM":
        raise ValueError(
            f"{name} must hold numbers, got dates or durations in column {names[0]}; count days "
            "or years from some date first"
        )


def _column_as_float(name: str, column: AnyArray, label: str) -> Array:
    """Return one column as float64."""
    _refuse_dates(f"{name} column {label}", column, [label])
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{name} column {label} must hold numbers, got one where: {error}; "
            "encode categories as numbers first, a discrete sensitive attribute by fkd.one_hot"
        ) from error


def check_range(name: str, A: AnyArray, names: Sequence[str]) -> None:
    """Refuse NaN, infinity or a magnitude whose square overflows, naming the column."""
    top = np.abs(A).max(axis=0)
    if not np.isfinite(top).all():
        j = int(np.flatnonzero(~np.isfinite(top))[0])
        kind = "NaN" if np.isnan(A[:, j]).any() else "inf"
        raise ValueError(f"{name} must be finite, got {kind} in column {names[j]}")
    if top.max() > LARGEST_INPUT:
        j = int(top.argmax())
        raise ValueError(
            f"{name} must not exceed {LARGEST_INPUT:g} in magnitude, "
            f"got {top[j]:g} in column {names[j]}; rescale it"
        )


def sensitive_matrix(sensitive_features: Any, n: int, *, vary: bool = True) -> Array:
    """Return S (n, l): the sensitive columns as a matrix, each of which must `vary`, or may not."""
    if sensitive_features is None:
        raise TypeError(
            "fit needs sensitive_features, the attribute(s) to remove: pass "
            "fit(..., sensitive_features=S); a pipeline or a search passes it on after "
            "sklearn.set_config(enable_metadata_routing=True)"
        )
    S = real_matrix("sensitive_features", sensitive_features)
    if len(S) != n:
        raise ValueError(f"sensitive_features must have one row per sample ({n}), got {len(S)}")
    spread, top = np.ptp(S, axis=0), np.abs(S).max(axis=0)
    for j, label in enumerate(column_names(sensitive_features, S.shape[1])):
        if vary and spread[j] <= rank_cut(n, float(top[j])):
            raise ValueError(
                f"sensitive_features column {label} must vary, got a constant over the "
                f"{n} sample{'s' if n > 1 else ''}; a constant carries nothing to remove"
            )
    return S


def target_vector(y: Any, n: int) -> Array:
    """Return y (n,) as finite float64."""
    y = y if y is None or hasattr(y, "shape") else np.asarray(y)
    shape: tuple[int, ...] = () if y is None else y.shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must be one target, 1d, for this estimator, got shape {shape}; fit one estimator "
            "per column, as sklearn.multioutput does, or use FairKernelRidge"
        )
    return target_matrix(y if y is None else column_or_1d(y, warn=True), n)


def target_matrix(y: Any, n: int) -> Array:
    """Return y (n,), or several targets (n, k), as finite float64."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    y = y if hasattr(y, "ndim") else np.asarray(y)
    values = real_matrix("y", y)
    if len(values) != n:
        raise ValueError(f"y must have one number per sample ({n}), got {len(values)}")
    return values[:, 0] if y.ndim == 1 else values


def class_codes(y: Any, n: int) -> tuple[AnyArray, IntArray]:
    """Return the classes in order, with the number of each row's class."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    refuse_masked("y", y)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    values = column_or_1d(y, warn=True)
    if len(values) != n:
        raise ValueError(f"y must have one class per sample ({n}), got {len(values)}")
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes to tell apart, got {len(classes)} class: "
            f"{classes[0]!r}"
        )
    return classes, codes


def check_numeric_columns(name: str, data: Any) -> None:
    """Refuse a table with a column that is no number, naming the column."""
    if hasattr(data, "iloc") and data.ndim == 2:
        columns = [data.iloc[:, j].to_numpy() for j in range(data.shape[1])]
    elif isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "OSUmM":
        columns = list(data.T)
    else:
        columns = []
    refuse_masked(name, data)
    for column, label in zip(columns, column_names(data, len(columns)), strict=True):
        if column.dtype.kind not in "biufc":
            _column_as_float(name, column, label)


def check_finite_result(name: str, values: AnyArray) -> None:
    """Refuse to hand out NaN or infinity."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"{name} must be finite, got NaN or infinity from rows whose values leave the range of "
            "float64 under this model; scale the inputs as those of the training rows"
        )


def as_numbers(values: ArrayLike, name: str) -> Array:
    """Return `values` as a finite float64 array of any shape, without copying where possible."""
    refuse_masked(name, values)
    try:
        raw = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name} must be a rectangular array, got rows of unequal length"
        ) from error
    if raw.dtype.kind not in "buif":
        raise ValueError(f"{name} must hold real numbers, got dtype {raw.dtype}; encode it first")
    numbers = raw.astype(np.float64, copy=False)
    # Written so that NaN fails it too.
    good = np.abs(numbers) <= LARGEST_MEASURED
    if not good.all():
        where = tuple(int(i) for i in np.argwhere(~good)[0])
        raise ValueError(
            f"{name} must be finite with magnitude at most {LARGEST_MEASURED:g}, "
            f"got {numbers[where]} at index {where}"
        )
    return numbers


def as_column(values: ArrayLike, name: str) -> Array:
    """Return `values` as a finite float64 vector of at least two rows."""
    column = as_numbers(values, name)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{name} must be one column, got shape {column.shape}")
    if len(column) < 2:
        raise ValueError(f"{name} must have at least two rows, got {len(column)}")
    return column


def as_sensitive(values: ArrayLike, n: int) -> Array:
    """Return the sensitive columns as a finite float64 matrix of `n` rows."""
    name = "sensitive_features"
    S = as_numbers(values, name)
    if S.ndim == 1:
        S = S[:, None]
    if S.ndim != 2 or S.shape[1] == 0:
        raise ValueError(f"{name} must be one column or a table of columns, got shape {S.shape}")
    require_length(S, n, name)
    return S


def require_length(values: Array, n: int, name: str) -> None:
    """Raise unless `values` has `n` rows."""
    if len(values) != n:
        raise ValueError(f"{name} must have one row per prediction ({n}), got {len(values)}")


def weight_vector(sample_weight: Any, n: int) -> Array | None:
    """Return how many rows each of n rows stands for, (n,), or None where each is one."""
    if sample_weight is None:
        return None
    refuse_masked("sample_weight", sample_weight)
    raw = np.asarray(sample_weight)
    if raw.dtype.kind not in "buif":
        raise ValueError(
            f"sample_weight must hold numbers, got dtype {raw.dtype}; convert the column first"
        )
    w = np.asarray(raw, dtype=np.float64)
    w = w[:, 0] if w.ndim == 2 and w.shape[1] == 1 else w
    if w.shape != (n,):
        raise ValueError(
            f"sample_weight must be one number per row ({n}), got shape {raw.shape}; take the "
            "weights of the same rows"
        )
    # Written so that NaN is wrong too.
    wrong = np.flatnonzero(~((w == 0) | ((w >= LEAST_WEIGHT) & (w <= LARGEST_WEIGHT))))
    if len(wrong):
        raise ValueError(
            f"sample_weight must be 0 or lie between {LEAST_WEIGHT:g} and {LARGEST_WEIGHT:.0g}, "
            f"got {w[wrong[0]]:g} in row {wrong[0]}; drop such rows or give them weight 0"
        )
    if not 0 < w.sum(axis=0) <= LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight must have a sum above zero and up to {LARGEST_WEIGHT:.0g}, got "
            f"{w.sum(axis=0):g}; give some row a weight, or scale them"
        )
    return w


def validate_rows(estimator: Any, X: Any, *, reset: bool, sparse: bool = False) -> Rows:
    """Return X as checked float64 rows; `reset` learns the columns, else they must agree.

    Parameters
    ----------
    estimator, X, reset
        Whose rows they are.
    sparse
        Whether sparse rows may stay so; else they become dense, as far as memory allows.
    """
    if issparse(X):
        checked = validate_data(
            estimator, X, accept_sparse="csr", ensure_all_finite=False, reset=reset
        )
        rows = _canonical(csr_array(checked, dtype=np.float64))
        _check_sparse_range(rows, X)
        return rows if sparse else to_dense(rows)
    check_numeric_columns("X", X)
    # One memory order, so that a data frame gives the same bits as its array.
    A = validate_data(
        estimator, X, dtype=np.float64, order="C", ensure_all_finite=False, reset=reset
    )
    check_range("X", A, column_names(X, A.shape[1]))
    return np.asarray(A)


def _canonical(rows: csr_array) -> csr_array:
    """Return rows without entries that stand twice, whose sum alone is a value."""
    if rows.has_canonical_format:
        return rows
    rows = rows.copy()  # it may be the caller's
    rows.sum_duplicates()
    return rows


def _check_sparse_range(rows: csr_array, X: Any) -> None:
    """Refuse what `check_range` refuses, from the entries alone."""
    # Written so that NaN fails it too.
    good = np.abs(rows.data) <= LARGEST_INPUT
    if not good.all():
        j = int(rows.indices[~good].min())
        check_range("X", rows[:, [j]].toarray(), [column_names(X, rows.shape[1])[j]])

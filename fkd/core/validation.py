"""Validation of parameters, inputs and results, and the warning of the package.

Every error names the parameter, the rule, the value received and, if it is not obvious, the remedy.
"""

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
from fkd.core.kernels import stays_sparse
from fkd.core.linalg import rank_cut, to_dense

# The sum of squares of larger inputs in a row can overflow.
LARGEST_INPUT = 1e150
# Limit of measured values, so that products of two squares do not overflow.
LARGEST_MEASURED = 1e100
# Squares of smaller positive weights underflow, larger sums of weights are not exact.
LEAST_WEIGHT = 1e-100
LARGEST_WEIGHT = float(1 << 53)


class FairnessWarning(UserWarning):
    """A result that may not mean what the name of the model or measure suggests.

    Examples
    --------
    >>> import warnings
    >>> from fkd import FairnessWarning
    >>> warnings.simplefilter("ignore", FairnessWarning)  # or "error", to stop at one
    >>> warnings.resetwarnings()
    """


def warn_user(text: str) -> None:
    """Issue a FairnessWarning at the first caller outside fkd and scikit-learn."""
    level, frame = 2, sys._getframe(1)
    inside = ("fkd.", "sklearn.")
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(inside):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FairnessWarning, stacklevel=level)


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
    """Return a bool; other values are refused, since any text would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least zero."""
    if finite(name, value) < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return float(value)


def step_limit(name: str, value: Any) -> int:
    """Return a limit of iterations, at least 1, or -1 for no limit."""
    if value == -1 and not isinstance(value, bool):
        return -1
    return whole(name, value, low=1)


def sequence(name: str, values: Any) -> list[Any]:
    """Return the values of a sequence or array, at least one."""
    if values is None or isinstance(values, str) or np.ndim(values) != 1 or not len(values):
        raise ValueError(
            f"{name} must be a list or array of at least one value, got {values!r}. Pass [value] "
            "for one"
        )
    return list(values)


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """Return one of the options."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}")
    return value


def column_labels(data: Any, width: int) -> list[Any]:
    """Return the label of each column of a data frame or series, else its number."""
    labels = getattr(data, "columns", None)
    if labels is None and getattr(data, "name", None) is not None:
        labels = [data.name]
    return list(range(width) if labels is None else labels)


def column_names(data: Any, width: int) -> list[str]:
    """Return the name of each column for messages."""
    return [repr(label) for label in column_labels(data, width)]


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or pandas.NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # the truth value of pandas.NA is undefined
        return True


def real_matrix(name: str, data: Any) -> Array:
    """Return a finite float64 matrix with at least one row; a vector becomes one column."""
    refuse_masked(name, data)
    if issparse(data):
        raise ValueError(f"{name} must be dense, got a sparse matrix. Pass its toarray()")
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
    """Return the values as float64; the error names the first column that is not numeric."""
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
    """Raise for masked values, whose mask would be lost in conversion."""
    if np.ma.is_masked(data):
        raise ValueError(f"{name} must not be masked, got masked values. Fill or drop them")


def _refuse_dates(name: str, values: AnyArray, names: Sequence[str]) -> None:
    """Raise for dates and durations, whose missing values would become numbers."""
    dated = values.dtype.kind == "O" and any(
        isinstance(value, np.datetime64 | np.timedelta64) for value in values.flat
    )
    if dated or values.dtype.kind in "mM":
        raise ValueError(
            f"{name} must hold numbers, got dates or durations in column {names[0]}. Convert them "
            "to days or years first"
        )


def _column_as_float(name: str, column: AnyArray, label: str) -> Array:
    """Return one column as float64."""
    _refuse_dates(f"{name} column {label}", column, [label])
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{name} column {label} must hold numbers: {error}. "
            "Encode categories as numbers first, a discrete sensitive attribute by fkd.one_hot"
        ) from error


def check_range(name: str, A: AnyArray, names: Sequence[str]) -> None:
    """Raise for NaN, infinity or a magnitude whose square overflows; the error names the column."""
    top = np.abs(A).max(axis=0)
    if not np.isfinite(top).all():
        j = int(np.flatnonzero(~np.isfinite(top))[0])
        kind = "NaN" if np.isnan(A[:, j]).any() else "inf"
        raise ValueError(f"{name} must be finite, got {kind} in column {names[j]}")
    if top.max() > LARGEST_INPUT:
        j = int(top.argmax())
        raise ValueError(
            f"{name} must not exceed {LARGEST_INPUT:g} in magnitude, "
            f"got {top[j]:g} in column {names[j]}. Rescale it"
        )


def sensitive_matrix(sensitive_features: Any, n: int, *, vary: bool = True) -> Array:
    """Return the sensitive columns as a matrix S (n, l). With `vary` no column may be constant."""
    if sensitive_features is None:
        raise TypeError(
            "fit needs sensitive_features, the attributes to remove. Pass "
            "fit(..., sensitive_features=S). Pipelines and searches pass it on after "
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
                f"{n} sample{'s' if n > 1 else ''}. There is nothing to remove"
            )
    return S


def target_vector(y: Any, n: int) -> Array:
    """Return y (n,) as finite float64."""
    y = y if y is None or hasattr(y, "shape") else np.asarray(y)
    shape: tuple[int, ...] = () if y is None else y.shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must be one target, 1d, for this estimator, got shape {shape}. Fit one estimator "
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
    """Return the sorted classes and the index of each row's class."""
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
            f"y must hold at least two classes, got {len(classes)} class: {classes[0]!r}"
        )
    return classes, codes


def check_numeric_columns(name: str, data: Any) -> None:
    """Raise for a table with a column that is not numeric; the error names the column."""
    if hasattr(data, "iloc") and data.ndim == 2:
        _refuse_missing(name, data)
        columns = [data.iloc[:, j].to_numpy() for j in range(data.shape[1])]
    elif isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.kind in "OSUmM":
        columns = list(data.T)
    else:
        columns = []
    refuse_masked(name, data)
    for column, label in zip(columns, column_names(data, len(columns)), strict=True):
        if column.dtype.kind not in "biufc":
            _column_as_float(name, column, label)


def _refuse_missing(name: str, frame: Any) -> None:
    """Raise for missing values in columns of pandas' own types, which cannot become NaN."""
    for j, dtype in enumerate(frame.dtypes):
        if dtype.kind == "O" and frame.iloc[:, j].isna().any():
            raise ValueError(
                f"{name} must be finite, got NaN in column {frame.columns[j]!r}. Fill missing "
                "values or drop the rows"
            )


def check_finite_result(name: str, values: AnyArray) -> None:
    """Raise if a result contains NaN or infinity."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"{name} must be finite, got NaN or infinity: values overflow float64 under this "
            "model. Scale the inputs like those of the training rows"
        )


def as_numbers(values: ArrayLike, name: str) -> Array:
    """Return `values` as a finite float64 array of any shape, without a copy if possible."""
    refuse_masked(name, values)
    try:
        raw = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name} must be a rectangular array, got rows of unequal length"
        ) from error
    if raw.dtype.kind not in "buif":
        raise ValueError(f"{name} must hold real numbers, got dtype {raw.dtype}. Encode it first")
    numbers = raw.astype(np.float64, copy=False)
    # False for NaN too.
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
    """Return the weights of n rows, (n,), or None if there are none."""
    if sample_weight is None:
        return None
    refuse_masked("sample_weight", sample_weight)
    raw = np.asarray(sample_weight)
    if raw.dtype.kind not in "buif":
        raise ValueError(
            f"sample_weight must hold numbers, got dtype {raw.dtype}. Convert the column first"
        )
    w = np.asarray(raw, dtype=np.float64)
    w = w[:, 0] if w.ndim == 2 and w.shape[1] == 1 else w
    if w.shape != (n,):
        raise ValueError(
            f"sample_weight must be one number per row ({n}), got shape {raw.shape}. Pass the "
            "weights of the same rows"
        )
    # True for NaN too.
    wrong = np.flatnonzero(~((w == 0) | ((w >= LEAST_WEIGHT) & (w <= LARGEST_WEIGHT))))
    if len(wrong):
        raise ValueError(
            f"sample_weight must be 0 or lie between {LEAST_WEIGHT:g} and {LARGEST_WEIGHT:.0g}, "
            f"got {w[wrong[0]]:g} in row {wrong[0]}. Drop such rows or give them weight 0"
        )
    if not 0 < w.sum(axis=0) <= LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight must have a sum above zero and up to {LARGEST_WEIGHT:.0g}, got "
            f"{w.sum(axis=0):g}. Give some row a weight, or scale the weights"
        )
    return w


def validate_rows(estimator: Any, X: Any, *, reset: bool) -> Rows:
    """Return X as validated float64 rows of an estimator.

    Sparse rows stay sparse if the kernel of the estimator takes them. Otherwise they become dense,
    up to a limit of memory.

    Parameters
    ----------
    estimator, X
        Estimator, rows: an array, a sparse matrix or a data frame.
    reset
        Learn number and names of the columns; otherwise they must agree with the learned ones.
    """
    kernel, rows = getattr(estimator, "kernel", None), X
    if issparse(X):
        checked = validate_data(
            estimator, X, accept_sparse="csr", ensure_all_finite=False, reset=reset
        )
        rows = csr_array(checked, dtype=np.float64)
        if not rows.has_canonical_format:
            rows = rows.copy()  # it may belong to the caller
            rows.sum_duplicates()
        _check_sparse_range(rows, X)
        if kernel is None or not stays_sparse(kernel, estimator.approximation):
            rows = to_dense(rows)
    else:
        check_numeric_columns("X", X)
        # One memory order, so that a data frame gives bitwise the same results as its array.
        rows = validate_data(
            estimator, X, dtype=np.float64, order="C", ensure_all_finite=False, reset=reset
        )
        check_range("X", rows, column_names(X, rows.shape[1]))
    if reset and kernel == "precomputed" and rows.shape[0] != rows.shape[1]:
        raise ValueError(
            f"X must be a square matrix if kernel='precomputed', got shape {rows.shape}. Pass "
            "the kernel of the training rows against themselves"
        )
    checked_rows: Rows = rows
    return checked_rows


def _check_sparse_range(rows: csr_array, X: Any) -> None:
    """Apply `check_range` to the entries of sparse rows."""
    # False for NaN too.
    good = np.abs(rows.data) <= LARGEST_INPUT
    if not good.all():
        j = int(rows.indices[~good].min())
        check_range("X", rows[:, [j]].toarray(), [column_names(X, rows.shape[1])[j]])

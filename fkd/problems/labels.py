"""One spelling for each category label or number of a raw column."""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fkd.core.arrays import Array, IntArray

if TYPE_CHECKING:
    import pandas as pd

MISSING = ""
# Optional sign, leading zeros, digits, a fraction of zeros: a whole number however it was written.
_WHOLE = re.compile(r"([+-]?)0*(\d+)(?:\.0*)?")


def canonical_label(value: object) -> str:
    """Return the label of a raw value: 1, 1.0, "1", "01" are all "1", missing is "".

    Census files pad codes with zeros, readers turn them into integers, a column with a missing
    value into floats, JSON into any of these; the label must not depend on the road.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    return _spelling(str(value))


@lru_cache(maxsize=2**16)
def _spelling(raw: str) -> str:
    """Return the one spelling of a text."""
    text = raw.strip()
    match = _WHOLE.fullmatch(text)
    if match:
        sign, digits = match.groups()
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    return text.lower() if text.lower() in ("true", "false") else text


def labels_of(column: "pd.Series[Any]") -> tuple[IntArray, tuple[str, ...]]:
    """Return codes, -1 for missing, into the sorted labels of a raw column."""
    import pandas as pd

    # Spelling is canonised once per distinct value, not once per row.
    places, values = pd.factorize(column, use_na_sentinel=True)
    return code_labels(places, [canonical_label(value) for value in values])


def code_labels(places: IntArray, labels: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Return codes into the sorted distinct labels; `MISSING` gets no code but -1.

    Parameters
    ----------
    places
        Position in `labels` of each row, -1 for missing.
    labels
        Canonical labels, which may repeat: two spellings of one value share a label.
    """
    distinct = sorted(set(labels) - {MISSING}, key=_order)
    position = {label: place for place, label in enumerate(distinct)}
    # The last entry serves places of -1.
    lookup = np.array([position.get(label, -1) for label in [*labels, MISSING]], dtype=np.int32)
    return lookup[places], tuple(distinct)


def numbers_of(column: "pd.Series[Any]", *, name: str, may_lack: bool) -> Array:
    """Return a raw column as finite floats, NaN where a value is missing.

    Parameters
    ----------
    column
        Raw values, numbers as text included.
    name
        The column's name, for the error.
    may_lack
        Whether a value may be missing.
    """
    import pandas as pd  # not needed by those who only read tables

    try:
        numbers = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name} must hold numbers, {error}") from error
    bad = int((np.isinf(numbers) if may_lack else ~np.isfinite(numbers)).sum(axis=0))
    if bad:
        raise ValueError(f"column {name} must hold finite numbers, got {bad} missing or infinite")
    return numbers


@lru_cache(maxsize=2**16)
def _order(label: str) -> tuple[bool, float, str]:
    """Sort whole numbers by value, before other text."""
    whole = _WHOLE.fullmatch(label) is not None
    return (not whole, float(label) if whole else 0.0, label)

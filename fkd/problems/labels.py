"""Category labels in one spelling, and their codes."""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fkd.core.arrays import IntArray

if TYPE_CHECKING:
    import pandas as pd

# The label of a missing value.
MISSING = ""
# Optional sign, leading zeros, digits, a fraction of zeros: an integer in any spelling.
_INTEGER = re.compile(r"([+-]?)0*(\d+)(?:\.0*)?")


def canonical_label(value: object) -> str:
    """Return the label of a raw value: "1" for 1, 1.0, "1" and "01", "" for a missing value.

    Census files pad codes with zeros, readers turn them into integers, or into floats if a value is
    missing, and JSON into any of these. All spellings must give the same label.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    return _spelling(str(value))


@lru_cache(maxsize=2**16)
def _spelling(raw: str) -> str:
    text = raw.strip()
    if match := _INTEGER.fullmatch(text):
        sign, digits = match.groups()
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    return text.lower() if text.lower() in ("true", "false") else text


def factorize_labels(column: "pd.Series[Any]") -> tuple[IntArray, tuple[str, ...]]:
    """Return codes, -1 for missing, and the sorted labels of a raw column."""
    import pandas as pd

    # Once per distinct value, not once per row.
    places, values = pd.factorize(column, use_na_sentinel=True)
    return encode_labels(places, [canonical_label(value) for value in values])


def encode_labels(places: IntArray, labels: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Return codes, -1 for missing, and the sorted distinct labels.

    Parameters
    ----------
    places
        Position in `labels` of each row, -1 for missing.
    labels
        Canonical labels. They may repeat; `MISSING` gets the code -1.
    """
    distinct = sorted(set(labels) - {MISSING}, key=_order)
    position = {label: place for place, label in enumerate(distinct)}
    # The last entry is the code of places that are -1.
    lookup = np.array([position.get(label, -1) for label in [*labels, MISSING]], dtype=np.int32)
    return lookup[places], tuple(distinct)


@lru_cache(maxsize=2**16)
def _order(label: str) -> tuple[bool, float, str]:
    """Return the sort key of a label: integers by value, then other text."""
    integer = _INTEGER.fullmatch(label) is not None
    return (not integer, float(label) if integer else 0.0, label)

"""Checks of single parameters, so that a wrong one meets a sentence that names it."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np


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


def truth(name: str, value: Any) -> bool:
    """Return True or False; a word for either would always count as true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least zero."""
    if finite(name, value) < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return float(value)


def steps(name: str, value: Any) -> int:
    """Return a limit of steps: at least one, or -1 for none."""
    if value == -1 and not isinstance(value, bool):
        return -1
    return whole(name, value, low=1)


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """Return one of the options."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}")
    return value

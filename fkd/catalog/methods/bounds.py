"""Dataclass fields of method parameters, with the values that a configuration accepts."""

from dataclasses import field
from typing import Any


def number(
    default: float,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Any:
    """Return a dataclass field for a bounded number; configs turn the bounds into validation."""
    bounds = {"gt": above, "ge": at_least, "le": at_most}
    return field(default=default, metadata={k: v for k, v in bounds.items() if v is not None})


def option(default: Any, **metadata: Any) -> Any:
    """Return a dataclass field with bounds or choices that configs turn into validation."""
    return field(default=default, metadata=metadata)

"""Fields of parameters, with what a configuration may set them to."""

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


def later(default: Any, **metadata: Any) -> Any:
    """Return a field that a method got after its first numbers were stored.

    Where it has its default it is left out of descriptions, so that trials from before it keep
    their keys.
    """
    return field(default=default, metadata={**metadata, "later": True})

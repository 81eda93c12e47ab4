"""What a fitted model says where it may not be what its user believes."""

import sys
import warnings


class FairnessWarning(UserWarning):
    """A number came out, but it may not mean what the name of the model or measure promises."""


def caution(text: str) -> None:
    """Warn the first caller outside this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("fkd."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FairnessWarning, stacklevel=level)

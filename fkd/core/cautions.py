"""What a fitted model says where it may not be what its user believes."""

import sys
import warnings
from typing import Any


class FairnessWarning(UserWarning):
    """A number came out, but it may not mean what the name of the model or measure promises.

    Examples
    --------
    >>> import warnings
    >>> from fkd import FairnessWarning
    >>> warnings.simplefilter("ignore", FairnessWarning)  # or "error", to stop at one
    >>> warnings.resetwarnings()
    """


def caution(text: str) -> None:
    """Warn the first caller outside this package and scikit-learn, which wraps some methods."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FairnessWarning, stacklevel=level)


def _is_inside(module: dict[str, Any]) -> bool:
    """Return whether a module's code is not the user's."""
    return str(module.get("__name__", "")).startswith(("fkd.", "sklearn."))

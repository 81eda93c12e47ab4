"""Docstrings on their way into the reference."""

import re
from typing import Any

import fkd
import fkd.measures

# Parts of a line that are markup already: code, roles, footnotes, the sections' underlines.
_MARKUP = re.compile(r"(:[a-z:]+:`[^`]+`|``[^`]+``|`[^`]+`_?|\[\w+\]_|^\s*>>>.*|^\s*\.\. .*)")
_SPECIAL = re.compile(r"(\||\*+(?=\w)|(?<=\w)_(?!\w))")


def as_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape in place what reStructuredText would take for markup, outside of markup.

    |w|² is a norm and no substitution, `held_out_` a name and no link, *args two words.
    """
    lines[:] = [_escaped(line) for line in lines]


def _escaped(line: str) -> str:
    """Return a line whose words mean themselves; `names` become code."""
    parts = _MARKUP.split(line)
    parts[::2] = [_SPECIAL.sub(r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [re.sub(r"^`([^`]+)`$", r"``\1``", part) for part in parts[1::2]]
    return "".join(parts)


def is_elsewhere(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn documents, and what has a page of its own."""
    if str(getattr(obj, "__module__", "")).startswith("sklearn") or name.endswith("_request"):
        return True
    own = [getattr(place, n) for place in (fkd, fkd.measures) for n in place.__all__]
    return True if what == "module" and any(obj is o for o in own) else None

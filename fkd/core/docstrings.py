"""Entries of docstrings that several public classes share."""

import re
from inspect import cleandoc
from typing import TypeVar

T = TypeVar("T", bound=type)


def fill_docstring(described: T) -> T:
    """Replace each line ``{heading}`` of a class docstring by an entry of a base class (decorator).

    An entry is a parameter or an attribute with its indented description. Its heading is the line
    of the name, or of several names, without the type.
    """
    if described.__doc__:  # python -OO has none
        entries = {
            heading.split(" : ")[0]: f"{heading}\n{description.rstrip()}"
            for base in reversed(described.__mro__[1:])
            for heading, description in _ENTRY.findall(cleandoc(base.__doc__ or ""))
        }
        text = cleandoc(described.__doc__)
        described.__doc__ = re.sub(r"(?m)^\{(.+)\}$", lambda found: entries[found[1]], text)
    return described


# A line without indentation, followed by indented lines.
_ENTRY = re.compile(r"(?m)^(\S.*)\n((?:[ ]{4}.*(?:\n|\Z))+)")

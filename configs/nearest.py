"""The valid name that a misspelt one probably meant."""

import difflib
from collections.abc import Iterable


def check_name(name: str, valid: Iterable[str], *, key: str) -> str:
    """Return the name if it is valid; otherwise raise ValueError with the nearest valid one.

    Parameters
    ----------
    name
        What the user wrote.
    valid
        The names that may stand there.
    key
        Where it stands, as a path of keys.
    """
    choices = list(valid)
    if name in choices:
        return name
    # Wrong capitals are the commonest slip, so they must not count as distance.
    folded = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    hint = f"; the nearest is {folded[near[0]]!r}" if near else ""
    listed = ", ".join(choices[:12]) + (", ..." if len(choices) > 12 else "")
    raise ValueError(f"{key} must be one of {listed}, got {name!r}{hint}")

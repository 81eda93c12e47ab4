"""Errors for users, and the nearest valid name of a misspelt one."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """An error that the user can correct. The message names parameter, rule, value and remedy."""

    exit_code = 2


# Keys of earlier versions with their present names.
RENAMED = {
    "mu": "penalty",
    "mu_scale": "penalty_scale",
    "kind": "cluster_class",
    "adapt": "adapt_kwargs",
    "memory_limit": "cluster_kwargs",
    "slurm": "cluster_kwargs",
    "kubernetes": "cluster_kwargs",
}


def check_name(name: str, valid: Iterable[str], *, key: str) -> str:
    """Return the name if it is valid, or raise a ValueError with the nearest valid name.

    Parameters
    ----------
    name
        Name that the user wrote.
    valid
        Valid names.
    key
        Its path of keys, for the message.
    """
    choices = list(valid)
    if name in choices:
        return name
    # Differences of case do not count.
    folded = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), folded, n=5, cutoff=0.5)
    # Among similar names, the one with the fewest typing errors.
    meant = min(near, key=lambda choice: _slips(name.lower(), choice), default=None)
    hint = f"; the nearest is {folded[meant]!r}" if meant else ""
    if RENAMED.get(name) in choices:
        hint = f". It is now called {RENAMED[name]!r}"
    listed = ", ".join(choices[:12]) + (", ..." if len(choices) > 12 else "")
    raise ValueError(f"{key} must be one of {listed}, got {name!r}{hint}")


def _slips(a: str, b: str) -> int:
    """Return the edit distance with swaps of neighbours."""
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        row = [i]
        for j in range(1, len(b) + 1):
            mistaken = last[j - 1] + (a[i - 1] != b[j - 1])
            found = min(last[j] + 1, row[j - 1] + 1, mistaken)
            if before and j > 1 and a[i - 2 : i] == b[j - 1] + b[j - 2]:
                found = min(found, before[j - 2] + 1)
            row.append(found)
        before, last = last, row
    return last[-1]


class UnreadableTableError(FileNotFoundError):
    """A process cannot read the prepared table."""

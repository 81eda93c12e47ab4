"""Several runs from one file: every combination of values at some paths."""

import hashlib
import itertools
import re
from collections.abc import Iterable
from typing import Any

from configs.errors import UserError
from configs.overrides import read_assignment, set_path

_LONGEST = 40  # characters that one value adds to a name; all states at once would be too many


def add_axes(tree: dict[str, Any], over: Iterable[str]) -> dict[str, Any]:
    """Return the tree with further axes of its sweep, each as `path=[value, value]`."""
    axes = tree.get("sweep") or {}
    for text in over:
        path, values = read_assignment(text, "--over", "data.year='[2017, 2018]'")
        if not isinstance(values, list) or not values:
            raise UserError(
                f"--over {path} must be a list of at least one value, got {values!r}. "
                f"For example --over {path}='[{values or 1}]'."
            )
        if path in axes:
            raise UserError(
                f"--over {path} is given twice, on the command line or under sweep. "
                "Put all its values into one list."
            )
        axes = {**axes, path: values}
    return {**tree, "sweep": axes} if axes else tree


def expand(tree: dict[str, Any], source: str) -> list[dict[str, Any]]:
    """Return one tree per combination of the values under `sweep`, or the tree itself.

    `sweep: {data.states: [[MT], [ID]], data.year: [2018, 2019]}` makes four runs, named after
    the values that tell them apart.
    """
    plain = {key: value for key, value in tree.items() if key != "sweep"}
    axes = tree.get("sweep")
    if axes is None:
        return [plain]
    if not isinstance(axes, dict) or not all(isinstance(v, list) and v for v in axes.values()):
        raise UserError(
            f"{source}: sweep must map paths to lists of values, such as "
            f"{{data.states: [[MT], [ID]]}}, got {axes!r}."
        )
    name = str(plain.get("name", "run"))
    found = []
    for values in itertools.product(*axes.values()):
        run = plain
        for path, value in zip(axes, values, strict=True):
            run = set_path(run, path, value)
        found.append({**run, "name": "-".join([name, *map(_slug, values)])})
    if len({run["name"] for run in found}) < len(found):
        raise UserError(f"{source}: the values of sweep must differ, got {axes!r}.")
    return found


def _slug(value: Any) -> str:
    """Return a value as a part of a name: letters, digits, dots."""
    if isinstance(value, dict):
        value = list(value.values())
    words = value if isinstance(value, list) else [value]
    text = "_".join(_slug(word) if isinstance(word, dict | list) else str(word) for word in words)
    plain = re.sub(r"[^A-Za-z0-9.]+", "_", text).strip("_.") or "none"
    if len(plain) <= _LONGEST:
        return plain
    return f"{plain[: _LONGEST - 9]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"

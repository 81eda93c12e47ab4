"""`--set path.to.key=value` on a plain configuration tree."""

from collections.abc import Iterable
from typing import Any

import yaml

from configs.errors import UserError

_SEPARATORS = (",", ";", "|", "\t")


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return a copy of the tree with each `path=value` set; values are read as YAML."""
    overrides = tuple(overrides)
    kind_is_said = any(_path(text) in ("cluster", "cluster.kind") for text in overrides)
    for text in overrides:
        path, value = read_assignment(text, "--set", "folds.k=10")
        tree = set_path(tree, path, value)
        if path == "cluster.address" and not kind_is_said:
            # An address alone says which kind is meant, whatever the file says.
            tree = {**tree, "cluster": {k: v for k, v in tree["cluster"].items() if k != "kind"}}
    return tree


def read_assignment(text: str, option: str, example: str) -> tuple[str, Any]:
    """Return the path and the value of `path=value`, as an option of the command line has them."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UserError(
            f"{option} takes path.to.key=value, got {text!r}; for example {option} {example}."
        )
    try:
        # A bare separator is no YAML value, or another one than it looks like.
        return path.strip(), value if value in _SEPARATORS else yaml.safe_load(value)
    except yaml.YAMLError as error:
        cause = " ".join(str(error).split())
        raise UserError(f"{option} {path}: {value!r} is not a YAML value ({cause}).") from error


def _path(override: str) -> str:
    return override.partition("=")[0].strip()


def set_path(tree: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of the tree with the value at a dotted path."""
    changed: dict[str, Any] = _set(tree, path.split("."), value, path)
    return changed


def _set(node: Any, keys: list[str], value: Any, path: str) -> Any:
    """Return the node with the value at keys, sharing what is not on the way."""
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(node, list):
        if not key.isdigit() or int(key) >= len(node):
            raise UserError(
                f"--set {path}: {key!r} must be a position below {len(node)} in that list."
            )
        index = int(key)
        entry = node[index]
        # A bare method name becomes an entry before a parameter is set on it.
        entry = {"name": entry} if isinstance(entry, str) and rest else entry
        return [*node[:index], _set(entry, rest, value, path), *node[index + 1 :]]
    if node is not None and not isinstance(node, dict):
        raise UserError(f"--set {path}: {node!r} has no keys, so {key!r} cannot be set in it.")
    tree: dict[str, Any] = dict(node or {})
    tree[key] = _set(tree.get(key), rest, value, path)
    return tree

"""Load configurations from YAML: overrides, sweeps, errors with the nearest valid key."""

import hashlib
import itertools
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError

from configs.data import Frozen
from configs.errors import UserError, check_name
from configs.hooks import HooksConfig, mask_addresses
from configs.methods import ENTRY_KEYS, parameters_model
from configs.run import RunConfig
from fkd.methods import methods

_SEPARATORS = (",", ";", "|", "\t")


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return a copy of the tree with each `path=value` set. Values are read as YAML."""
    for text in overrides:
        path, value = read_assignment(text, "--set", "folds.k=10")
        tree = set_path(tree, path, value)
    return tree


def read_assignment(text: str, option: str, example: str) -> tuple[str, Any]:
    """Return path and value of an option `path=value`."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UserError(
            f"{option} must be path.to.key=value, got {text!r}. For example {option} {example}."
        )
    try:
        # YAML reads a bare separator as something else.
        return path.strip(), value if value in _SEPARATORS else yaml.safe_load(value)
    except yaml.YAMLError as error:
        cause = " ".join(str(error).split())
        raise UserError(
            f"{option} {path} must have a YAML value, got {value!r} ({cause})."
        ) from error


def set_path(tree: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of the tree with the value at a dotted path."""
    changed: dict[str, Any] = _set(tree, path.split("."), value, path)
    return changed


def _set(node: Any, keys: list[str], value: Any, path: str) -> Any:
    """Return a copy of the node with the value at keys. Other nodes are shared."""
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
        # The name of a method becomes an entry, so that it can have a parameter.
        entry = {"name": entry} if isinstance(entry, str) and rest else entry
        return [*node[:index], _set(entry, rest, value, path), *node[index + 1 :]]
    if node is not None and not isinstance(node, dict):
        raise UserError(f"--set {path}: {node!r} has no keys, so that {key!r} cannot be set.")
    tree: dict[str, Any] = dict(node or {})
    tree[key] = _set(tree.get(key), rest, value, path)
    return tree


_LONGEST = 40  # characters of one value in a name


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

    `sweep: {data.states: [[MT], [ID]], data.year: [2018, 2019]}` gives four runs, named after
    their values. They share one MLflow experiment, and each has a model of its own.
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
        own = "-".join([name, *map(_slug, values)])
        tracking = {"experiment": name, "model": own, **(run.get("tracking") or {})}
        found.append({**run, "name": own, "tracking": tracking})
    if len({run["name"] for run in found}) < len(found):
        raise UserError(f"{source}: the values of sweep must differ, got {axes!r}.")
    return found


def _slug(value: Any) -> str:
    """Return a value as part of a name, with letters, digits, dots and underscores."""
    if isinstance(value, dict):
        value = list(value.values())
    words = value if isinstance(value, list) else [value]
    text = "_".join(_slug(word) if isinstance(word, dict | list) else str(word) for word in words)
    plain = re.sub(r"[^A-Za-z0-9.]+", "_", text).strip("_.") or "none"
    if len(plain) <= _LONGEST:
        return plain
    return f"{plain[: _LONGEST - 9]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def read_yaml(text: str) -> Any:
    """Return the content of a YAML text; raise an error for duplicate keys."""
    return yaml.load(text, _Loader)


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return a mapping node. Keys of anchors are merged into it later."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set[tuple[str, str]]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # the schema refuses it
            if (key.tag, key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"the key {key.value} is duplicate, remove one",
                    key.start_mark,
                )
            seen.add((key.tag, key.value))
        return node


def explain(error: ValidationError, source: str, tree: Any) -> str:
    """Return the validation errors of a source, one sentence each."""
    faults = error.errors()
    places = [fault["loc"] for fault in faults]
    sentences = []
    for fault in faults:
        loc = fault["loc"]
        inside = any(place != loc and place[: len(loc)] == loc for place in places)
        # A list may be too short only because of invalid items, which are reported.
        if not (fault["type"] == "too_short" and inside):
            sentences.append(_sentence(fault, tree))
    return f"{source}: " + " ".join(sentences)


# Rules by pydantic's type of error, filled from its context.
_RULES = {
    **dict.fromkeys(("model_type", "dict_type"), "must be a mapping, such as {{key: value}}"),
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list, such as [a, b]"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be an integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "literal_error": "must be {expected}",
}


def _sentence(fault: Any, tree: Any) -> str:
    """Return one validation error of pydantic as a sentence."""
    location = _readable(fault["loc"], tree)
    cause = fault.get("ctx", {}).get("error")
    if fault["type"] == "extra_forbidden":
        try:
            check_name(str(fault["loc"][-1]), _siblings(fault["loc"], tree), key="the key")
        except ValueError as error:
            return f"{location}: {error}."
        return f"{location}: this key is not allowed here."
    if fault["loc"] == ("methods",) and not (fault["type"] != "missing" and fault["input"]):
        return (
            f"{location}: at least one method must be given, such as "
            "`methods: [krr_fkd, dummy]`, got none."
        )
    if fault["type"] == "missing":
        return f"{location}: the key {fault['loc'][-1]} must be given, got none."
    message = fault["msg"].removeprefix("Value error, ")
    # Values of hooks may be secrets.
    hidden = cause is not None or fault["loc"][:1] == ("hooks",)
    shown = "" if hidden else f", got {fault['input']!r}"
    if (rule := _RULES.get(fault["type"])) is not None:
        return f"{location} {rule.format(**fault.get('ctx', {}))}{shown}."
    return f"{location}: {message[0].lower()}{message[1:]}{shown}."


def _readable(loc: tuple[int | str, ...], tree: Any) -> str:
    """Return the location of an error as a dotted path, with names of methods."""
    words: list[str] = []
    for depth, part in enumerate(loc):
        if part == "parameters" and len(words) == 1:
            continue
        if depth == 1 and loc[0] == "methods" and isinstance(part, int):
            words = [f"methods.{part} ({_method_name(tree, part) or 'unnamed'})"]
            continue
        words.append(str(part))
    return ".".join(words) or "the configuration"


def _method_name(tree: Any, index: int) -> str | None:
    """Return the name in an entry of `methods`."""
    try:
        entry = tree["methods"][index]
    except (KeyError, IndexError, TypeError):
        return None
    name = entry.get("name") if isinstance(entry, dict) else entry
    return name if isinstance(name, str) else None


def _siblings(loc: tuple[int | str, ...], tree: Any) -> tuple[str, ...]:
    """Return the valid keys at the location of an unknown one."""
    model: type[BaseModel] = RunConfig
    start = 0
    if loc[0] == "methods" and len(loc) > 2:
        name = _method_name(tree, int(loc[1]))
        if name not in methods():
            return ENTRY_KEYS
        model, start = parameters_model(methods()[name].parameters), 2
    for part in loc[start:-1]:
        found = model.model_fields.get(str(part))
        if found is not None:
            model = _model_in(found.annotation) or model
    extra = ENTRY_KEYS if start and model is not RunConfig else ()
    return (*model.model_fields, *extra)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as `X`, `X | None`, `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model_in(a))), None)


_TABLES = (".csv", ".tsv", ".xlsx", ".parquet", ".feather")


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped configurations."""
    found = (f.name for f in files("configs").iterdir() if f.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in found))


def load_config(source: str | Path = "default", overrides: Iterable[str] = ()) -> RunConfig:
    """Return the validated configuration of a YAML file, or of a shipped name."""
    found = load_configs(source, overrides)
    if len(found) > 1:
        raise UserError(f"{source} describes {len(found)} runs. Use `fkd sweep {source}`.")
    return found[0]


def load_configs(
    source: str | Path = "default", overrides: Iterable[str] = (), over: Iterable[str] = ()
) -> tuple[RunConfig, ...]:
    """Return the validated runs of a YAML file: one, or all combinations of its sweep.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of all runs, each as path.to.key=value.
    over : further axes of the sweep, each as path.to.key=[value, value].
    """
    tree = _parse(_read(source), source)
    if not isinstance(tree, dict):
        raise UserError(
            f"{source} must contain keys such as data and methods, got {type(tree).__name__}."
        )
    overrides, over = tuple(overrides), tuple(over)
    runs = expand(add_axes(apply_overrides(tree, overrides), over), str(source))
    keys = {text.partition("=")[0].strip() for text in (*overrides, *over)}
    # A path on the command line is relative to the working folder.
    here = keys & {"data", "data.path"}
    folder = Path.cwd() if here else Path(source).absolute().parent
    return tuple(parse_config(_located(run, folder), str(source)) for run in runs)


def parse_config(tree: dict[str, Any], source: str) -> RunConfig:
    """Return the validated configuration of a tree of plain values."""
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise UserError(explain(error, source, tree)) from error


def dump_config(config: RunConfig) -> str:
    """Return the resolved configuration as YAML that loads to the same value.

    Addresses of hooks are reduced to their hosts, because they may be secrets.
    """
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _located(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the tree with absolute paths of files.

    The resolved configuration is stored in another folder than the YAML file.
    """
    data, cluster = tree.get("data"), tree.get("cluster")
    if isinstance(cluster, dict) and isinstance(tls := cluster.get("tls"), dict):
        named = {k: _found(v, folder) if isinstance(v, str) else v for k, v in tls.items()}
        tree = {**tree, "cluster": {**cluster, "tls": named}}
    if not isinstance(data, dict) or not isinstance(data.get("path"), str) or not data["path"]:
        return tree
    return {**tree, "data": {**data, "path": _found(data["path"], folder)}}


def _found(name: str, folder: Path) -> str:
    """Return the absolute path of a file beside the YAML file, or in the working folder."""
    named = Path(name).expanduser()
    places = [folder / named, Path.cwd() / named]
    return str(next((place for place in places if place.is_file()), places[0]))


def _parse(text: str, source: str | Path) -> Any:
    """Return the content of a YAML text. The error of invalid YAML names the source."""
    try:
        return read_yaml(text)
    except yaml.YAMLError as error:
        # The message of the parser contains the line.
        cause = mask_addresses(" ".join(str(error).split()))
        raise UserError(
            f"{source} must be a YAML file, but it cannot be parsed: {cause}."
        ) from None


def _read(source: str | Path) -> str:
    """Return the text of a path, or of a shipped name with or without suffix."""
    path = Path(source)
    if path.suffix.lower() in _TABLES:
        raise UserError(
            f"{source} must be a configuration, got a table. `fkd init` writes a configuration for "
            "it, see docs/howto/own_table.md."
        )
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"{source} must be a readable UTF-8 text file ({error}); save it as UTF-8."
            ) from error
    name = str(source).removeprefix("configs/").removesuffix(".yaml")
    try:
        check_name(name, shipped(), key="a shipped configuration")
    except ValueError as error:
        raise UserError(f"There is no file {source}, and {error}.") from None
    return files("configs").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


class _Hooked(Frozen):
    """The key `hooks` of a file."""

    hooks: HooksConfig = Field()


def read_hooks(path: Path) -> HooksConfig:
    """Return the hooks of a YAML file, such as the configuration of a run."""
    try:
        tree = _parse(path.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"--hooks must be a YAML file, got {path}, which cannot be read."
        ) from error
    if not isinstance(tree, dict) or not tree.get("hooks"):
        raise UserError(
            f"{path} must have a key `hooks`, such as "
            "hooks: {on_failure: {command: [notify-send, drift]}}."
        )
    try:
        return _Hooked.model_validate({"hooks": tree["hooks"]}).hooks
    except ValidationError as error:
        raise UserError(explain(error, str(path), tree)) from None

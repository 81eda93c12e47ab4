"""A configuration from a YAML file, shipped or the user's own."""

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from configs.errors import UserError
from configs.explain import explain
from configs.hook_config import withheld
from configs.nearest import check_name
from configs.overrides import apply_overrides
from configs.schema import RunConfig
from configs.sweep import add_axes, expand
from configs.yaml_text import read_yaml

_TABLES = (".csv", ".tsv", ".xlsx", ".parquet", ".feather")


def shipped() -> tuple[str, ...]:
    """Return the names of the configurations that come with fkd."""
    found = (f.name for f in files("configs").iterdir() if f.name.endswith(".yaml"))
    return tuple(sorted(name.removesuffix(".yaml") for name in found))


def load_config(source: str | Path = "default", overrides: Iterable[str] = ()) -> RunConfig:
    """Return the validated configuration of a path, or of a shipped file's name."""
    found = load_configs(source, overrides)
    if len(found) > 1:
        raise UserError(f"{source} describes {len(found)} runs. Use `fkd sweep {source}`.")
    return found[0]


def load_configs(
    source: str | Path = "default", overrides: Iterable[str] = (), over: Iterable[str] = ()
) -> tuple[RunConfig, ...]:
    """Return the validated runs of a file: one, or all combinations of its sweep.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of all runs, each as path.to.key=value.
    over : further axes of the sweep, each as path.to.key=[value, value].
    """
    text = _read(source)
    try:
        tree = read_yaml(text)
    except yaml.YAMLError as error:
        # The parser repeats the line at fault.
        cause = withheld(" ".join(str(error).split()))
        raise UserError(f"{source} must be a YAML file, but it cannot be read: {cause}.") from None
    if not isinstance(tree, dict):
        raise UserError(
            f"{source} must hold keys such as data and methods, got {type(tree).__name__}."
        )
    overrides, over = tuple(overrides), tuple(over)
    runs = expand(add_axes(apply_overrides(tree, overrides), over), str(source))
    folder = Path.cwd() if _sets_path([*overrides, *over]) else Path(source).absolute().parent
    return tuple(parse_config(_located(run, folder), str(source)) for run in runs)


def parse_config(tree: dict[str, Any], source: str) -> RunConfig:
    """Return the validated configuration of a plain tree; faults become one sentence each."""
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise UserError(explain(error, source, tree)) from error


def dump_config(config: RunConfig) -> str:
    """Return the resolved configuration as YAML that loads to the same value.

    Only addresses of hooks, which may be secrets, are cut to their hosts.
    """
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _sets_path(overrides: Iterable[str]) -> bool:
    """Return whether the data's file is named on the command line, not in the YAML."""
    return any(text.partition("=")[0].strip() in ("data", "data.path") for text in overrides)


def _located(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the tree with the files that it names by their whole path.

    Written out, because the resolved configuration is kept in another folder than the YAML.
    """
    data, cluster = tree.get("data"), tree.get("cluster")
    if isinstance(cluster, dict) and isinstance(tls := cluster.get("tls"), dict):
        named = {k: _found(v, folder) if isinstance(v, str) else v for k, v in tls.items()}
        tree = {**tree, "cluster": {**cluster, "tls": named}}
    if not isinstance(data, dict) or not isinstance(data.get("path"), str) or not data["path"]:
        return tree
    return {**tree, "data": {**data, "path": _found(data["path"], folder)}}


def _found(name: str, folder: Path) -> str:
    """Return the whole path of a file: beside the YAML, else from here."""
    named = Path(name).expanduser()
    places = [folder / named, Path.cwd() / named]
    return str(next((place for place in places if place.is_file()), places[0]))


def _read(source: str | Path) -> str:
    """Return a file's text: a path first, then a shipped name with or without its ending."""
    path = Path(source)
    if path.suffix.lower() in _TABLES:
        raise UserError(
            f"{source} must be a configuration, got a table; write one that names it as data.path "
            "by `fkd init`, see docs/howto/own_table.md."
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

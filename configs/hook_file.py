"""Hooks from a YAML file, for what is not run from a configuration."""

from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from configs.errors import UserError
from configs.explain import explain
from configs.hook_config import HooksConfig, withheld
from configs.model import Frozen
from configs.yaml_text import read_yaml


class _Hooked(Frozen):
    """The part of a file that is read here."""

    hooks: HooksConfig = Field()


def read_hooks(path: Path) -> HooksConfig:
    """Return what stands under `hooks` in a file, such as the configuration of a run."""
    try:
        tree = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"--hooks must be a YAML file, got {path}, which cannot be read."
        ) from error
    except yaml.YAMLError as error:
        # The parser repeats the line at fault.
        cause = withheld(" ".join(str(error).split()))
        raise UserError(f"{path} must be a YAML file, but it cannot be read: {cause}.") from None
    if not isinstance(tree, dict) or not tree.get("hooks"):
        raise UserError(
            f"{path} must say under `hooks` whom to tell, got no such key; write for example "
            "hooks: {on_failure: {command: [notify-send, drift]}}."
        )
    try:
        return _Hooked.model_validate({"hooks": tree["hooks"]}).hooks
    except ValidationError as error:
        raise UserError(explain(error, str(path), tree)) from None

"""A person's decision as a file that later runs quote."""

from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from configs.errors import UserError
from configs.explain import explain
from configs.hook_config import withheld
from configs.model import Frozen
from configs.yaml_text import read_yaml

_HEAD = """\
# Which model is used, under which limits. The program filled in what it knows; who decided and
# why are for people to write, and stay empty until they do. A later run quotes this file where its
# configuration says `decision: FILE`.
"""


class Decision(Frozen):
    """Which model was taken, under which limits, by whom, why."""

    run: str
    """The configuration's name."""
    made: str
    """The day of the run, in ISO form."""
    model: str
    """Where the registry has the model."""
    chosen: str
    """The model in words."""
    limits: dict[str, float] = Field(default_factory=dict)
    """Greatest value of each measure that was allowed."""
    who: str = ""
    """A role or free text."""
    why: str = ""
    held_out: dict[str, float] = Field(default_factory=dict)
    """The model's numbers on rows that took no part in choosing it."""
    data: str = ""
    """Digest of the rows."""

    @property
    def is_open(self) -> bool:
        """Whether nobody has said who decided, or why."""
        return not self.who.strip() or not self.why.strip()


def write_decision(decision: Decision) -> str:
    """Return a decision as YAML that reads back to the same value."""
    plain = decision.model_dump(mode="json")
    return _HEAD + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def read_decision(path: str | Path) -> Decision:
    """Return the decision of a file; what is wrong with it is told."""
    try:
        tree = read_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        cause = getattr(error, "strerror", None) or withheld(" ".join(str(error).split()))
        raise UserError(
            f"decision must be a YAML file that `fkd decide` wrote, but {path} cannot be read "
            f"({cause}); write one, or leave the key out."
        ) from None
    if not isinstance(tree, dict):
        raise UserError(
            f"decision must be a YAML file that `fkd decide` wrote, but {path} has no keys; write "
            "one, or leave the key out."
        )
    try:
        return Decision.model_validate(tree)
    except ValidationError as error:
        raise UserError(explain(error, str(path), tree)) from error

"""How a file is written, as far as a command's user says it."""

from pydantic import ValidationError

from configs.errors import UserError
from configs.overrides import apply_overrides
from configs.text_form import WrittenForm
from flows.command_options import Overrides


def written_form(overrides: Overrides) -> WrittenForm:
    """Return how a file is written, by the keys under data that a run has for it."""
    tree, known = apply_overrides({}, overrides), ", ".join(WrittenForm.model_fields)
    if not tree.keys() <= {"data"}:
        raise UserError(f"--set takes keys under data here ({known}), got {', '.join(tree)}.")
    try:
        return WrittenForm.model_validate(tree.get("data") or {})
    except ValidationError as error:
        told = "; ".join(fault["msg"].removeprefix("Value error, ") for fault in error.errors())
        raise UserError(f"--set data: {told}; it takes {known} here.") from error

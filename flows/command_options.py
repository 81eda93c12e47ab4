"""Options that several commands have."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from cyclopts import Parameter

from configs.errors import UserError
from tasks.storage.settings import LOG_VARIABLES, read_log_form

Overrides = Annotated[
    tuple[str, ...],
    Parameter(name="--set", help="path.to.key=value, value as YAML; may be repeated"),
]
Axes = Annotated[
    tuple[str, ...],
    Parameter(name="--over", help="path.to.key=[value, value], a list as YAML; may be repeated"),
]
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]

RUNNING = ("run", "sweep", "reproduce", "watch", "score", "schedule")  # commands with JSON output


def split_log_options(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command line without --log-format and --log-level, and their values."""
    left, chosen = list[str](), dict[str, str]()
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        if name in LOG_VARIABLES:
            chosen[name] = value if sign else next(rest, "")
        else:
            left.append(word)
    return left, chosen


def log_variables(words: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables that pass the options on, also to child processes.

    A command without JSON output writes text, whatever the environment says.
    """
    found = {LOG_VARIABLES[option]: value for option, value in chosen.items()}
    return found if _command(words) in RUNNING else {**found, "FKD_LOG_FORMAT": "text"}


def check_log_options(words: Sequence[str], chosen: Mapping[str, str]) -> None:
    """Raise a UserError for options with unknown values or beside a command without them."""
    command = _command(words)
    if command in RUNNING:
        read_log_form(chosen)
    elif chosen:
        raise UserError(
            f"{' and '.join(chosen)} must be given with one of {', '.join(RUNNING)}, got "
            f"{command or 'no command'}."
        )


def _command(words: Sequence[str]) -> str:
    """Return the name of the command on a command line."""
    return next((word for word in words if not word.startswith("-")), "")

"""The commands that bring a whole stack up on this machine, then down."""

import shlex

from configs.errors import UserError
from flows.progress import watcher
from tasks.adapters.settings import read_settings
from tasks.adapters.stack.life import bring_down, bring_up, is_up, look
from tasks.adapters.stack.stack_folder import StackFolder


def up(*, export: bool = False, first_port: int | None = None) -> None:
    """Start PostgreSQL, MLflow, Prefect, Dask with two workers, an S3 server: behind passwords.

    Parameters
    ----------
    export
        Print the line that lets this shell use them: eval "$(fkd up --export)".
    first_port
        Seven ports from this one on, instead of those of before or free ones.
    """
    place = StackFolder(read_settings())
    if is_up(place):
        _tell_running(place, first_port)
    else:
        bring_up(place, first_port, watcher().say)
    line = f". {shlex.quote(place.keys.file('environment'))}"
    if export:
        print(line)  # noqa: T201
    else:
        watcher().say(f"to use it in this shell: {line}")


def _tell_running(place: StackFolder, first_port: int | None) -> None:
    """Say what runs; refuse where it is not all well, or not where it should be."""
    parts = look(place)
    if first_port is not None and place.ports["postgres"] != first_port:
        raise UserError(
            f"the stack of {place.folder} is up on other ports; `fkd down` first, then `fkd up "
            f"--first-port {first_port}`."
        )
    for part in parts:
        watcher().say(f"{part.name} {part.url} {'runs' if part.serves else 'does not answer'}")
    silent = [part.name for part in parts if not part.serves]
    if silent:
        raise UserError(
            f"{', '.join(silent)} of the stack of {place.folder} must serve, but did not answer; "
            "it is started again by itself where it has crashed: look again by `fkd status`, or "
            "begin anew by `fkd down`, then `fkd up`."
        )


def down() -> None:
    """End everything that `fkd up` started; what it recorded stays, its secrets go."""
    place = StackFolder(read_settings())
    ended = bring_down(place)
    watcher().say("the stack is down" if ended else f"there was no stack up in {place.folder}")

"""A stack brought up, brought down, looked at."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from configs.errors import UserError
from tasks.adapters.servers.flock import SHARED, locked
from tasks.adapters.servers.shared_server import is_kept, read_record
from tasks.adapters.settings import ensure_writable
from tasks.adapters.stack.database import prepare_database
from tasks.adapters.stack.exports import write_secrets
from tasks.adapters.stack.parts import BUCKET, NAMES, check_parts, kinds
from tasks.adapters.stack.stack_folder import StackFolder

_POLL = 0.1
_DOWN_SECONDS = 90.0
# Variables of the user's shell that would direct our servers elsewhere.
_FOREIGN = ("PREFECT_", "MLFLOW_", "DASK_", "AWS_", "RCLONE_", "PG", "FKD_STORE")


@dataclass(frozen=True)
class Part:
    """One server of a stack as it is at this moment."""

    name: str
    url: str
    serves: bool


def is_up(place: StackFolder) -> bool:
    """Return whether somebody holds the stack: a lock, which no recycled pid can fake."""
    if not place.folder.exists():
        return False
    with locked(place.folder / "holder", SHARED) as free:
        return not free


def look(place: StackFolder) -> list[Part]:
    """Return every server of a stack that is up, whether it serves or not."""
    found = []
    for name, kind in kinds(place).items() if is_up(place) else ():
        url = str(read_record(kind.folder).get("url") or kind.url(kind.port or 0))
        kept = is_kept(kind.folder)
        found.append(Part(name, url, kept and kind.serves(url)))
    return found


def bring_up(place: StackFolder, first_port: int | None, say: Callable[[str], None]) -> None:
    """Start the whole stack; `say` hears of each server once it serves."""
    check_parts()
    ensure_writable(place.settings.home)
    _wait_gone(place)  # what a killed holder has left ends by itself
    place.choose_ports(NAMES, first_port)
    write_secrets(place)
    prepare_database(place.folder / "postgres", place.keys)
    (place.folder / "s3" / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
    holder = _start_holder(place)
    try:
        failure = _follow(holder, say)
    except BaseException:
        bring_down(place)
        raise
    if failure is not None:
        bring_down(place)
        raise UserError(failure)


def bring_down(place: StackFolder) -> bool:
    """Return whether there was anything to end; no process, no secret is left."""
    was_up = is_up(place)
    if was_up:
        with suppress(OSError, ValueError):
            os.kill(int((place.folder / "holder.pid").read_text()), signal.SIGTERM)
    _wait_gone(place)
    was_up = was_up or place.keys.folder.exists()
    place.keys.forget()
    (place.folder / "holder.pid").unlink(missing_ok=True)
    return was_up


def _start_holder(place: StackFolder) -> "subprocess.Popen[str]":
    """Return the new holder in its own session, out of reach of the terminal's Ctrl-C."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)}
    log = os.open(place.folder / "holder.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        return subprocess.Popen(
            # -P: a folder `tasks` in the working directory must not be taken for ours.
            [sys.executable, "-P", "-m", "tasks.adapters.stack.holder", str(place.settings.home)],
            env=kept,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    finally:
        os.close(log)


def _follow(holder: "subprocess.Popen[str]", say: Callable[[str], None]) -> str | None:
    """Return why the stack did not come up, None once it has."""
    assert holder.stdout is not None
    with holder.stdout as lines:
        for line in lines:
            if line.startswith("! "):
                return line[2:].strip()
            if line.strip() == "up":
                return None
            say(line.strip())
    return f"The stack's holder ended with {holder.wait()} before everything was up."


def _wait_gone(place: StackFolder) -> None:
    """Wait until neither a holder nor a server of it lives."""
    deadline = time.monotonic() + _DOWN_SECONDS
    while alive := _alive(place):
        if time.monotonic() > deadline:
            raise UserError(
                f"The stack of {place.folder} does not end: {', '.join(alive)} still run; see the "
                "server.json in their folders for the processes."
            )
        time.sleep(_POLL)


def _alive(place: StackFolder) -> list[str]:
    """Return who of a stack still lives."""
    kept = [n for n in NAMES if (f := place.folder / n).exists() and is_kept(f)]
    return [*(["the holder"] if is_up(place) else []), *kept]

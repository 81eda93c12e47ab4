"""The process that holds a share in every server of a stack, for as long as the stack is up."""

import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from configs.errors import UserError
from tasks.adapters.servers.flock import EXCLUSIVE, open_lock, try_lock
from tasks.adapters.servers.shared_server import Lease, server_lease
from tasks.adapters.settings import Settings
from tasks.adapters.stack.parts import kinds
from tasks.adapters.stack.stack_folder import StackFolder

_POLL = 1.0
_FIRST = ("postgres", "s3")  # which others need from their first moment


class _Ended(Exception):
    """Somebody has asked for the end."""


def hold(place: StackFolder) -> None:
    """Start every server, say when it serves, keep it until this process is asked to end."""
    with ExitStack() as stack:
        leases: dict[str, Lease] = {}
        # Left in the opposite order: the databases after those who write to them.
        for name, kind in kinds(place).items():
            leases[name] = stack.enter_context(server_lease(kind))
            leases[name].begin()
            if name in _FIRST:
                _say(f"{name} {leases[name].url()}")
        for name, lease in leases.items():
            if name not in _FIRST:
                _say(f"{name} {lease.url()}")
        _say("up")
        while True:
            time.sleep(_POLL)
            for lease in leases.values():
                lease.tend()


def _say(line: str) -> None:
    """Tell whoever started us, if he is still there."""
    try:
        print(line, flush=True)  # noqa: T201
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(number: int, frame: FrameType | None) -> None:
    raise _Ended


def main() -> int:
    """Return 0 once the stack has been brought down, 2 where it could not come up."""
    signal.signal(signal.SIGTERM, _end)
    place = StackFolder(Settings(Path(sys.argv[1])))
    with open_lock(place.folder / "holder") as lock:
        if not try_lock(lock, EXCLUSIVE):
            return 0
        (place.folder / "holder.pid").write_text(str(os.getpid()))
        try:
            hold(place)
        except _Ended:
            return 0
        except UserError as error:
            _say(f"! {error}")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

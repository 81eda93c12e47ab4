"""One server shared by all processes that need it at the same time."""

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from configs.errors import UserError
from tasks.servers.keeper import EXCLUSIVE, SHARED, ServerKind, locked, open_lock, try_lock
from tasks.storage.files import full_disk

_POLL = 0.05
_GOODBYE = 15.0  # seconds the last one waits for the server to be gone


class Lease:
    """A share in a running server: while any process holds one, the server stays."""

    def __init__(self, kind: ServerKind, file: IO[str]) -> None:
        self.kind = kind
        self._file = file
        self._keeper: int | None = None  # the pid of the keeper that we started

    def begin(self) -> None:
        """Start the server in the background unless somebody has."""
        if self._keeper is None and not is_kept(self.kind.folder):
            # A keeper that comes second sees the lock of the first, then leaves by itself.
            self._keeper = _spawn_keeper(self.kind)

    def url(self) -> str:
        """Return the server's address, as soon as it answers."""
        deadline = time.monotonic() + self.kind.patience
        while time.monotonic() < deadline:
            kept = is_kept(self.kind.folder)
            url = _address(self.kind) if kept else None
            if url is not None and self.kind.serves(url):
                return url
            if self._keeper_failed():
                break
            self.begin()
            time.sleep(_POLL)
        raise full_disk(self.kind.folder) or UserError(
            f"The {self.kind.title} server did not start: {_last_words(self.kind.folder)}; "
            f"see {self.kind.folder / 'server.log'}."
        )

    def leave(self) -> None:
        """Give the share back; the last one stays until the server is gone."""
        last = try_lock(self._file, EXCLUSIVE)
        self._file.close()
        deadline = time.monotonic() + _GOODBYE
        while last and is_kept(self.kind.folder) and time.monotonic() < deadline:
            time.sleep(_POLL)
            last = not _is_shared(self.kind.folder)
        self._keeper_failed()

    def _keeper_failed(self) -> bool:
        """Return whether our keeper gave up; collects it once it has ended, so no zombie stays."""
        if self._keeper is None:
            return False
        pid, status = os.waitpid(self._keeper, os.WNOHANG)
        if pid == self._keeper:
            self._keeper = None
        return os.waitstatus_to_exitcode(status) == 1


@contextmanager
def server_lease(kind: ServerKind) -> Iterator[Lease]:
    """Yield a share in the server of this kind; `url` waits until it serves."""
    kind.folder.mkdir(parents=True, exist_ok=True)
    # Closed by `leave`, or by the kernel if we never get there.
    lease = Lease(kind, open_lock(kind.folder / "lease"))
    try:
        _wait_for_share(kind, lease._file)
        yield lease
    finally:
        lease.leave()


def read_record(folder: Path) -> dict[str, Any]:
    """Return pid, url, host of the running server, nothing without a readable record."""
    try:
        record = json.loads((folder / "server.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _address(kind: ServerKind) -> str | None:
    """Return the recorded address, unless it is the loopback of another machine."""
    record = read_record(kind.folder)
    host = record.get("host", socket.gethostname())
    if host != socket.gethostname():
        raise UserError(
            f"The {kind.title} server of {kind.folder} runs on {host}, out of reach from "
            f"{socket.gethostname()}; give each machine its own FKD_HOME, or name a server that "
            "both can reach."
        )
    return record.get("url")


def _wait_for_share(kind: ServerKind, file: IO[str]) -> None:
    """Wait until a server that is just being stopped is gone."""
    deadline = time.monotonic() + kind.patience
    while not try_lock(file, SHARED):
        if time.monotonic() > deadline:
            raise UserError(
                f"The {kind.title} server of {kind.folder} is being stopped but does not end; "
                f"end the process named in {kind.folder / 'server.json'}."
            )
        time.sleep(_POLL)


def is_kept(folder: Path) -> bool:
    """Return whether a keeper lives: it holds this lock, which no recycled pid can fake."""
    with locked(folder / "keeper", SHARED) as free:
        return not free


def _is_shared(folder: Path) -> bool:
    """Return whether somebody has a share: not nobody, nor the keeper that shuts down."""
    with locked(folder / "lease", EXCLUSIVE) as nobody:
        if nobody:
            return False
    with locked(folder / "lease", SHARED) as shared:
        return shared


def _spawn_keeper(kind: ServerKind) -> int:
    """Return the pid of a new keeper in its own session, out of reach of the terminal's Ctrl-C."""
    log = str(kind.folder / "server.log")
    return os.posix_spawn(
        sys.executable,
        # -P: a folder `tasks` in the working directory must not be taken for ours.
        [sys.executable, "-P", "-m", "tasks.servers.keeper", kind.dumps()],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _last_words(folder: Path) -> str:
    """Return the end of the server's log in one line."""
    try:
        lines = (folder / "server.log").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return " / ".join(line.strip() for line in lines if line.strip())[-400:] or "it wrote no log"

"""The process that runs one server for as long as anybody holds its lease."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from tasks.adapters.servers.flock import EXCLUSIVE, open_lock, try_lock
from tasks.adapters.servers.server_kind import ServerKind, free_port

_POLL = 0.2
_PATIENCE = 5.0  # from the polite signal to the one that cannot be refused
_STARTS = 3
_LONGEST_LOG = 1_000_000  # bytes; what is older than the last starts helps nobody
_PR_SET_PDEATHSIG = 1


def stop_group(server: subprocess.Popen[bytes]) -> None:
    """Stop the server with all its children: politely, then for good."""
    server.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(_PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def keep(kind: ServerKind, keeper: IO[str], lease: IO[str]) -> int:
    """Return 0 once the last lease is given back, 1 if the server could not be started."""
    if not _only_keeper(keeper):
        return 0
    log = kind.folder / "server.log"
    if log.exists() and log.stat().st_size > _LONGEST_LOG:
        os.truncate(log, 0)
    return _serve(kind, lease)


def _only_keeper(file: IO[str]) -> bool:
    """Return whether no other keeper lives."""
    # Those who look whether a keeper lives hold the lock too, but for microseconds only.
    for _ in range(20):
        if try_lock(file, EXCLUSIVE):
            return True
        time.sleep(_POLL / 20)
    return False


def _serve(kind: ServerKind, lease: IO[str]) -> int:
    """Run the server until nobody is left, again on the same port if it crashes meanwhile."""
    record = kind.folder / "server.json"
    port, failures = free_port(), 0
    # The exclusive lock, once taken, is kept to the end: newcomers wait for a new server.
    while failures < _STARTS and not try_lock(lease, EXCLUSIVE):
        record.unlink(missing_ok=True)
        server = _start(kind, port)
        try:
            if _wait_ready(kind, server, port, lease):
                _publish(record, server.pid, kind.url(port))
                _watch(server, lease)
            else:
                # Most likely somebody else took the port in the meantime.
                port, failures = free_port(), failures + 1
        finally:
            record.unlink(missing_ok=True)
            stop_group(server)
    return int(failures >= _STARTS)


def _watch(server: subprocess.Popen[bytes], lease: IO[str]) -> None:
    """Wait until the server has ended or nobody needs it."""
    while server.poll() is None and not try_lock(lease, EXCLUSIVE):
        time.sleep(_POLL)


def _start(kind: ServerKind, port: int) -> subprocess.Popen[bytes]:
    """Start the server in its own session, bound to the life of this process."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def prepare() -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if kind.pinned and cores:
            os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})

    known = {name: value.replace("{port}", str(port)) for name, value in kind.environment.items()}
    return subprocess.Popen(
        [part.replace("{port}", str(port)) for part in kind.arguments],
        cwd=kind.folder,
        env={**os.environ, **known},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=prepare,
    )


def _wait_ready(
    kind: ServerKind, server: subprocess.Popen[bytes], port: int, lease: IO[str]
) -> bool:
    """Return whether the server answers before it ends, its patience ends or everybody leaves."""
    deadline = time.monotonic() + kind.patience
    while server.poll() is None and time.monotonic() < deadline:
        if kind.serves(kind.url(port)):
            _unpin(server.pid)
            return True
        if try_lock(lease, EXCLUSIVE):
            return False
        time.sleep(_POLL / 4)
    return False


def _unpin(pid: int) -> None:
    """Give the threads of the process all cores back."""
    if hasattr(os, "sched_setaffinity"):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), os.sched_getaffinity(0))


def _publish(record: Path, pid: int, url: str) -> None:
    """Write the record so that a reader sees all of it or none."""
    part = record.with_suffix(".part")
    part.write_text(
        json.dumps({"pid": pid, "url": url, "host": socket.gethostname(), "started": time.time()})
    )
    part.replace(record)


def main() -> None:
    """Keep the server that the only argument declares."""
    # A polite end of the keeper is an end of its server too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    kind = ServerKind.loads(sys.argv[1])
    with open_lock(kind.folder / "keeper") as keeper, open_lock(kind.folder / "lease") as lease:
        # At once, with the locks still held: who finds them free must not find us alive.
        os._exit(keep(kind, keeper, lease))


if __name__ == "__main__":
    main()

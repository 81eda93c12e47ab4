"""The declaration of a server that fkd can run by itself."""

import contextlib
import ctypes
import fcntl
import http.client
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ServerKind:
    """How a server is started; `{port}` in arguments and environment becomes its port."""

    title: str
    folder: Path  # of its lease, record and log
    arguments: tuple[str, ...]
    health: str  # the path that answers once it serves
    environment: Mapping[str, str] = field(default_factory=dict)
    # A server that hands every query to another thread starts twice as fast on a single core.
    pinned: bool = False
    patience: float = 120.0  # seconds to the first answer; a busy machine needs many

    def dumps(self) -> str:
        """Return the declaration as JSON, in which it travels to the keeper."""
        return json.dumps({**asdict(self), "folder": str(self.folder)})

    @classmethod
    def loads(cls, text: str) -> "ServerKind":
        """Return the declaration that `dumps` has written."""
        fields = json.loads(text)
        changed = {"arguments": tuple(fields["arguments"]), "folder": Path(fields["folder"])}
        return cls(**{**fields, **changed})

    def url(self, port: int) -> str:
        """Return the address at a port."""
        return f"http://{LOOPBACK}:{port}"

    def serves(self, url: str) -> bool:
        """Return whether the server answers at an address."""
        return answers(f"{url}{self.health}")


def answers(url: str, timeout: float = 2.0) -> bool:
    """Return whether a loopback address answers with success, never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout) as response:
            return bool(response.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


SHARED = fcntl.LOCK_SH
EXCLUSIVE = fcntl.LOCK_EX


def open_lock(path: Path) -> IO[str]:
    """Return the file to lock, created if absent."""
    # Readable as well as writable: a network file system asks for both.
    return path.open("a+")


def try_lock(file: IO[str], mode: int) -> bool:
    """Return whether the lock could be taken without waiting."""
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path, mode: int) -> Iterator[bool]:
    """Yield whether the lock was free; if so it is held for the block."""
    with open_lock(path) as file:
        yield try_lock(file, mode)


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


_PARENT_POLL = 1.0
_GRACE = 10.0  # seconds to end in peace; Prefect would ask a server that is gone, too, for minutes


def end_with_parent() -> None:
    """End this process once its parent is gone, killed or not: by SIGTERM first."""
    # The parent as a process is watched: the kernel's own signal for this would already come
    # when only the parent's thread that started us ends.
    threading.Thread(
        target=_await_parent, args=(os.getppid(),), name="lifeline", daemon=True
    ).start()


def _await_parent(parent: int) -> None:
    """Wait until this process has been given to another parent."""
    starter = multiprocessing.parent_process()
    if starter is not None:
        # It tells even of a parent that had gone before we asked, whose number nobody knows then.
        starter.join()
    else:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()

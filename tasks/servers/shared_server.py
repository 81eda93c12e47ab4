"""A server on loopback that all processes of an FKD_HOME share, behind a random password.

A process that needs the server holds a shared lock on the file `lease`. The first one starts a
keeper: this module as a program, in a session of its own. The keeper runs the server and restarts
it if it crashes. Once it gets the lease exclusively, no process needs the server, and it stops it.
The kernel releases locks however a process ends, so a killed run leaves no server.

The keeper makes a password at each start. The file `server.json` (mode 0600) contains it together
with the address. It is on no command line.
"""

import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from configs.errors import UserError

LOOPBACK = "127.0.0.1"
USER = "fkd"
_SHARED, _EXCLUSIVE = fcntl.LOCK_SH, fcntl.LOCK_EX
_CLIENT_POLL = 0.05
_START_SECONDS = 120.0  # until the first answer
_LEAVE_SECONDS = 15.0  # seconds that the last process waits until the server is gone
_KEEPER_POLL = 0.2
_STOP_SECONDS = 5.0  # between SIGTERM and SIGKILL
_STARTS = 3
_MAX_LOG = 1_000_000  # bytes
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ServerKind:
    """How a server is started.

    Parameters
    ----------
    title
        Name for messages.
    folder
        Folder of lease, record and log.
    arguments, environment
        Command line and variables. `{port}` becomes the port; `{password}` in variables becomes
        the password.
    health
        Path that answers once the server is ready, without a password.
    fresh
        Files of the folder that are removed before each start.
    pinned
        Run on one core until the server is ready. A server that passes each query to another
        thread starts twice as fast this way.
    """

    title: str
    folder: Path
    arguments: Sequence[str]
    health: str
    environment: Mapping[str, str] = field(default_factory=dict)
    fresh: Sequence[str] = ()
    pinned: bool = False

    def dumps(self) -> str:
        """Return the declaration as JSON, the argument of the keeper."""
        return json.dumps({**asdict(self), "folder": str(self.folder)})

    @classmethod
    def loads(cls, text: str) -> "ServerKind":
        """Return the declaration from the result of `dumps`."""
        fields = json.loads(text)
        return cls(**{**fields, "folder": Path(fields["folder"])})


@dataclass(frozen=True)
class RunningServer:
    """Address and password of a server that is ready."""

    url: str
    password: str


@contextmanager
def server_lease(kind: ServerKind) -> Iterator["Lease"]:
    """Yield a share in the server of this kind."""
    kind.folder.mkdir(parents=True, exist_ok=True)
    lease = Lease(kind, _open_lock(kind.folder / "lease"))
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _try_lock(lease.file, _SHARED):  # a server is being stopped
            if time.monotonic() > deadline:
                raise UserError(
                    f"The {kind.title} server of {kind.folder} does not stop. End the process "
                    f"that {kind.folder / 'server.json'} names."
                )
            time.sleep(_CLIENT_POLL)
        yield lease
    finally:
        lease.leave()


class Lease:
    """A share in a server. The server runs as long as any process holds one."""

    def __init__(self, kind: ServerKind, file: IO[str]) -> None:
        self.kind = kind
        self.file = file
        self._keeper: int | None = None  # pid, if this process started it

    def start(self) -> None:
        """Start the server in the background if it does not run."""
        if self._keeper is None and not _is_kept(self.kind.folder):
            # If two processes start a keeper, the second keeper ends at once.
            self._keeper = _spawn_keeper(self.kind)

    def wait(self) -> RunningServer:
        """Return the server as soon as it answers."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            found = _recorded_server(self.kind) if _is_kept(self.kind.folder) else None
            if found is not None and answers(f"{found.url}{self.kind.health}"):
                return found
            if self._keeper_failed():
                break
            self.start()
            time.sleep(_CLIENT_POLL)
        # Imported late, because it imports numpy, which the keeper does not need.
        from tasks.storage.files import full_disk_error

        log = self.kind.folder / "server.log"
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        last = " / ".join(line.strip() for line in lines if line.strip())[-400:]
        raise full_disk_error(self.kind.folder) or UserError(
            f"The {self.kind.title} server did not start: {last or 'its log is empty'}. See {log}."
        )

    def leave(self) -> None:
        """Return the share. The last process waits until the server is gone."""
        last = _try_lock(self.file, _EXCLUSIVE)
        self.file.close()
        deadline = time.monotonic() + _LEAVE_SECONDS
        while last and _is_kept(self.kind.folder) and time.monotonic() < deadline:
            time.sleep(_CLIENT_POLL)
            last = not _is_shared(self.kind.folder)
        self._keeper_failed()

    def _keeper_failed(self) -> bool:
        """Return True if the keeper of this process gave up. Reap it if it has ended."""
        if self._keeper is None:
            return False
        pid, status = os.waitpid(self._keeper, os.WNOHANG)
        if pid == self._keeper:
            self._keeper = None
        return os.waitstatus_to_exitcode(status) == 1


def read_record(folder: Path) -> dict[str, Any]:
    """Return pid, url, host and password of the running server, or nothing."""
    try:
        record = json.loads((folder / "server.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def answers(url: str, timeout: float = 2.0) -> bool:
    """Return True if a loopback address answers with status 200. Proxies are not used."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout) as response:
            return bool(response.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False


def free_port() -> int:
    """Return a free port of loopback."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _recorded_server(kind: ServerKind) -> RunningServer | None:
    """Return the server of the record, None without a whole record."""
    record = read_record(kind.folder)
    host = record.get("host", socket.gethostname())
    if host != socket.gethostname():
        raise UserError(
            f"The {kind.title} server of {kind.folder} runs on {host} and cannot be reached from "
            f"{socket.gethostname()}. Set FKD_HOME to another folder, or name a server that both "
            "machines can reach."
        )
    if "url" not in record or "password" not in record:
        return None
    return RunningServer(record["url"], record["password"])


def _is_kept(folder: Path) -> bool:
    """Return True if a keeper runs: it holds this lock."""
    with _open_lock(folder / "keeper") as keeper:
        return not _try_lock(keeper, _SHARED)


def _is_shared(folder: Path) -> bool:
    """Return True if a process holds a share. A keeper that stops its server does not count."""
    with _open_lock(folder / "lease") as lease:
        return not _try_lock(lease, _EXCLUSIVE) and _try_lock(lease, _SHARED)


def _open_lock(path: Path) -> IO[str]:
    """Return the file to lock, created if absent."""
    return path.open("a+")  # network file systems need a file that can be read and written


def _try_lock(file: IO[str], mode: int) -> bool:
    """Return True if the lock was taken without waiting."""
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _spawn_keeper(kind: ServerKind) -> int:
    """Return the pid of a new keeper in a session of its own, which Ctrl-C does not reach."""
    log = str(kind.folder / "server.log")
    return os.posix_spawn(
        sys.executable,
        # -P: without it, a folder `tasks` in the working directory would be imported.
        [sys.executable, "-P", "-m", "tasks.servers.shared_server", kind.dumps()],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


# The keeper


def main() -> None:
    """Keep the server that the argument declares."""
    os.umask(0o077)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the server is stopped first
    kind = ServerKind.loads(sys.argv[1])
    with _open_lock(kind.folder / "keeper") as keeper, _open_lock(kind.folder / "lease") as lease:
        # Processes that check for a keeper hold its lock for microseconds.
        for _ in range(20):
            if _try_lock(keeper, _EXCLUSIVE):
                break
            time.sleep(_KEEPER_POLL / 20)
        else:
            os._exit(0)  # another keeper runs
        # At once, because processes trust the record while the lock is held.
        (kind.folder / "server.json").unlink(missing_ok=True)
        log = kind.folder / "server.log"
        if log.exists() and log.stat().st_size > _MAX_LOG:
            os.truncate(log, 0)
        # End with the locks held, so that a process that finds them free finds no keeper.
        os._exit(_serve(kind, lease))


def _serve(kind: ServerKind, lease: IO[str]) -> int:
    """Run the server until nobody holds a share. A crashed server restarts on the same port.

    Return 0 after the last share is returned, 1 if the server could not be started.
    """
    record = kind.folder / "server.json"
    port, password, failures = free_port(), secrets.token_urlsafe(24), 0
    # The exclusive lock is kept until the end: new processes wait for a new server.
    while failures < _STARTS and not _try_lock(lease, _EXCLUSIVE):
        server = _start(kind, port, password)
        try:
            if _is_ready(kind, server, port, lease):
                _publish(record, server.pid, port, password)
                while server.poll() is None and not _try_lock(lease, _EXCLUSIVE):
                    time.sleep(_KEEPER_POLL)
            else:  # another process may have taken the port
                port, failures = free_port(), failures + 1
        finally:
            record.unlink(missing_ok=True)
            _stop(server)
    return int(failures >= _STARTS)


def _start(kind: ServerKind, port: int, password: str) -> subprocess.Popen[bytes]:
    """Start the server in its own session. It ends if this process ends."""

    def prepare() -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if kind.pinned:
                cores = sorted(os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})

    for name in kind.fresh:
        (kind.folder / name).unlink(missing_ok=True)
    environment = {
        name: value.replace("{port}", str(port)).replace("{password}", password)
        for name, value in kind.environment.items()
    }
    return subprocess.Popen(
        [part.replace("{port}", str(port)) for part in kind.arguments],
        cwd=kind.folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=prepare,
    )


def _is_ready(kind: ServerKind, server: subprocess.Popen[bytes], port: int, lease: IO[str]) -> bool:
    """Return True once the server answers, False if it ends, takes too long or is not needed."""
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        if answers(f"http://{LOOPBACK}:{port}{kind.health}"):
            if sys.platform == "linux" and kind.pinned:
                for thread in Path(f"/proc/{server.pid}/task").iterdir():
                    with contextlib.suppress(ProcessLookupError):
                        os.sched_setaffinity(int(thread.name), os.sched_getaffinity(0))
            return True
        if _try_lock(lease, _EXCLUSIVE):
            return False
        time.sleep(_KEEPER_POLL / 4)
    return False


def _publish(record: Path, pid: int, port: int, password: str) -> None:
    """Write the record, whole or not at all. The umask makes it readable by this user only."""
    part = record.with_suffix(".part")
    part.unlink(missing_ok=True)
    fields = {
        "pid": pid,
        "url": f"http://{LOOPBACK}:{port}",
        "host": socket.gethostname(),
        "started": time.time(),
        "user": USER,
        "password": password,
    }
    part.write_text(json.dumps(fields))
    part.replace(record)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Stop the server and its children: by SIGTERM, then by SIGKILL."""
    server.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(_STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


if __name__ == "__main__":
    main()

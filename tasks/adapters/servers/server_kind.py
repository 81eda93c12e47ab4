"""The declaration of a server that fkd can run by itself."""

import http.client
import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class ServerKind:
    """How a server is started; `{port}` in arguments and environment becomes its port."""

    title: str
    folder: Path  # of its lease, record and log
    arguments: tuple[str, ...]
    health: str  # the path that answers once it serves; without one it is up once it can be reached
    environment: Mapping[str, str] = field(default_factory=dict)
    # A server that hands every query to another thread starts twice as fast on a single core.
    pinned: bool = False
    patience: float = 120.0  # seconds to the first answer; a busy machine needs many
    scheme: str = "http"
    port: int | None = None  # None: one that is free at that moment
    # Variables whose values are read from files: a declaration stands on a command line.
    secrets: Mapping[str, str] = field(default_factory=dict)
    probe: tuple[str, ...] = ()  # a command that succeeds once it serves, in place of `health`
    farewell: int = signal.SIGTERM  # asks it to end
    user: str | None = None  # as whom it runs, where that is not us
    # What `{data}` becomes: a folder which it is handed open, for its user may not enter ours.
    data: str | None = None

    def dumps(self) -> str:
        """Return the declaration as JSON, in which it travels to the keeper."""
        return json.dumps({**asdict(self), "folder": str(self.folder)})

    @classmethod
    def loads(cls, text: str) -> "ServerKind":
        """Return the declaration that `dumps` has written."""
        fields = json.loads(text)
        words = {name: tuple(fields[name]) for name in ("arguments", "probe")}
        return cls(**{**fields, **words, "folder": Path(fields["folder"])})

    def url(self, port: int) -> str:
        """Return where it listens."""
        return f"{self.scheme}://{LOOPBACK}:{port}"

    def serves(self, url: str) -> bool:
        """Return whether it does its work at an address of its own."""
        port = url.rpartition(":")[2]
        if self.probe:
            words = [word.replace("{port}", port) for word in self.probe]
            return subprocess.run(words, capture_output=True).returncode == 0
        if self.health:
            return answers(f"http://{LOOPBACK}:{port}{self.health}")
        with socket.socket() as plain:
            return plain.connect_ex((LOOPBACK, int(port))) == 0


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

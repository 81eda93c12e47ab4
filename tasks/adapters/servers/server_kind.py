"""The declaration of a server that fkd can run by itself."""

import http.client
import json
import socket
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

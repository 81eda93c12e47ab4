"""Where a stack lies: its folder, its secrets, its ports."""

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError
from tasks.adapters.servers.server_kind import LOOPBACK
from tasks.adapters.settings import Settings
from tasks.adapters.stack.keys import Keys


@dataclass(frozen=True)
class StackFolder:
    """The folder of a stack under FKD_HOME."""

    settings: Settings

    @property
    def folder(self) -> Path:
        """All that a stack keeps."""
        return self.settings.home / "stack"

    @property
    def keys(self) -> Keys:
        """Its secrets."""
        return Keys(self.folder / "secrets")

    @property
    def ports(self) -> dict[str, int]:
        """The port of each server, the same in every life; none before the first."""
        try:
            found: dict[str, int] = json.loads((self.folder / "ports.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return found

    def choose_ports(self, names: Sequence[str], first: int | None) -> None:
        """Take the ports from a first one on, those of before, or free ones."""
        self.folder.mkdir(parents=True, exist_ok=True)
        chosen: Mapping[str, int] = self.ports
        if first is not None:
            chosen = {name: first + i for i, name in enumerate(names)}
        elif set(chosen) != set(names):
            chosen = _free_ports(names)
        for name, port in chosen.items():
            _check_free(name, port)
        (self.folder / "ports.json").write_text(json.dumps(chosen))


def _free_ports(names: Sequence[str]) -> dict[str, int]:
    """Return loopback ports that were free a moment ago, all different."""
    probes = {name: socket.create_server((LOOPBACK, 0)) for name in names}
    found = {name: int(probe.getsockname()[1]) for name, probe in probes.items()}
    for probe in probes.values():
        probe.close()
    return found


def _check_free(name: str, port: int) -> None:
    """Refuse a port at which somebody listens, or which is none."""
    cause: str | None = "there is no such port"
    if 0 < port < 2**16:
        try:
            socket.create_server((LOOPBACK, port)).close()
        except OSError as error:
            cause = error.strerror
        else:
            return
    raise UserError(
        f"The stack's {name} is to listen at {LOOPBACK}:{port}, but it cannot ({cause}); end what "
        "listens there, or choose other ports by `fkd up --first-port N`."
    )

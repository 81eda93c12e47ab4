"""Whether the tracking server answers, asked in seconds."""

import socket
from urllib.parse import urlsplit

import httpx

from configs.errors import UserError

_ANSWER_SECONDS = 5.0
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}  # where no port is written


class TrackingUnreachableError(UserError):
    """The tracking server does not answer; everything computed is kept on disk."""

    def __init__(self, uri: str, cause: str) -> None:
        super().__init__(
            f"MLflow at {without_password(uri)} did not take the record ({cause}); everything "
            "computed is kept, and `fkd sync` or the same command records it once MLflow is back."
        )


def check_answers(uri: str) -> None:
    """Raise if the address is that of a server which does not answer.

    MLflow itself would try for minutes, a server and a database alike.
    """
    try:
        if uri.startswith("http"):
            httpx.get(uri.rstrip("/") + "/health", timeout=_ANSWER_SECONDS)
        elif (place := _host(uri)) is not None:
            socket.create_connection(place, timeout=_ANSWER_SECONDS).close()
    except (OSError, httpx.HTTPError) as error:
        raise TrackingUnreachableError(uri, f"no answer: {type(error).__name__}") from error


def without_password(uri: str) -> str:
    """Return an address as it may be shown."""
    secret = urlsplit(uri).password
    return uri.replace(f":{secret}@", ":***@") if secret else uri


def _host(uri: str) -> tuple[str, int] | None:
    """Return where a database listens, None for a file or a local socket."""
    parts = urlsplit(uri)
    port = parts.port or _PORTS.get(parts.scheme.split("+")[0])
    return (parts.hostname, port) if parts.hostname and port else None

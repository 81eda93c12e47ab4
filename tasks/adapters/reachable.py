"""Whether the tracking server answers, asked in seconds."""

import socket
from urllib.parse import urlsplit

import httpx

from configs.errors import UserError
from tasks.adapters.addresses import scrubbed, without_credentials
from tasks.adapters.authorities import trust
from tasks.adapters.deadline import within

ANSWER_SECONDS = 10.0  # in all, from the first byte asked to the last one answered
_UNKNOWN, _FORBIDDEN = 401, 403
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}  # where no port is written


class TrackingUnreachableError(UserError):
    """The tracking server does not answer; everything computed is kept on disk."""

    def __init__(self, uri: str, cause: str) -> None:
        said = " ".join(scrubbed(cause, uri).split())[:300]
        self.cause = said
        super().__init__(
            f"MLflow at {without_credentials(uri)} did not take the record ({said}); everything "
            "computed is kept, and `fkd sync` or the same command records it once MLflow is back."
        )


class TrackingRefusedError(TrackingUnreachableError):
    """The tracking server answers, but does not admit us."""

    def __init__(self, uri: str, *, known: bool) -> None:
        self.cause = "it does not admit us"
        what = "does not let this user do that (403)" if known else "does not admit us (401)"
        UserError.__init__(
            self,
            f"MLflow at {without_credentials(uri)} {what}; set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, to those of a user who may, then "
            "run the same command: what was computed is kept, and `fkd sync` records it too.",
        )


def not_recorded(uri: str, error: BaseException) -> TrackingUnreachableError:
    """Return that the server did not take a record, with what helps."""
    status = refused_status(error)
    if status is not None:
        return TrackingRefusedError(uri, known=status == _FORBIDDEN)
    return TrackingUnreachableError(uri, f"{type(error).__name__}: {error}")


def refused_status(error: BaseException) -> int | None:
    """Return with which status MLflow, or the library behind it, was sent away; None if not so."""
    own = getattr(error, "get_http_status_code", None)
    told = getattr(getattr(error, "response", None), "status_code", None)
    status = told if own is None else own()
    return int(status) if status in (_UNKNOWN, _FORBIDDEN) else None


def check_answers(uri: str) -> None:
    """Raise if the address is that of a server which does not answer.

    MLflow itself would try for minutes, a server and a database alike.
    """
    cause = _silence(uri)
    if cause is not None:
        # Outside of any handler: an error's chain would tell the address as it is.
        raise TrackingUnreachableError(uri, f"no answer: {cause}")


def _silence(uri: str) -> str | None:
    """Return why nobody answers at an address, None where somebody does."""
    try:
        if uri.startswith(("http://", "https://")):
            within(ANSWER_SECONDS, lambda: _get(uri))
        elif (place := _host(uri)) is not None:
            socket.create_connection(place, timeout=ANSWER_SECONDS).close()
    except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _get(uri: str) -> None:
    """Ask a server whether it lives; whatever it answers, it does."""
    # Nobody needs a name to be told, so none is sent.
    root = without_credentials(uri).partition("?")[0].rstrip("/")
    with httpx.Client(verify=trust(), timeout=ANSWER_SECONDS) as client:
        client.get(f"{root}/health")


def _host(uri: str) -> tuple[str, int] | None:
    """Return where a database listens, None for a file or a local socket."""
    parts = urlsplit(uri)
    port = parts.port or _PORTS.get(parts.scheme.split("+")[0])
    return (parts.hostname, port) if parts.hostname and port else None

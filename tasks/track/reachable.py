"""Addresses of MLflow, and whether a server answers there."""

import os
import queue
import socket
import ssl
import threading
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import httpx

from configs.errors import UserError
from tasks.storage.addresses import scrubbed, without_credentials
from tasks.storage.settings import Settings


def tracking_uri(settings: Settings) -> str:
    """Return the user's tracking address, or the database under FKD_HOME."""
    return settings.mlflow_tracking_uri or f"sqlite:///{settings.mlflow / 'mlflow.db'}"


def registry_uri(settings: Settings) -> str:
    """Return the user's address of registered models, or that of the runs."""
    return settings.mlflow_registry_uri or tracking_uri(settings)


VIEW = "fkd"  # the key of the page's columns and charts, kept in a tag of each experiment


def runs_page(root: str, experiment_id: str, run_id: str = "") -> str:
    """Return the address of an experiment's runs, or of one run, on an MLflow server."""
    place = f"{root.rstrip('/')}/#/experiments/{experiment_id}/runs"
    # Without the type, MLflow 3.17 opens a page on traces of language models.
    kind = "workflowType=machine_learning"
    return f"{place}/{run_id}?{kind}" if run_id else f"{place}?{kind}&viewStateShareKey={VIEW}"


T = TypeVar("T")


class DeadlineError(OSError):
    """The work was not done in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no whole answer within {seconds:g} s")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what the work returns, raise what it raises, or `DeadlineError`.

    A timeout of a socket counts from byte to byte, so that a server which sends one byte at a time
    is never given up by it. Here the work has a thread of its own, which nobody waits for any
    longer once the time is over; it ends with its connection, or with the process.
    """
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
    context = copy_context()

    def run() -> None:
        try:
            answers.put((context.run(work), None))
        except BaseException as error:  # raised again where it is waited for
            answers.put((None, error))

    threading.Thread(target=run, name="fkd-deadline", daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise DeadlineError(seconds) from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


# In the order of MLflow, then of the library by which it asks, then of OpenSSL.
_BUNDLES = (
    "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
)


_CLIENT = "MLFLOW_TRACKING_CLIENT_CERT_PATH"


def trust() -> ssl.SSLContext:
    """Return what a connection to MLflow trusts, by the same variables as MLflow's own client."""
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context = _context(*_bundle())
    if certificate := os.environ.get(_CLIENT):
        try:
            context.load_cert_chain(certificate)
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                f"{_CLIENT} must name a readable certificate with its key, but {certificate} is "
                f"not ({error}); correct it or unset it."
            ) from error
    return context


def share_trust() -> None:
    """Let MLflow's client know OpenSSL's own variable too, which the library behind it ignores."""
    name, path = _bundle()
    if name == "SSL_CERT_FILE" and path is not None:
        os.environ["REQUESTS_CA_BUNDLE"] = path


def _bundle() -> tuple[str, str | None]:
    """Return which variable names the trusted authorities, with its value."""
    return next(((name, os.environ[name]) for name in _BUNDLES if os.environ.get(name)), ("", None))


def _context(name: str, path: str | None) -> ssl.SSLContext:
    """Return a context that trusts a file or a folder of authorities, the system's without one."""
    if path is None:
        import certifi  # as the library behind MLflow's client does

        return ssl.create_default_context(cafile=certifi.where())
    try:
        if Path(path).is_dir():
            return ssl.create_default_context(capath=path)
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"{name} must name a file with certificates of authorities, but {path} is none "
            f"({error}); correct it or unset it."
        ) from error


_UNKNOWN, _FORBIDDEN = 401, 403
ANSWER_SECONDS = 10.0  # in all, from the first byte asked to the last one answered


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

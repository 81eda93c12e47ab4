"""Connections to MLflow: addresses, deadlines, TLS, errors, the default database."""

import os
import queue
import shutil
import socket
import sqlite3
import ssl
import threading
from collections.abc import Callable
from contextlib import closing
from contextvars import copy_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar
from urllib.parse import urlsplit

import certifi
import httpx
from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT
from mlflow.tracking import MlflowClient

from configs.errors import UserError
from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings, scrubbed, without_credentials

T = TypeVar("T")
VIEW = "fkd"  # key of the page's columns and charts, stored in a tag of each experiment
ANSWER_SECONDS = 10.0  # for the whole answer to a health check
_BYTES_PER_SECOND = 50_000  # slowest upload that is waited for
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}  # default ports
# Variables with trusted authorities, in the order of MLflow, requests and OpenSSL.
_AUTHORITIES = (
    "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
)
_CLIENT_CERTIFICATE = "MLFLOW_TRACKING_CLIENT_CERT_PATH"
_UNKNOWN, _FORBIDDEN = 401, 403
_UNFINISHED = ".making-"  # prefix of folders with databases that are being created
_LOCKED_SECONDS = 1.0


def tracking_uri(settings: Settings) -> str:
    """Return the user's tracking address, or the database under FKD_HOME."""
    return settings.mlflow_tracking_uri or f"sqlite:///{settings.mlflow / 'mlflow.db'}"


def registry_uri(settings: Settings) -> str:
    """Return the user's address of registered models, or that of the runs."""
    return settings.mlflow_registry_uri or tracking_uri(settings)


def runs_page(root: str, experiment_id: str, run_id: str = "") -> str:
    """Return the address of an experiment's runs, or of one run, on an MLflow server."""
    address = f"{root.rstrip('/')}/#/experiments/{experiment_id}/runs"
    # Without the type, MLflow 3.17 opens a page on traces of language models.
    kind = "workflowType=machine_learning"
    return f"{address}/{run_id}?{kind}" if run_id else f"{address}?{kind}&viewStateShareKey={VIEW}"


class DeadlineError(OSError):
    """A call did not end in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no whole answer within {seconds:g} s")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of `work`; raise its error, or `DeadlineError` after these seconds.

    A socket's timeout applies to each read, so a server that sends single bytes never exceeds it.
    Here the work runs in a thread, which is abandoned after the deadline.
    """
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
    context = copy_context()

    def run() -> None:
        try:
            answers.put((context.run(work), None))
        except BaseException as error:  # raised again by the caller
            answers.put((None, error))

    threading.Thread(target=run, name="fkd-deadline", daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise DeadlineError(seconds) from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


class TimedClient:
    """An MLflow client with a deadline for every call."""

    def __init__(self, settings: Settings) -> None:
        self._client = MlflowClient(tracking_uri(settings), registry_uri(settings))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)
        return lambda *values, **named: within(patience(), lambda: call(*values, **named))

    def log_artifacts(self, run: str, folder: Path) -> None:
        """Upload the files of a folder to a run, with a deadline by their size."""
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        within(patience(size), lambda: self._client.log_artifacts(run, str(folder)))

    def log_artifact(self, run: str, file: Path) -> None:
        """Upload a file to a run, with a deadline by its size."""
        size = file.stat().st_size
        within(patience(size), lambda: self._client.log_artifact(run, str(file)))


def patience(size: int = 0) -> float:
    """Return the deadline in seconds of a call that sends this number of bytes."""
    # MLflow's own variable applies to each read; a call is one to three requests.
    timeout = float(MLFLOW_HTTP_REQUEST_TIMEOUT.get())  # type: ignore[no-untyped-call]
    return 2.0 * timeout + size / _BYTES_PER_SECOND


class TrackingUnreachableError(UserError):
    """The tracking server does not answer. Everything computed is stored."""

    def __init__(self, uri: str, cause: str) -> None:
        self.cause = " ".join(scrubbed(cause, uri).split())[:300]
        super().__init__(
            f"MLflow at {without_credentials(uri)} did not take the record ({self.cause}). "
            "Everything computed is stored; run `fkd sync` or the same command to record it once "
            "MLflow is back."
        )


class TrackingRefusedError(TrackingUnreachableError):
    """The tracking server refuses the user."""

    def __init__(self, uri: str, *, known: bool) -> None:
        self.cause = "it refused the login"
        what = "does not allow this user to do that (403)" if known else "refused the login (401)"
        UserError.__init__(
            self,
            f"MLflow at {without_credentials(uri)} {what}. Set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, to those of a permitted user. "
            "Everything computed is stored; the same command or `fkd sync` records it.",
        )


class TrackingDamagedError(TrackingUnreachableError):
    """The database of runs cannot be used. Everything computed is stored."""

    def __init__(self, path: Path, cause: object) -> None:
        self.cause = " ".join(scrubbed(str(cause)).split())[:300].rstrip(". ")
        message = (
            f"MLflow cannot use its database {path} ({self.cause}); put a backup in its place, or "
            "move it away: a new one is created, and `fkd sync` records again what is stored."
        )
        if "revision" in self.cause or "out-of-date" in self.cause:
            message = (
                f"The MLflow database {path} was made by another version of MLflow. Copy it, then "
                f"run `mlflow db upgrade sqlite:///{path}`, or install the version that made it."
            )
        UserError.__init__(self, message)


def not_recorded(uri: str, error: BaseException) -> TrackingUnreachableError:
    """Return the error for a record that the server did not take."""
    status = refused_status(error)
    if status is not None:
        return TrackingRefusedError(uri, known=status == _FORBIDDEN)
    return TrackingUnreachableError(uri, f"{type(error).__name__}: {error}")


def refused_status(error: BaseException) -> int | None:
    """Return the status of an error of MLflow or requests if it is 401 or 403."""
    of_mlflow = getattr(error, "get_http_status_code", None)
    of_requests = getattr(getattr(error, "response", None), "status_code", None)
    status = of_requests if of_mlflow is None else of_mlflow()
    return int(status) if status in (_UNKNOWN, _FORBIDDEN) else None


def check_answers(uri: str) -> None:
    """Raise an error if the server or database at an address does not answer.

    MLflow itself would retry for minutes.
    """
    try:
        if uri.startswith(("http://", "https://")):
            within(ANSWER_SECONDS, lambda: _check_health(uri))
        else:
            parts = urlsplit(uri)
            port = parts.port or _PORTS.get(parts.scheme.split("+")[0])
            if parts.hostname and port:  # neither a file nor a local socket
                address = parts.hostname, port
                socket.create_connection(address, timeout=ANSWER_SECONDS).close()
        return
    except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        cause = f"no answer: {type(error).__name__}: {error}"
    # Outside of the handler, because the chain of errors would show the address with its password.
    raise TrackingUnreachableError(uri, cause)


def _check_health(uri: str) -> None:
    """Connect to a server without credentials. Any answer counts."""
    root = without_credentials(uri).partition("?")[0].rstrip("/")
    with httpx.Client(verify=_tls_context(), timeout=ANSWER_SECONDS) as client:
        client.get(f"{root}/health")


def _tls_context() -> ssl.SSLContext:
    """Return the TLS settings of a connection to MLflow, from the variables of its own client."""
    name, path = _authorities()
    try:
        folder = bool(path) and Path(path).is_dir()
        context = ssl.create_default_context(
            cafile=None if folder else path or certifi.where(), capath=path if folder else None
        )
        if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate := os.environ.get(_CLIENT_CERTIFICATE):
            name, path = _CLIENT_CERTIFICATE, certificate
            context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"{name} must name a readable file with certificates, got {path} ({error}). Correct it "
            "or unset it."
        ) from error
    return context


def _authorities() -> tuple[str, str]:
    """Return the variable that names the trusted authorities, and its value."""
    found = ((name, os.environ.get(name, "")) for name in _AUTHORITIES)
    return next(((name, path) for name, path in found if path), ("", ""))


def share_trust() -> None:
    """Apply OpenSSL's variable to MLflow's client, whose HTTP library ignores it."""
    name, path = _authorities()
    if name == "SSL_CERT_FILE":
        os.environ["REQUESTS_CA_BUNDLE"] = path


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a sqlite address, None for any other address."""
    scheme, colon, place = uri.partition(":///")
    path = place.partition("?")[0]
    if not colon or scheme.split("+")[0] != "sqlite" or path in ("", ":memory:"):
        return None
    return None if path.startswith("file:") else Path(path)


def prepare_database(
    path: Path, make: Callable[[Path], None], faults: tuple[type[Exception], ...]
) -> None:
    """Create a database if there is none, and check that MLflow can open it.

    Parameters
    ----------
    path
        Its file. An empty file counts as absent, as it does for sqlite.
    make
        Creates a database at a path, or opens the existing one. One process calls it at a time.
    faults
        Errors of `make`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or not path.stat().st_size:
        # In a folder of its own, then moved as a whole.
        for left in path.parent.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        folder = Path(mkdtemp(prefix=_UNFINISHED, dir=path.parent))
        try:
            make(folder / path.name)
            # Copied, because MLflow may still have the file open.
            write_atomic(path, (folder / path.name).read_bytes())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    check_readable(path)
    try:
        make(path)
        return
    except faults as error:
        cause = TrackingDamagedError(path, error)
    check_readable(path, thoroughly=True)
    raise cause


def check_readable(path: Path, *, thoroughly: bool = False) -> None:
    """Raise an error if the file is not a complete database."""
    question = "PRAGMA quick_check(1)" if thoroughly else "SELECT count(*) FROM sqlite_master"
    try:
        with closing(sqlite3.connect(path, timeout=_LOCKED_SECONDS)) as database:
            (answer,) = database.execute(question).fetchone()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            return  # by a process that writes to it
        raise TrackingDamagedError(path, error) from error
    if thoroughly and answer != "ok":
        raise TrackingDamagedError(path, answer)

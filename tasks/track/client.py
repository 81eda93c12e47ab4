"""Addresses of MLflow, and whether a server answers there."""

import os
import queue
import shutil
import socket
import sqlite3
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import copy_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from filelock import FileLock
from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT
from mlflow.tracking import MlflowClient

from configs.errors import UserError
from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings, scrubbed, without_credentials


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


def write_lock(settings: Settings) -> FileLock:
    """Return the lock under which the default database of this FKD_HOME is created."""
    settings.mlflow.mkdir(parents=True, exist_ok=True)
    return FileLock(settings.mlflow / "write.lock")


_BYTES_PER_SECOND = 50_000  # of an upload that is not given up


class TimedClient:
    """An MLflow client whose every call is given up after some seconds in all.

    Parameters
    ----------
    settings
        Where runs are kept, where registered models.
    """

    def __init__(self, settings: Settings) -> None:
        self._client = MlflowClient(tracking_uri(settings), registry_uri(settings))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)
        return lambda *values, **named: within(patience(), lambda: call(*values, **named))

    def log_artifacts(self, run: str, folder: Path) -> None:
        """Put the files of a folder on a run, in a time that grows with their size."""
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        within(patience(size), lambda: self._client.log_artifacts(run, str(folder)))

    def log_artifact(self, run: str, file: Path) -> None:
        """Put one file on a run, in a time that grows with its size."""
        size = file.stat().st_size
        within(patience(size), lambda: self._client.log_artifact(run, str(file)))


def patience(size: int = 0) -> float:
    """Return how many seconds one call may take that sends so many bytes."""
    # MLflow's own variable counts from byte to byte; a call is one to three requests.
    timeout = float(MLFLOW_HTTP_REQUEST_TIMEOUT.get())  # type: ignore[no-untyped-call]
    return 2.0 * timeout + size / _BYTES_PER_SECOND


_ASIDE = ".making-"
_LOCKED_SECONDS = 1.0
_SIDE_FILES = ("-journal", "-wal", "-shm")
# What a database that somebody has used holds; the second experiment is the first of a person.
_USED = (
    "SELECT 1 FROM runs LIMIT 1",
    "SELECT 1 FROM registered_models LIMIT 1",
    "SELECT 1 FROM experiments WHERE experiment_id <> 0 LIMIT 1",
)


class TrackingDamagedError(TrackingUnreachableError):
    """The database of runs cannot be used; everything computed is kept on disk."""

    def __init__(self, sentence: str) -> None:
        UserError.__init__(self, sentence)


def damaged(path: Path, cause: object) -> TrackingDamagedError:
    """Return the error of a database that cannot be read."""
    said = " ".join(scrubbed(str(cause)).split())[:300].rstrip(". ")
    return TrackingDamagedError(
        f"MLflow cannot use its database {path} ({said}); put a backup in its place, or move it "
        "away: a new one is made then, and `fkd sync` records again what is stored here."
    )


def outdated(path: Path) -> TrackingDamagedError:
    """Return the error of a database of another version of MLflow."""
    return TrackingDamagedError(
        f"The MLflow database {path} was made by another version of MLflow; keep a copy of it, "
        f"then run `mlflow db upgrade sqlite:///{path}`, or install the version that made it."
    )


def sqlite_path(uri: str) -> Path | None:
    """Return the file behind a sqlite address, None for any other address."""
    scheme, colon, place = uri.partition(":///")
    path = place.partition("?")[0]
    if not colon or scheme.split("+")[0] != "sqlite" or path in ("", ":memory:"):
        return None
    return None if path.startswith("file:") else Path(path)


def prepare_database(
    path: Path, make: Callable[[Path], None], faults: tuple[type[Exception], ...]
) -> None:
    """Let a database be there that MLflow opens, or say what is wrong with it.

    Parameters
    ----------
    path
        Where it belongs. An empty file there counts as absent, as it does for sqlite.
    make
        Makes one at the path that it is given, in seconds to minutes, or opens the one that is
        there. Called by one process at a time, which is the caller's to see to.
    faults
        What `make` raises where it cannot.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or not path.stat().st_size:
        _make_aside(path, make)
    check_readable(path)
    if not _is_used(path) and not _opens(path, make, faults):
        # Its making was interrupted; nothing is lost with it.
        for suffix in _SIDE_FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        _make_aside(path, make)
    try:
        make(path)
        return
    except faults as error:
        cause = error
    if "revision" in str(cause) or "out-of-date" in str(cause):
        raise outdated(path)
    check_readable(path, thoroughly=True)
    raise damaged(path, cause)


def _make_aside(path: Path, make: Callable[[Path], None]) -> None:
    """Make a database in a folder of its own, then move it in: nobody ever meets a half of it."""
    for left in path.parent.glob(f"{_ASIDE}*"):
        shutil.rmtree(left, ignore_errors=True)
    with _aside(path) as folder:
        make(folder / path.name)
        # Copied: whoever made it may hold the file open still.
        write_atomic(path, (folder / path.name).read_bytes())


def _opens(path: Path, make: Callable[[Path], None], faults: tuple[type[Exception], ...]) -> bool:
    """Return whether MLflow opens a copy: it would hold the database itself open ever after."""
    with _aside(path) as folder:
        shutil.copy(path, folder)
        try:
            make(folder / path.name)
        except faults:
            return False
        return True


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """Yield a folder beside a file, gone afterwards."""
    folder = Path(mkdtemp(prefix=_ASIDE, dir=path.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_readable(path: Path, *, thoroughly: bool = False) -> None:
    """Raise where the file is no database, or not a whole one."""
    question = "PRAGMA quick_check(1)" if thoroughly else "SELECT count(*) FROM sqlite_master"
    try:
        with closing(sqlite3.connect(path, timeout=_LOCKED_SECONDS)) as database:
            (answer,) = database.execute(question).fetchone()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return  # somebody writes, so it is one
        raise damaged(path, error) from error
    except sqlite3.DatabaseError as error:
        raise damaged(path, error) from error
    if thoroughly and answer != "ok":
        raise damaged(path, answer)


def _is_used(path: Path) -> bool:
    """Return whether a database holds anything of anybody's."""
    with closing(sqlite3.connect(path, timeout=_LOCKED_SECONDS)) as database:
        return any(_answers(database, question) for question in _USED)


def _answers(database: sqlite3.Connection, question: str) -> bool:
    """Return whether a question has an answer; one about an absent table has none."""
    try:
        return database.execute(question).fetchone() is not None
    except sqlite3.OperationalError as error:
        return "no such" not in str(error)  # when in doubt somebody's

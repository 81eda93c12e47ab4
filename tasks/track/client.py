"""MLflow's client with a deadline for each call, and its default database."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from filelock import FileLock
from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT
from mlflow.tracking import MlflowClient

from configs.errors import UserError
from tasks.storage.addresses import scrubbed
from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings
from tasks.track.reachable import TrackingUnreachableError, registry_uri, tracking_uri, within


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

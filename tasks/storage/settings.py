"""The environment variables that fkd reads, in the only module that reads them."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from configs.errors import UserError
from tasks.storage.addresses import credentials, without_credentials
from tasks.storage.files import full_disk

LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_VARIABLES = {"--log-format": "FKD_LOG_FORMAT", "--log-level": "FKD_LOG_LEVEL"}
_LOG_WORDS = dict(zip(LOG_VARIABLES.items(), (LOG_FORMATS, LOG_LEVELS), strict=True))
_LOG_USUAL = {"--log-format": "text", "--log-level": "info"}


@dataclass(frozen=True)
class LogForm:
    """How a command writes what it has to say, from which level on."""

    format: str
    level: str


@dataclass(frozen=True)
class Settings:
    """Where state lives, which servers the user has named.

    What travels in a task is where the store is, no other address: it may hold a password. On the
    worker, what is local lies in the worker's own FKD_HOME; in the driver's only where that holds
    the store, which both then see.
    """

    home: Path
    mirror: str | None = None
    prefect_api_url: str | None = None
    mlflow_tracking_uri: str | None = None
    mlflow_registry_uri: str | None = None  # of registered models, where apart from the runs
    shared: str | None = None  # FKD_STORE, as an absolute path or an address; None: in the home
    dask_scheduler_address: str | None = None

    def for_workers(self) -> "Settings":
        """Return what tasks carry: the folders, the store, no address of a server."""
        return Settings(self.home, shared=self.shared)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.home if self.shared is None else None, self.shared)

    @property
    def store(self) -> str:
        """Where the state lies that processes share: a folder, or an address."""
        return str(self.home / "store") if self.shared is None else self.shared

    @property
    def downloads(self) -> Path:
        """Fetched files, by content."""
        return self.home / "downloads"

    @property
    def features(self) -> Path:
        """Features of rows from pass to pass, by key; each machine makes its own."""
        return self.home / "features"

    @property
    def experiments(self) -> Path:
        """Results, figures and reports, by experiment name."""
        return self.home / "experiments"

    @property
    def mlflow(self) -> Path:
        """The default tracking database with its artifacts."""
        return self.home / "mlflow"

    @property
    def prefect(self) -> Path:
        """The default Prefect database with its server's logs."""
        return self.home / "prefect"


def read_settings() -> Settings:
    """Return the settings of this process's environment, read anew at every call."""
    return Settings(
        home=Path(os.environ.get("FKD_HOME") or ".fkd").expanduser().absolute(),
        mirror=os.environ.get("FKD_DATA_MIRROR") or None,
        prefect_api_url=os.environ.get("PREFECT_API_URL") or None,
        mlflow_tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or None,
        mlflow_registry_uri=os.environ.get("MLFLOW_REGISTRY_URI") or None,
        shared=_store_address(os.environ.get("FKD_STORE") or None),
        dask_scheduler_address=os.environ.get("DASK_SCHEDULER_ADDRESS") or None,
    )


def read_log_form(options: Mapping[str, str] | None = None, *, strict: bool = True) -> LogForm:
    """Return how lines are written: by options of the command line, else as the environment says.

    Parameters
    ----------
    options
        --log-format, --log-level with their values, as far as they are given.
    strict
        Refuse a word that is not known; else the usual one stands for it.
    """
    found = {}
    for (option, variable), words in _LOG_WORDS.items():
        given = (options or {}).get(option)
        value = os.environ.get(variable) if given is None else given
        found[option] = value if value in words else _LOG_USUAL[option]
        if (strict and value not in (None, "", *words)) or given == "":
            name = variable if given is None else option
            raise UserError(f"{name} must be one of {', '.join(words)}, got {value!r}.")
    return LogForm(*found.values())


def child_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with more variables, for a process that it starts."""
    return {**os.environ, **more}


def _store_address(named: str | None) -> str | None:
    """Return where FKD_STORE is: a folder by its absolute path, else an address without secrets."""
    if named is None:
        return None
    kind, mark, place = named.partition("://")
    if not mark or kind == "file":
        return str(Path(place if mark else named).expanduser().absolute())
    if credentials(named):
        raise UserError(
            f"FKD_STORE must hold neither name nor password, as {without_credentials(named)} does "
            "not: they are taken from this machine's own variables (AWS_ACCESS_KEY_ID with "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)."
        )
    return named.rstrip("/")


def _arrived(home: Path | None, shared: str | None) -> Settings:
    """Return the settings of a task on the worker that it has come to."""
    return Settings(home or _own_home(), shared=shared)


@cache
def _own_home() -> Path:
    """Return this process's FKD_HOME, a private folder for as long as it lives if it has none."""
    named = os.environ.get("FKD_HOME")
    if named:
        return Path(named).expanduser().absolute()
    folder = tempfile.mkdtemp(prefix="fkd-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def read_secret(reference: str) -> str:
    """Return what stands behind env:NAME or file:PATH, without the white space around it."""
    kind, _, place = reference.partition(":")
    try:
        found = os.environ[place] if kind == "env" else Path(place).expanduser().read_text("utf-8")
    except KeyError:
        raise UserError(f"the environment variable {place} is not set.") from None
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(f"the file {place} cannot be read ({cause}).") from None
    if not found.strip():
        raise UserError(f"{reference} names something that is empty.")
    return found.strip()


def ensure_writable(home: Path) -> None:
    """Create FKD_HOME for this user alone, or say which folder cannot be written.

    A folder that is there already keeps its rights: whoever made it decides who shares it.
    """
    if "?" in str(home):
        raise UserError(
            f"FKD_HOME must not contain a question mark, got {home}: behind it the address of a "
            "database ends; choose another folder."
        )
    try:
        _create(home)
        probe = home / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"FKD_HOME must be a writable folder, but {home} is not ({error.strerror}); "
            "set FKD_HOME to a folder you may write to, on a disk with room."
        ) from error
    if (full := full_disk(home)) is not None:
        raise full


def _create(home: Path) -> None:
    """Create the folder so that only its owner may enter it, whatever the umask."""
    home.parent.mkdir(parents=True, exist_ok=True)
    try:
        home.mkdir(mode=0o700)
    except FileExistsError:
        if not home.is_dir():
            raise
    else:
        home.chmod(0o700)  # a umask may have taken rights of the owner too


def quiet_ecosystem() -> None:
    """Switch off what Prefect, MLflow and Alembic would send or print, unless the user chose."""
    for name, value in {
        "DO_NOT_TRACK": "true",  # MLflow tests for the word "true"
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        # MLflow's own retries take minutes, and repeat a lost request that had been carried out.
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
        "GIT_PYTHON_REFRESH": "quiet",
    }.items():
        os.environ.setdefault(name, value)

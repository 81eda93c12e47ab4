"""The environment variables that fkd reads, in the only module that reads them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError
from tasks.adapters.disk import full_disk


@dataclass(frozen=True)
class Settings:
    """Where state lives, which servers the user has named."""

    home: Path
    mirror: str | None = None
    prefect_api_url: str | None = None
    mlflow_tracking_uri: str | None = None
    mlflow_registry_uri: str | None = None  # of registered models, where apart from the runs
    dask_scheduler_address: str | None = None

    def for_workers(self) -> "Settings":
        """Return what tasks carry: the folders, no address, which may hold a password."""
        return Settings(self.home)

    @property
    def downloads(self) -> Path:
        """Fetched files, by content."""
        return self.home / "downloads"

    @property
    def prepared(self) -> Path:
        """Prepared tables, by digest."""
        return self.home / "prepared"

    @property
    def store(self) -> Path:
        """Trial records, by key."""
        return self.home / "store"

    @property
    def moments(self) -> Path:
        """Shared feature maps with sums over rows under them, by key."""
        return self.home / "moments"

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
        dask_scheduler_address=os.environ.get("DASK_SCHEDULER_ADDRESS") or None,
    )


def child_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with more variables, for a process that it starts."""
    return {**os.environ, **more}


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

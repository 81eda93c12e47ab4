"""MLflow's client with an end to every call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT
from mlflow.tracking import MlflowClient

from tasks.adapters.deadline import within
from tasks.adapters.settings import Settings
from tasks.adapters.tracking_places import registry_uri, tracking_uri

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

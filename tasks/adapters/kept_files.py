"""Small files on an MLflow run, written once, read back."""

import tempfile
from pathlib import Path, PurePosixPath

from tasks.adapters.timed_client import TimedClient
from tasks.adapters.tracking import Tracking


def keep_file(tracking: Tracking, run: str, name: str, data: bytes) -> None:
    """Put a file on a run under a name such as folder/file; one that is there stays."""

    def work() -> None:
        if has_file(tracking.client, run, name):
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            tracking.client.log_artifacts(run, Path(folder))

    tracking.safely(work)


def has_file(client: TimedClient, run: str, name: str) -> bool:
    """Return whether a run has a file of that name."""
    folder = str(PurePosixPath(name).parent)
    found = client.list_artifacts(run, None if folder == "." else folder)
    return any(file.path == name for file in found)


def read_file(client: TimedClient, run: str, name: str) -> bytes | None:
    """Return a file of a run, None where it has none of that name."""
    if not has_file(client, run, name):
        return None
    with tempfile.TemporaryDirectory() as folder:
        return Path(client.download_artifacts(run, name, folder)).read_bytes()

"""The pages of Prefect, MLflow, Dask: started here, or pointed at where they already are."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from flows.progress import watcher
from tasks.adapters.servers.prefect_server import upcoming_prefect_server
from tasks.adapters.servers.server_kind import LOOPBACK, ServerKind
from tasks.adapters.servers.shared_server import server_lease
from tasks.adapters.settings import Settings, ensure_writable, read_settings

_POLL = 1.0


def open_pages() -> None:
    """Show the addresses of all pages; those started by us stay until Ctrl-C or SIGTERM."""
    settings = read_settings()
    ensure_writable(settings.home)
    with (
        suppress(KeyboardInterrupt),
        # Both start at the same time: each takes seconds.
        upcoming_prefect_server(settings) as connect,
        _mlflow_page(settings) as mlflow,
    ):
        watcher().say(f"Prefect  {connect().removesuffix('/api')}")
        watcher().say(f"MLflow   {mlflow}")
        watcher().say("Ctrl-C closes what was started for this")
        _follow_dask(settings.home / "dask.json")
    watcher().say("The pages are closed")


def mlflow_kind(settings: Settings, store: str) -> ServerKind:
    """Return how MLflow's pages are started over a store, on loopback."""
    command = (sys.executable, "-P", "-m", "mlflow", "server", "--workers", "1")
    return ServerKind(
        title="MLflow",
        folder=settings.mlflow / "server",
        arguments=(
            *(*command, "--host", LOOPBACK, "--port", "{port}", "--backend-store-uri", store),
            *("--artifacts-destination", str(settings.mlflow / "artifacts")),
        ),
        health="/health",
        environment={
            # Seven job consumers, 1.7 GB, of which these pages need none.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
    )


@contextmanager
def _mlflow_page(settings: Settings) -> Iterator[str]:
    """Yield the address of the user's MLflow server, or of one that we run over the store."""
    from tasks.adapters.tracking import tracking_uri

    store = tracking_uri(settings)
    if store.startswith(("http://", "https://")):
        yield store
        return
    with server_lease(mlflow_kind(settings, store)) as lease:
        # A run that starts now must not create the database at the same time.
        with FileLock(settings.mlflow / "create.lock"):
            url = lease.url()
        yield url


def _follow_dask(record: Path) -> None:
    """Say where the Dask page is whenever a run opens one, until interrupted."""
    shown = dask_page(record)
    watcher().say(f"Dask     {shown or 'appears here while a run is on'}")
    while True:
        time.sleep(_POLL)
        page = dask_page(record)
        if page is not None and page != shown:
            watcher().say(f"Dask     {page}")
        shown = page


def dask_page(record: Path) -> str | None:
    """Return the dashboard of the run that is on, None without one or if it was killed."""
    try:
        found = json.loads(record.read_bytes())
        os.kill(int(found["pid"]), 0)
        return str(found["dashboard"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

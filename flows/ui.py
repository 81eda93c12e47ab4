"""The pages of Prefect, MLflow, Dask: started here, or pointed at where they already are."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flows.progress import watcher
from tasks.adapters.addresses import without_credentials
from tasks.adapters.servers.mlflow_server import mlflow_kind
from tasks.adapters.servers.prefect_environment import set_variables
from tasks.adapters.servers.prefect_server import upcoming_prefect_server
from tasks.adapters.servers.shared_server import server_lease
from tasks.adapters.settings import Settings, ensure_writable, read_settings
from tasks.adapters.tracking_places import registry_uri, runs_page, tracking_uri

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
        watcher().say(f"Prefect  {without_credentials(connect()).removesuffix('/api')}")
        watcher().say(f"MLflow   {mlflow}")
        _show_experiments(settings, mlflow)
        watcher().say("Ctrl-C closes what was started for this")
        _follow_dask(settings.home / "dask.json")
    watcher().say("The pages are closed")


def _show_experiments(settings: Settings, root: str) -> None:
    """Say on which page of MLflow each experiment of this home is."""
    # Imported late: it brings the library, while servers are to start at once.
    from tasks.study.known_runs import recorded_experiments

    for name, experiment in recorded_experiments(settings).items():
        watcher().say(f"  {name}  {runs_page(root, experiment)}")


@contextmanager
def _mlflow_page(settings: Settings) -> Iterator[str]:
    """Yield the address of the user's MLflow server, or of one that we run over the store."""
    from tasks.adapters.tracking import prepare_stores

    store = tracking_uri(settings)
    if store.startswith(("http://", "https://")):
        yield without_credentials(store)
        return
    # The server would make its tables in place, and leave half of them when it is interrupted.
    prepare_stores(settings)
    # By the environment, because every user of a machine may read command lines.
    stores = {
        "MLFLOW_BACKEND_STORE_URI": store,
        "MLFLOW_REGISTRY_STORE_URI": registry_uri(settings),
    }
    with (
        set_variables(stores),
        server_lease(mlflow_kind(settings)) as lease,
    ):
        yield lease.url()


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

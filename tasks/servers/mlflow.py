"""The MLflow server of `fkd ui`: over the runs of this FKD_HOME, on loopback, behind a password."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.servers.prefect import set_variables
from tasks.servers.shared_server import LOOPBACK, USER, RunningServer, ServerKind, server_lease
from tasks.storage.settings import Settings


@contextmanager
def mlflow_server(settings: Settings) -> Iterator[RunningServer]:
    """Yield an MLflow server over the runs of this FKD_HOME, started if no process uses one yet.

    It listens on loopback and asks for a password.
    """
    from tasks.track.client import registry_uri, tracking_uri

    folder = settings.mlflow / "server"
    config, users = folder / "auth.ini", folder / "users.db"
    command = (sys.executable, "-P", "-m", "mlflow", "server", "--workers", "1")
    kind = ServerKind(
        title="MLflow",
        folder=folder,
        arguments=(
            *(*command, "--app-name", "basic-auth", "--host", LOOPBACK, "--port", "{port}"),
            *("--artifacts-destination", str(settings.mlflow / "artifacts")),
        ),
        health="/health",
        environment={
            "MLFLOW_AUTH_CONFIG_PATH": str(config),
            "MLFLOW_AUTH_ADMIN_PASSWORD": "{password}",
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "{password}",
            # Seven job consumers would use 1.7 GB, and the pages need none.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
        fresh=(users.name,),  # MLflow keeps the password of an existing user
    )
    folder.mkdir(parents=True, exist_ok=True)
    config.write_text(
        "[mlflow]\n"
        "default_permission = NO_PERMISSIONS\n"
        f"database_uri = sqlite:///{users}\n"
        f"admin_username = {USER}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    # The addresses may contain passwords. They are inherited, because the declaration is on the
    # command line of the keeper, which other users of the machine can read.
    stores = {
        "MLFLOW_BACKEND_STORE_URI": tracking_uri(settings),
        "MLFLOW_REGISTRY_STORE_URI": registry_uri(settings),
    }
    with set_variables(stores), server_lease(kind) as lease:
        yield lease.wait()

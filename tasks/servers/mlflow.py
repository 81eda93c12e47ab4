"""The MLflow server that fkd can run by itself."""

import sys

from tasks.servers.keeper import LOOPBACK, ServerKind
from tasks.storage.settings import Settings


def mlflow_kind(settings: Settings) -> ServerKind:
    """Return how MLflow's pages are started on loopback, over the store of the environment."""
    command = (sys.executable, "-P", "-m", "mlflow", "server", "--workers", "1")
    return ServerKind(
        title="MLflow",
        folder=settings.mlflow / "server",
        arguments=(
            *(*command, "--host", LOOPBACK, "--port", "{port}"),
            *("--artifacts-destination", str(settings.mlflow / "artifacts")),
        ),
        health="/health",
        environment={
            # Seven job consumers, 1.7 GB, of which these pages need none.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
    )

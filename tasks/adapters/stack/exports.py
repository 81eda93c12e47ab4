"""What processes need to know of a stack, as environment variables."""

import shlex

from tasks.adapters.servers.server_kind import LOOPBACK
from tasks.adapters.stack.database import address
from tasks.adapters.stack.parts import BUCKET, storage
from tasks.adapters.stack.stack_folder import StackFolder

USER = "fkd"  # of MLflow, of Prefect, of the object store


def write_secrets(place: StackFolder) -> None:
    """Make the secrets of a new life, with the files that servers take them from."""
    keys, port = place.keys, place.ports["postgres"]
    keys.renew()
    keys.write("mlflow-store", address(keys, port, "mlflow"))
    keys.write("prefect-store", address(keys, port, "prefect", "asyncpg"))
    keys.write("prefect-login", f"{USER}:{keys.read('prefect')}")
    keys.write("s3-login", f'"{BUCKET},{keys.read("s3")}"')  # one entry of a list
    users = place.folder / "mlflow" / "users.db"
    users.parent.mkdir(parents=True, exist_ok=True)
    users.unlink(missing_ok=True)  # they have the passwords of the life before
    # A password is the same for as long as a stack lives: it need not be hashed at each request.
    keys.write(
        "mlflow-users.ini",
        "[mlflow]\ndefault_permission = NO_PERMISSIONS\nauth_cache_ttl_seconds = 60\n"
        f"database_uri = sqlite:///{str(users).replace('%', '%%')}\nadmin_username = {USER}\n",
    )
    keys.write("environment", exports(place))


def variables(place: StackFolder) -> dict[str, str]:
    """Return what lets fkd, Prefect, MLflow, Dask use a stack; secrets are among it."""
    ports, keys = place.ports, place.keys
    certificate, key = keys.file("dask.crt"), keys.file("dask.key")
    return {
        "FKD_HOME": str(place.settings.home),
        **storage(place),
        "AWS_SECRET_ACCESS_KEY": keys.read("s3"),
        "PREFECT_API_URL": f"http://{LOOPBACK}:{ports['prefect']}/api",
        "PREFECT_API_AUTH_STRING": keys.read("prefect-login"),
        "MLFLOW_TRACKING_URI": f"http://{LOOPBACK}:{ports['mlflow']}",
        "MLFLOW_TRACKING_USERNAME": USER,
        "MLFLOW_TRACKING_PASSWORD": keys.read("mlflow"),
        "DASK_SCHEDULER_ADDRESS": f"tls://{LOOPBACK}:{ports['scheduler']}",
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": certificate,
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT": certificate,
        "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": key,
    }


def exports(place: StackFolder) -> str:
    """Return the variables as a shell reads them."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables(place).items()]
    return "\n".join([*lines, ""])

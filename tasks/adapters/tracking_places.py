"""Where runs, where registered models are kept, on which pages they are shown."""

from filelock import FileLock

from tasks.adapters.settings import Settings


def tracking_uri(settings: Settings) -> str:
    """Return the user's tracking address, or the database under FKD_HOME."""
    return settings.mlflow_tracking_uri or f"sqlite:///{settings.mlflow / 'mlflow.db'}"


def registry_uri(settings: Settings) -> str:
    """Return the user's address of registered models, or that of the runs."""
    return settings.mlflow_registry_uri or tracking_uri(settings)


def runs_page(root: str, experiment_id: str, run_id: str = "") -> str:
    """Return the page of an experiment's runs, or of one run, on the MLflow server at a root."""
    place = f"{root.rstrip('/')}/#/experiments/{experiment_id}/runs{'/' if run_id else ''}{run_id}"
    # Without it MLflow 3.17 opens a page on traces of language models, whatever kind of experiment
    # it is said to be.
    return f"{place}?workflowType=machine_learning"


def write_lock(settings: Settings) -> FileLock:
    """Return the lock under which the default database of this FKD_HOME is created."""
    settings.mlflow.mkdir(parents=True, exist_ok=True)
    return FileLock(settings.mlflow / "write.lock")

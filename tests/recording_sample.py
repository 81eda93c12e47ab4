"""Trials that several homes record, and a check of what the MLflow server holds afterwards."""

import sys
from pathlib import Path

from mlflow.tracking import MlflowClient

from tasks.storage.settings import Settings
from tasks.track.client import tracking_uri
from tasks.track.runs import RunDetails, Span, Tracking, TrialRun

EXPERIMENT = "recording"


def home_of(folder: Path, name: str, uri: str, store: str) -> Settings:
    """A home of its own on a store and an MLflow server that it shares with others."""
    return Settings(folder / name, mlflow_tracking_uri=uri, shared=store)


def trials_of(identity: str, count: int) -> list[TrialRun]:
    """Trials with one number each."""
    span = Span(1_700_000_000_000, 2.0)
    return [
        TrialRun(
            f"{identity}-{i}",
            f"trial {i}",
            {},
            RunDetails("A trial.", {"method": "dummy"}, {"mae_mean": i + 0.25}, span=span),
        )
        for i in range(count)
    ]


def record(settings: Settings, identity: str, count: int) -> int:
    """Record the trials of an identity; return how many were new."""
    tracking = Tracking(settings, EXPERIMENT)
    parent = tracking.parent_run(identity, identity, {}, RunDetails("All.", {"rows": "2"}))
    return tracking.log_trials(parent, trials_of(identity, count))


def parents(settings: Settings, identity: str) -> list[str]:
    """The parent runs of an identity, whichever store they belong to."""
    client = MlflowClient(tracking_uri(settings))
    place = client.get_experiment_by_name(EXPERIMENT).experiment_id
    found = client.search_runs([place], f"tags.`fkd.identity` = '{identity}'")
    return [run.info.run_id for run in found]


def check_recorded(settings: Settings, identity: str, count: int) -> None:
    """Assert that each parent of an identity has one complete run per trial."""
    client = MlflowClient(tracking_uri(settings))
    place = client.get_experiment_by_name(EXPERIMENT).experiment_id
    for parent in parents(settings, identity):
        children = client.search_runs(
            [place], f"tags.`mlflow.parentRunId` = '{parent}'", max_results=10_000
        )
        assert {run.info.status for run in children} == {"FINISHED"}
        keys = sorted(run.data.tags["fkd.trial"] for run in children)
        assert keys == sorted(trial.key for trial in trials_of(identity, count))
        for run in children:
            (value,) = client.get_metric_history(run.info.run_id, "mae_mean")
            assert value.value == float(run.data.tags["fkd.trial"].rpartition("-")[2]) + 0.25


if __name__ == "__main__":  # FOLDER NAME ADDRESS STORE IDENTITY COUNT, once a line comes
    folder, name, uri, store, identity, count = sys.argv[1:]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(str(record(home_of(Path(folder), name, uri, store), identity, int(count))))

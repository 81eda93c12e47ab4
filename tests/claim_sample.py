"""Trials as several homes record them, with what their server then holds."""

import sys
from pathlib import Path

from mlflow.tracking import MlflowClient

from tasks.adapters.settings import Settings
from tasks.adapters.tracked import RunDetails, Span, TrialRun
from tasks.adapters.tracking import Tracking
from tasks.adapters.tracking_places import tracking_uri

EXPERIMENT = "claims"


def home_of(folder: Path, name: str, uri: str) -> Settings:
    """A home of its own whose runs go to one server."""
    return Settings(folder / name, mlflow_tracking_uri=uri)


def trials_of(identity: str, count: int) -> list[TrialRun]:
    """Trials with a number on each of two folds."""
    details = RunDetails("A trial.", {"method": "dummy"}, span=Span(1_700_000_000_000, 2.0))
    return [
        TrialRun(f"{identity}-{i}", f"trial {i}", {}, {"fold/mae": [i, i + 0.5]}, {}, details)
        for i in range(count)
    ]


def record(settings: Settings, identity: str, count: int) -> int:
    """How many trials of an identity were recorded from this home."""
    tracking = Tracking(settings, EXPERIMENT)
    parent = tracking.parent_run(identity, identity, {}, RunDetails("All.", {"rows": "2"}))
    return tracking.log_trials(parent, trials_of(identity, count))


def check_recorded(settings: Settings, identity: str, count: int) -> dict[str, str]:
    """The run of every trial by key, after it was seen that there is nothing else."""
    client = MlflowClient(tracking_uri(settings), tracking_uri(settings))
    place = client.get_experiment_by_name(EXPERIMENT).experiment_id
    runs = client.search_runs([place], max_results=10_000)
    (parent,) = [run for run in runs if run.data.tags["mlflow.runName"] == identity]
    assert parent.data.tags["fkd.identity"] == identity
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    trials = [r for r in runs if r.data.tags["fkd.claim"].partition(" ")[2].startswith(identity)]
    assert {r.info.run_id for r in trials} == {r.info.run_id for r in children}
    assert {r.info.status for r in children} == {"FINISHED"}
    keys = sorted(run.data.tags["fkd.trial"] for run in children)
    assert keys == sorted(trial.key for trial in trials_of(identity, count))
    for run in children:
        values = client.get_metric_history(run.info.run_id, "fold/mae")
        number = float(run.data.tags["fkd.trial"].rpartition("-")[2])
        assert [v.value for v in sorted(values, key=lambda v: v.step)] == [number, number + 0.5]
    assert client.search_registered_models() == []
    return {run.data.tags["fkd.trial"]: run.info.run_id for run in children}


if __name__ == "__main__":  # FOLDER NAME ADDRESS IDENTITY COUNT, once a line comes
    folder, name, uri, identity, count = sys.argv[1:]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(str(record(home_of(Path(folder), name, uri), identity, int(count))))

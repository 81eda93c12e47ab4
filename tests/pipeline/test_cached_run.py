"""A run whose fits are stored: every record is read once, no prediction, the table once."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dask_process import threads
from flow_stages import counted_reads, run_stages
from pipeline_fixtures import QUICK
from server_process import PATIENCE, clean_environment, left_after, seeded
from stored_files import record_file
from tracking_server import warm_mlflow

from configs.load import load_config, load_configs
from configs.run import RunConfig
from tasks.fit.job import run_job
from tasks.plan.trials import record_key
from tasks.select.study import open_study, study_opener
from tasks.storage.records import failure_name

THREADS = threads(1)


@pytest.fixture
def home(settings, computed_home, tmp_path_factory):
    """A home in which the quick configuration was computed, with an MLflow database."""
    shutil.copytree(computed_home, settings.home)
    warm_mlflow(settings.mlflow, tmp_path_factory.getbasetemp())
    return settings.home


def of_kind(reads, home, folder, suffix):
    """How often files of one kind were read."""
    return {
        path: count
        for path, count in reads.items()
        if path.is_relative_to(home / folder) and path.suffix == suffix
    }


def trial_files(home, suffix):
    """The files of that kind which the trials have."""
    return sorted((home / "store").glob(f"??/*{suffix}"))


def test_a_cached_run_reads_each_record_and_the_table_once(home, monkeypatch):
    run_stages(load_config("default", QUICK))
    reads = counted_reads(monkeypatch)
    (outcome,) = run_stages(load_config("default", QUICK))
    assert len(outcome.results) == 3
    assert outcome.champion is not None
    records = trial_files(home, ".record")
    assert len(records) == 3 * (3 + 2)
    assert of_kind(reads, home, "store", ".record") == dict.fromkeys(records, 1)
    (table,) = (home / "store" / "prepared").glob("*.arrays")
    assert of_kind(reads, home, "store/prepared", ".arrays") == {table: 1}
    # Predictions are read for the curves alone, each once: of trials on the held-out fold.
    predictions = set(trial_files(home, ".arrays"))
    read = {path: count for path, count in reads.items() if path in predictions}
    assert set(read.values()) == {1}
    assert len(read) <= 3


def test_runs_of_a_sweep_share_their_rows_and_records(home, tmp_path, monkeypatch):
    tree = load_config("default", QUICK).model_dump(mode="json")
    both = [
        RunConfig.model_validate({**tree, "name": f"limit-{gdp}", "select": select})
        for gdp in (0.04, 0.05)
        for select in [{"inner_folds": 2, "subject_to": {"gdp": gdp}}]
    ]
    run_stages(*both)
    reads = counted_reads(monkeypatch)
    assert len(run_stages(*both)) == 2
    records = trial_files(home, ".record")
    assert of_kind(reads, home, "store", ".record") == dict.fromkeys(records, 1)
    assert set(of_kind(reads, home, "store/prepared", ".arrays").values()) == {1}


def test_other_data_of_a_sweep_are_other_rows(settings):
    few, many = load_configs("default", [*QUICK[1:], "sweep={data.sample: [60, 90]}"])
    studies = [*map(study_opener(settings), [few, many, few])]
    assert [study.loaded.table.n for study in studies] == [60, 90, 60]
    assert studies[0].loaded is studies[2].loaded
    assert studies[0].store is studies[1].store


def test_what_another_process_writes_between_the_stages_is_seen(settings):
    """Its records, as those of a sweep elsewhere that shares the store."""
    config = load_config("default", [*QUICK, THREADS])
    mine, theirs = open_study(config, settings), open_study(config, settings)
    todo = mine.missing()
    assert len(todo) == len(theirs.missing()) > 0
    for job in todo[:-1]:
        run_job(job)
    assert len(mine.missing()) == 1
    run_job(todo[-1])
    assert mine.missing() == []
    assert len(mine.results()) == len(mine.again().results()) == 3
    record_file(mine.store, todo[-1].record_keys[0]).unlink()
    assert len(mine.missing()) == 1


SEARCH = (
    *QUICK[:3],
    "methods=[{name: krr_fkd, search: {gamma: [0.01, 0.05]}, grid: {iterations: [0, 2]}, "
    "approximation: {kind: nystroem, landmarks: 60}}]",
)


def test_a_first_run_tells_of_the_trials_that_its_search_brought(home):
    (outcome,) = run_stages(load_config("default", [*SEARCH, THREADS, "name=searched"]))
    assert len(outcome.results) == 3
    assert len(outcome.study.searched) == 2


def test_a_search_s_grid_is_known_to_the_study_that_is_opened_again(settings):
    config = load_config("default", SEARCH)
    study = open_study(config, settings)
    assert len(study.trials) == 2
    for job in study.missing():
        run_job(job)
    again = study.again()
    assert len(again.trials) == 3
    assert again.loaded is study.loaded
    assert [trial.key for trial in again.trials] == [
        trial.key for trial in open_study(config, settings).trials
    ]


# The command line in a process that notes every file which it opens in its home.
NOTING = """
import json, os, sys
from pathlib import Path

opened, home = [], os.environ["FKD_HOME"]


def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        path = os.fspath(arguments[0])
        if isinstance(path, str) and path.startswith((home + "/store", home + "/prepared")):
            opened.append(path)


sys.addaudithook(note)
from flows.cli import main

try:
    main(sys.argv[2:])
finally:
    Path(sys.argv[1]).write_text(json.dumps(opened))
"""


@pytest.mark.stack
def test_fkd_run_again_opens_each_record_and_the_table_once(computed_home, tmp_path_factory):
    base = tmp_path_factory.mktemp("cached")
    home, log = base / "home", base / "opened.json"
    shutil.copytree(computed_home, home)
    seeded(home, tmp_path_factory.getbasetemp(), mlflow=True)
    words = ["run", "default", *(word for text in QUICK for word in ("--set", text))]
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", NOTING, str(log), *words],
            env=clean_environment(home),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "nothing to compute" in done.stderr
    opened = [Path(path) for path in json.loads(log.read_text())]
    records = trial_files(home, ".record")
    assert sorted(path for path in opened if path.suffix == ".record") == records
    tables = [path for path in opened if path.parent == home / "store" / "prepared"]
    assert tables == list((home / "store" / "prepared").glob("*.arrays"))
    # Of predictions those that the curves are drawn from, each once.
    drawn = [path for path in opened if path in set(trial_files(home, ".arrays"))]
    assert len(drawn) == len(set(drawn)) <= len(records) // 3
    assert left_after(home, PATIENCE) == []


def test_stored_fits_are_not_asked_whether_they_failed(quick_study, monkeypatch):
    study = open_study(quick_study.config, quick_study.settings)
    study.results()
    asked, read_many = [], study.store.store.read_many

    def noted(names):
        asked.extend(names := list(names))
        return read_many(names)

    monkeypatch.setattr(study.store.store, "read_many", noted)
    assert study.failures() == {}
    assert not [name for name in asked if name.endswith(".failed")]
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    gone = record_key(study.trials[-1], fold, study.inputs)
    record = study.store.read(gone)
    study.store.store.remove(f"{gone[:2]}/{gone}.record")
    study.store.write_failure(gone, "ValueError: no such thing")
    try:
        asked.clear()
        assert list(study.failures().values()) == ["ValueError: no such thing"]
        assert [name for name in asked if name.endswith(".failed")] == [failure_name(gone)]
    finally:
        study.store.forget_failures([gone])
        study.store.write(record)

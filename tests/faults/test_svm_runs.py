"""Runs of support vector machines in passes that cannot end well: each says why."""

import json

import pytest
from dask_process import threads
from small_disk import fill, small_disk

from configs.errors import UserError
from configs.load import load_config
from fkd.core.svm import MachineOutcome
from flows.fitting import fit_all
from tasks.kernels import shared_training
from tasks.kernels import streaming as leaves
from tasks.select.study import open_study
from tasks.storage.settings import Settings


def make_study(settings, **grid):
    """Machines on a shared map of the embedded table, two folds, by threads of this process."""
    entry = {
        "name": "svr_fkd",
        "solver": "batched",
        "approximation": {"kind": "nystroem", "landmarks": 60, "shared": True},
        "grid": {"iterations": [0, 5], **grid},
    }
    return open_study(
        load_config(
            "default",
            [
                "folds={k: 2, reserve: 0.3}",
                "select=null",
                threads(2),
                f"methods={json.dumps([entry])}",
            ],
        ),
        settings,
    )


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch):
    """Several blocks to a cell."""
    monkeypatch.setattr(leaves, "TASK_ROWS", 90)


def test_a_disk_that_fills_up_under_the_spill_ends_the_run(settings, tmp_path, monkeypatch):
    home = tmp_path / "small"
    with small_disk(home, size="64m", files=4000):
        study = make_study(Settings(home, None, None, None))
        planned = shared_training.planned_spill

        def filling(stored):
            """Someone else takes the space between the check and its use."""
            found = planned(stored)
            if not (home / "filling").exists():
                fill(home, leave=2**12)
            return found

        monkeypatch.setattr(shared_training, "planned_spill", filling)
        with pytest.raises(UserError, match=r"features must be writable.*No space left.*FKD_HOME"):
            fit_all([study])
        (home / "filling").unlink()
        monkeypatch.undo()
        monkeypatch.setattr(leaves, "TASK_ROWS", 90)
        assert fit_all([make_study(Settings(home, None, None, None))]) == 0  # the same again


def test_a_machine_without_its_gap_is_named_and_never_taken(settings, monkeypatch):
    monkeypatch.setattr("fkd.core.svr.ITERATIONS", 10)
    study = make_study(settings, C=[1000.0])
    assert fit_all([study]) == 4
    assert study.results() == []
    keys = [key for job in study.missing(again=True) for key in job.record_keys]
    causes = study.store.read_failures(keys)
    for key in keys:
        cause = causes[key]
        assert "with C 1000, epsilon 0.01 must fall to 0.001, but was" in cause
        assert "after 10 iterations (2 of 2 machines missed it)" in cause
        assert cause.endswith(MachineOutcome.MAX_ITER.value)

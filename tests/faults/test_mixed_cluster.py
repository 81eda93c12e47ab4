"""Workers of one run whose processors are given different kernels."""

import pytest
from dask_process import dask_process, dask_scheduler, threads
from deadlines import patient
from sweep_sample import sweep_config
from threadpoolctl import threadpool_info

from flows.fitting import fit_all
from tasks.cluster.cluster import connect
from tasks.cluster.workers import worker_kernels
from tasks.plan.trials import record_key
from tasks.select.study import open_study
from tasks.storage.environment import MEMORY, environment, own_kernels

pytestmark = pytest.mark.stack


@pytest.fixture
def other_core():
    """A processor that OpenBLAS can be told to work for, other than this one."""
    own = {b["architecture"] for b in threadpool_info() if b["internal_api"] == "openblas"}
    if not own:
        pytest.skip("numpy was built without OpenBLAS, which alone can be told its kernel")
    return next(core for core in ("Haswell", "Nehalem") if core not in own)


@pytest.fixture
def mixed(free_port, other_core):
    """A scheduler with a worker of this processor and one of another; its address."""
    with (
        dask_scheduler(free_port) as (_, address),
        dask_process("worker", address, "--nthreads", "1"),
        dask_process("worker", address, "--nthreads", "1", OPENBLAS_CORETYPE=other_core),
    ):
        yield address


def _records(config, settings):
    study = open_study(config, settings)
    folds = study.inputs.splits.all(study.loaded.table).values()
    keys = (record_key(trial, fold, study.inputs) for trial in study.trials for fold in folds)
    return [study.store.read(key) for key in keys]


def _architectures(record):
    return {blas["architecture"] for blas in record.environment["blas"]}


def test_a_mixed_cluster_is_told_once_and_kept_in_the_records(mixed, other_core, settings, capsys):
    config = sweep_config(f"cluster={{address: '{mixed}'}}", gammas=6)
    with connect(config.cluster, settings) as client:
        client.wait_for_workers(2, timeout=patient(60))
        found = worker_kernels(client)
    assert sorted(found.values()) == [1, 1]
    assert [other_core in name for name in sorted(found, key=lambda k: other_core in k)] == [
        False,
        True,
    ]
    assert fit_all([open_study(config, settings)]) == 0
    said = capsys.readouterr().err
    assert said.count("processors are mixed (workers: 1 with") == 1
    assert said.count("mixed") == 1
    records = _records(config, settings)
    assert {a for record in records for a in _architectures(record)} > {other_core}
    assert all(b["threads"] == 1 for record in records for b in record.environment["blas"])
    # The same command again computes nothing, yet the numbers come from two kinds of machine.
    assert fit_all([open_study(config, settings)]) == 0
    assert "processors are mixed (stored fits:" in capsys.readouterr().err


def test_stored_fits_of_another_processor_are_told(settings, capsys, monkeypatch):
    here, foreign = environment(), environment()
    foreign["blas"] = [{**blas, "architecture": "Elsewhere"} for blas in foreign["blas"]]
    monkeypatch.setattr("tasks.fit.job.environment", lambda name: foreign)
    assert fit_all([open_study(sweep_config(threads(2)), settings)]) == 0
    capsys.readouterr()
    monkeypatch.setattr("tasks.fit.job.environment", lambda name: here)
    assert fit_all([open_study(sweep_config(threads(2), lengths=4), settings)]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "mixed" in line]
    assert len(told) == 1
    assert "stored fits: openblas Elsewhere" in told[0]
    assert f"workers: 2 with {own_kernels()}" in told[0]


def test_alike_workers_are_not_spoken_of(settings, capsys):
    assert fit_all([open_study(sweep_config("cluster={workers: 2}"), settings)]) == 0
    assert "mixed" not in capsys.readouterr().err
    environments = [
        {name: value for name, value in record.environment.items() if name != MEMORY}
        for record in _records(sweep_config(), settings)
    ]
    assert all(found == environments[0] for found in environments)
    assert environments[0]["blas"]

"""Fits from a kernel matrix in chunks: the numbers of one process, whatever becomes of workers."""

import os
import signal
from functools import partial

import numpy as np
import pytest
from dask_process import threads
from sweep_sample import finite, numbers, same_numbers, undisturbed

from configs.load import load_config
from fkd.methods import paper_methods
from fkd.paper.algorithm2 import dual_ridge
from flows import fitting as chunked_fits
from flows.fitting import fit_all
from tasks.select.study import open_study
from tasks.storage.settings import Settings

# Many landmarks with large ridges take few passes.
GRID = "{name: krr_fkd_nystroem, fraction: 0.3, grid: {iterations: [0, 2], alpha: [1.0, 4.0]}}"


def config(*more, processes=False):
    """Two folds of the embedded table, some 1000 training rows each."""
    cluster = "cluster.workers=2" if processes else threads(2)
    return load_config(
        "default", [f"methods=[dummy, {GRID}]", "folds.k=2", "select=null", cluster, *more]
    )


@pytest.fixture
def _small_chunks(monkeypatch):
    """Chunks of 300 rows, on the cluster whatever the number of rows."""
    monkeypatch.setattr("tasks.kernels.kernel_arrays.WHOLE_ROWS", 100)
    monkeypatch.setattr("tasks.kernels.kernel_arrays.CHUNK_ROWS", 300)


@pytest.mark.usefixtures("_small_chunks")
def test_chunks_give_the_numbers_of_one_process(settings, tmp_path, capfd):
    study = open_study(config(), settings)
    assert fit_all([study]) == 0
    told = capfd.readouterr().err
    assert "K_nn, gamma 0.05: 997 x 997 in 16 chunks" in told
    assert "chunked fits: 4/4" in told
    found, expected = numbers(study), numbers(undisturbed(config(), tmp_path / "alone"))
    assert len(found) == 2 * 5
    for fit, (measures, y_pred) in expected.items():
        np.testing.assert_allclose(
            np.frombuffer(found[fit][1]), np.frombuffer(y_pred), rtol=0, atol=1e-7, err_msg=fit
        )
        assert found[fit][0].keys() == measures.keys()
    assert found != expected  # other sums, hence other last bits: the chunks were used


@pytest.mark.usefixtures("_small_chunks")
def test_what_cannot_be_solved_fails_by_name(settings, monkeypatch):
    monkeypatch.setattr(paper_methods, "dual_ridge", partial(dual_ridge, max_passes=2))
    study = open_study(config(), settings)
    assert fit_all([study]) == 8
    keys = [key for job in study.missing(again=True) for key in job.record_keys]
    causes = set(study.store.read_failures(keys).values())
    assert len(causes) == 2  # of each fold one
    assert all("of alpha=1 (iterations=" in cause for cause in causes)


@pytest.mark.stack
@pytest.mark.usefixtures("_small_chunks")
def test_a_killed_worker_changes_no_bit(settings, tmp_path, monkeypatch):
    study = open_study(config(processes=True), settings)
    assert fit_all([study]) == 0
    compute, passes, killed = chunked_fits.compute_array, [], []

    def killing(client, array, **options):
        passes.append(array)
        if len(passes) in (6, 40):
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        return compute(client, array, **options)

    monkeypatch.setattr(chunked_fits, "compute_array", killing)
    elsewhere = Settings(tmp_path / "disturbed", None, None, None)
    disturbed = open_study(config(processes=True), elsewhere)
    assert fit_all([disturbed]) == 0
    assert len(set(killed)) == 2
    assert same_numbers(disturbed, study)
    assert finite(disturbed)

"""A split's kernel matrix on the cluster: rows from the table, which jobs are chunked."""

from dataclasses import replace

import numpy as np
import pytest
from dask_process import in_threads
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from configs.load import load_config
from tasks.cluster.cluster import connect
from tasks.kernels.kernel_arrays import (
    SplitRows,
    cluster_passes,
    compute_array,
    encoded_rows,
    is_chunked,
    rows_array,
)
from tasks.plan.training import cached_table, make_training
from tasks.select.study import open_study

METHODS = (
    "methods=[dummy, krr_fkd, {name: krr_fkd_nystroem, fraction: 0.05, grid: {iterations: [0, 2]}}]"
)


@pytest.fixture
def study(settings):
    return open_study(load_config("default", [METHODS, "folds.k=3", "select=null"]), settings)


def training(inputs, split):
    table = cached_table(inputs.settings, inputs.table_digest)
    return make_training(table, inputs.splits.all(table)[split], inputs)[0]


@pytest.mark.parametrize("scale_on", ["train", "all"])
def test_rows_of_blocks_are_the_training_rows(study, scale_on):
    inputs = replace(study.inputs, scale_on=scale_on)
    X = training(inputs, "1").X
    array = rows_array(SplitRows(inputs, "1"), np.arange(len(X)), 300)
    assert array.numblocks == (-(-len(X) // 300), 1)
    assert_array_equal(array.compute(scheduler="synchronous"), X)
    chosen = np.array([0, 5, 299, 300, len(X) - 1])
    assert_array_equal(encoded_rows(SplitRows(inputs, "1"), chosen), X[chosen])


def test_names_tell_splits_and_rows_apart(study):
    rows = np.arange(40)
    names = {
        rows_array(SplitRows(study.inputs, "0"), rows, 20).name,
        rows_array(SplitRows(study.inputs, "1"), rows, 20).name,
        rows_array(SplitRows(study.inputs, "1"), rows[1:], 20).name,
        rows_array(SplitRows(replace(study.inputs, scale_on="all"), "1"), rows, 20).name,
    }
    assert len(names) == 4
    assert rows_array(SplitRows(study.inputs, "0"), rows, 20).name in names


def test_the_rows_of_a_job_decide_whether_it_is_chunked(study, monkeypatch):
    jobs = {job.trials[0].method: job for job in study.missing()}
    assert not any(is_chunked(job) for job in jobs.values())
    n = len(training(study.inputs, jobs["krr_fkd_nystroem"].split).X)
    monkeypatch.setattr("tasks.kernels.kernel_arrays.WHOLE_ROWS", n)
    assert not is_chunked(jobs["krr_fkd_nystroem"])
    monkeypatch.setattr("tasks.kernels.kernel_arrays.WHOLE_ROWS", n - 1)
    assert [name for name, job in jobs.items() if is_chunked(job)] == ["krr_fkd_nystroem"]


@pytest.mark.parametrize(("memory", "told"), [("4GiB", "kept on the workers"), (None, "no limit")])
def test_it_is_told_what_becomes_of_the_chunks(study, monkeypatch, memory, told):
    monkeypatch.setattr("tasks.kernels.kernel_arrays.CHUNK_ROWS", 400)
    if memory is None:
        monkeypatch.setattr("tasks.kernels.kernel_arrays.cluster_memory", lambda client: None)
    rows, heard, X = SplitRows(study.inputs, "0"), [], training(study.inputs, "0").X
    config = in_threads(workers=2, memory_limit=memory or "4GiB")
    with connect(config, study.settings) as client:

        def compute(array):
            return compute_array(client, array, retries=0, time_limit=600.0)

        found = cluster_passes(client, rows, compute, heard.append)(0.05, np.arange(0, 900, 30))
        (product,) = found.products([X[:, :2]])
    K = np.exp(-0.05 * cdist(X, X, "sqeuclidean"))
    assert_allclose(product, K @ X[:, :2], rtol=1e-9)
    (sentence,) = heard
    assert f"kernel matrix of {len(X)} rows in 4 x 4 chunks" in sentence
    assert told in sentence

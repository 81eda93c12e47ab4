"""A split's kernel matrix on the cluster: rows from the table, which jobs are chunked."""

from dataclasses import replace

import numpy as np
import pytest
from dask_process import in_threads
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from configs.load import load_config
from tasks.cluster.cluster import connect
from tasks.kernels.build import chunked_summaries
from tasks.kernels.kernel_arrays import (
    SplitRows,
    build_kernel,
    compute_array,
    encoded_rows,
    is_chunked,
    rows_array,
)
from tasks.plan.training import make_training
from tasks.select.study import open_study

METHODS = (
    "methods=[dummy, krr_fkd, {name: krr_fkd_nystroem, fraction: 0.05, grid: {iterations: [0, 2]}}]"
)


@pytest.fixture
def study(settings):
    return open_study(load_config("default", [METHODS, "folds.k=3", "select=null"]), settings)


def training(inputs, split):
    table = inputs.table
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


def test_names_depend_on_splits_and_rows(study):
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


@pytest.mark.parametrize(
    ("memory", "place"), [("4GiB", "kept on the workers"), (None, "computed in every pass")]
)
def test_chunks_are_kept_if_the_workers_have_the_memory(study, monkeypatch, memory, place):
    monkeypatch.setattr("tasks.kernels.kernel_arrays.CHUNK_ROWS", 400)
    if memory is None:
        monkeypatch.setattr("tasks.kernels.kernel_arrays.cluster_memory", lambda client: None)
    (job,) = [
        job
        for job in study.missing()
        if job.split == "0" and job.trials[0].method == "krr_fkd_nystroem"
    ]
    X = training(study.inputs, "0").X
    with connect(in_threads(workers=2, memory_limit="4GiB"), study.settings) as client:

        def compute(array):
            return compute_array(client, array, retries=0, time_limit=600.0)

        kernel = build_kernel(client, job)
        passes = kernel.passes(compute)(kernel.gamma, kernel.landmarks)
        (product,) = passes.products([X[:, :2]])
        summaries = chunked_summaries(kernel, job)
    K = np.exp(-kernel.gamma * cdist(X, X, "sqeuclidean"))
    assert_allclose(product, K @ X[:, :2], rtol=1e-9)
    assert [s.shape for s in summaries] == [(len(X), len(X)), (len(X), len(kernel.landmarks))]
    assert [s.chunks for s in summaries] == [16, 4]
    assert all(place in s.place for s in summaries)
    assert all("2 fits of krr_fkd_nystroem on fold 0" in s.consumers for s in summaries)

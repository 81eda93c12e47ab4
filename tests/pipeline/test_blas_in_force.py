"""The number of BLAS threads that is in every key is the one that computes."""

import shutil
from dataclasses import replace

import pytest
from stored_files import stored
from threadpoolctl import threadpool_info, threadpool_limits

from configs.load import load_config
from fkd.core.feature_maps import KernelSettings
from fkd.methods import Approximation, methods
from tasks.fit.job import run_job
from tasks.kernels import streaming
from tasks.kernels import streaming as leaves
from tasks.kernels.shared_map import SharedMap, store_map
from tasks.select import champion
from tasks.select.champion import select_champion
from tasks.select.judgement import held_out_predictions
from tasks.select.study import open_study

pytestmark = pytest.mark.parametrize("threads", [1, 2])


def limits():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _another_number(threads):
    """Outside of what computes, the other number holds."""
    with threadpool_limits(limits=3 - threads, user_api="blas"):
        yield


@pytest.fixture
def heard(monkeypatch):
    """Numbers of threads that a method saw while it was fitted."""
    found = []
    declared = methods()["dummy"]

    def fit(training, settings):
        found.append(limits())
        return declared.fit(training, settings)

    monkeypatch.setitem(methods(), "dummy", replace(declared, fit=fit))
    return found


def study(settings, threads):
    overrides = [
        "methods=[dummy]",
        "folds={k: 2, reserve: 0.2}",
        "select={inner_folds: 2, subject_to: {gdp: 1}}",
        f"cluster.blas_threads={threads}",
    ]
    return open_study(load_config("default", overrides), settings)


def test_fits_and_the_champion(settings, heard, threads, monkeypatch):
    opened = study(settings, threads)
    judging = []
    for name in ("judge", "recover"):
        part = getattr(champion, name)
        noted = lambda *a, part=part: judging.append(limits()) or part(*a)  # noqa: E731
        monkeypatch.setattr(champion, name, noted)
    for job in opened.missing():
        run_job(job)
    assert heard == [{threads}] * 4
    select_champion(opened)
    assert heard == [{threads}] * 5
    assert judging == [{threads}] * 2
    shutil.rmtree(stored(settings))
    held_out_predictions(study(settings, threads), opened.trials)
    assert heard == [{threads}] * 6


def test_shared_maps_and_sums(settings, monkeypatch, threads):
    found = []

    def noting(function):
        def noted(*arguments, **options):
            found.append(limits())
            return function(*arguments, **options)

        return noted

    inputs = study(settings, threads).inputs
    monkeypatch.setattr(KernelSettings, "feature_map", noting(KernelSettings.feature_map))
    stored = store_map(SharedMap(inputs, 0.05, Approximation("nystroem", 20, shared=True)))
    assert found == [{threads}]
    monkeypatch.setattr(leaves.StreamedSums, "add", noting(leaves.StreamedSums.add))
    streaming.cell_sums(streaming.Sums(stored, "float64"), 0)
    leaves.sum_leaf(streaming.cell_leaves(streaming.Sums(stored, "float32"), (), 1)[0])
    assert found == [{threads}] * 3

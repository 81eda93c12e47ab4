"""Packages, BLAS kernels and BLAS threads of a process."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import sklearn
from threadpoolctl import threadpool_info, threadpool_limits

from tasks.storage.environment import (
    blas_threads,
    environment,
    kernels,
    mixed_kernels_warning,
    own_kernels,
)


def _elsewhere(code):
    """Return the words that another process prints."""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.split()


def test_packages_and_every_blas_are_listed():
    found = environment()
    assert (found["numpy"], found["scikit-learn"]) == (np.__version__, sklearn.__version__)
    listed = {(b["library"], b["version"], b["architecture"]) for b in found["blas"]}
    assert listed == {
        (b["internal_api"], b["version"], b.get("architecture"))
        for b in threadpool_info()
        if b["user_api"] == "blas"
    }
    assert len(listed) > 0


def test_the_threads_are_those_of_the_block():
    with blas_threads(1):
        assert {b["threads"] for b in environment()["blas"]} == {1}


def test_the_simd_level_of_numpy_is_listed():
    features = np.show_config(mode="dicts")["SIMD Extensions"]
    assert environment()["simd"] in features["found"] + features["baseline"]


@pytest.mark.needs("torch")
def test_pytorch_is_listed_if_the_method_needs_it():
    import torch

    assert "torch" not in environment("krr_fkd")
    assert environment("nn_hgr")["torch"] == {
        "version": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def test_pytorch_is_not_imported_to_be_listed():
    code = (
        "import sys; from tasks.storage.environment import environment; "
        "print('torch' in environment('nn_hgr'), 'torch' in sys.modules)"
    )
    assert _elsewhere(code) == ["False", "False"]


def test_kernels_are_those_of_blas_and_numpy():
    named = {
        "simd": "X86_V3",
        "blas": [
            {"library": "openblas", "version": v, "architecture": "Haswell", "threads": 1}
            for v in ("0.3.30", "0.3.31")
        ],
    }
    assert kernels(named) == "openblas Haswell, numpy X86_V3"
    assert kernels({}) == ""
    assert own_kernels() == kernels(environment())


@pytest.mark.parametrize(
    ("workers", "stored"),
    [({}, set()), ({"a": 2}, set()), ({"a": 2}, {"a"}), ({"a": 2}, {""}), ({}, {"a", ""})],
)
def test_there_is_no_warning_for_equal_or_unknown_kernels(workers, stored):
    assert mixed_kernels_warning(workers, stored) is None


@pytest.mark.parametrize(
    ("workers", "stored", "fragment"),
    [
        ({"a": 2, "b": 1}, set(), "(workers: 2 with a; 1 with b)"),
        ({"a": 2}, {"b", ""}, "(workers: 2 with a, stored fits: b)"),
        ({"a": 2}, {"a", "b"}, "(workers: 2 with a, stored fits: b)"),
        ({}, {"a", "b"}, "(stored fits: a; b)"),
    ],
)
def test_mixed_kernels_are_a_warning(workers, stored, fragment):
    warning = mixed_kernels_warning(workers, stored)
    assert fragment in warning
    assert "OPENBLAS_CORETYPE" in warning
    assert "last digits" in warning


def _limits():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def elsewhere():
    """Return a function that runs another one in a new thread."""

    def run(function):
        found = []
        thread = threading.Thread(target=lambda: found.append(function()))
        thread.start()
        thread.join(60)
        return found[0]

    return run


def test_the_limit_is_restored():
    with threadpool_limits(limits=2):
        with blas_threads(1):
            with blas_threads(1):
                assert _limits() == {1}
            assert _limits() == {1}
        assert _limits() == {2}


def test_the_limit_holds_in_a_thread_that_was_not_the_first_to_set_one(elsewhere):
    def inside():
        with blas_threads(1):
            return _limits()

    with threadpool_limits(limits=2):
        assert elsewhere(inside) == {1}
        assert _limits() == {2}


def test_the_limit_stays_if_another_thread_leaves_first():
    inside, leave = threading.Event(), threading.Event()

    def first():
        with blas_threads(1):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=first)
    with threadpool_limits(limits=2):
        thread.start()
        assert inside.wait(60)
        with blas_threads(1):
            leave.set()
            thread.join(60)
            assert _limits() == {1}
        assert _limits() == {2}


def test_a_block_with_another_limit_waits():
    seen = []

    def second():
        with blas_threads(2):
            seen.append(_limits())

    thread = threading.Thread(target=second)
    with blas_threads(1):
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert _limits() == {1}
    thread.join(60)
    assert seen == [{2}]

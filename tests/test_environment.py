"""What a process says of the kernels that it computes with."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn
from threadpoolctl import threadpool_info

from tasks.storage.environment import blas_threads, environment, kernels, mixture, own_kernels


def _elsewhere(code):
    """What another process prints."""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.split()


def test_packages_and_every_blas_are_named():
    found = environment()
    assert (found["numpy"], found["scikit-learn"]) == (np.__version__, sklearn.__version__)
    told = {(b["library"], b["version"], b["architecture"]) for b in found["blas"]}
    assert told == {
        (b["internal_api"], b["version"], b.get("architecture"))
        for b in threadpool_info()
        if b["user_api"] == "blas"
    }
    assert len(told) > 0


def test_the_threads_are_those_that_the_block_allows():
    with blas_threads(1):
        assert {b["threads"] for b in environment()["blas"]} == {1}


def test_numpys_vector_instructions_are_named():
    features = np.show_config(mode="dicts")["SIMD Extensions"]
    assert environment()["simd"] in features["found"] + features["baseline"]


@pytest.mark.needs("torch")
def test_pytorch_is_named_where_the_method_needs_it():
    import torch

    assert "torch" not in environment("krr_fkd")
    assert environment("nn_hgr")["torch"] == {
        "version": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def test_pytorch_is_never_imported_to_be_named():
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
def test_nothing_is_said_where_all_is_the_same_or_unknown(workers, stored):
    assert mixture(workers, stored) is None


@pytest.mark.parametrize(
    ("workers", "stored", "says"),
    [
        ({"a": 2, "b": 1}, set(), "(workers: 2 with a; 1 with b)"),
        ({"a": 2}, {"b", ""}, "(workers: 2 with a, stored fits: b)"),
        ({"a": 2}, {"a", "b"}, "(workers: 2 with a, stored fits: b)"),
        ({}, {"a", "b"}, "(stored fits: a; b)"),
    ],
)
def test_a_mixture_is_told_with_its_cure(workers, stored, says):
    told = mixture(workers, stored)
    assert says in told
    assert "OPENBLAS_CORETYPE" in told
    assert "last digits" in told

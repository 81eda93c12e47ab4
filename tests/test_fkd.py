import doctest
import importlib

import pytest
from optional import needs

import fkd
from fkd.moved import MOVED
from fkd.rivals.optional_packages import NEURAL


@pytest.mark.parametrize("name", fkd.__all__)
def test_every_public_name_is_there_with_a_docstring(name):
    assert getattr(fkd, name).__doc__


MODULES = sorted({getattr(fkd, name).__module__ for name in fkd.__all__} - {"fkd.core.cautions"})


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


# Every module of version 0.1 that stood elsewhere.
BEFORE = [
    "arrays",
    "bundle",
    "chunked",
    "correction",
    "decomposition",
    "discrete",
    "encoding",
    "erasure",
    "expansion",
    "fair_kernel_learning",
    "feature_maps",
    "feature_maps.feature_map",
    "feature_maps.fourier",
    "feature_maps.identity",
    "feature_maps.landmark_maps",
    "feature_maps.make",
    "feature_maps.stored",
    "gaussian_process",
    "kernel_ridge",
    "kernels",
    "labels",
    "landmarks",
    "linalg",
    "literal",
    "measures.checks",
    "methods",
    "methods.cost",
    "methods.declaration",
    "methods.extras",
    "methods.krr_fkd",
    "methods.networks",
    "methods.removal",
    "moments",
    "pareto",
    "path",
    "perceptron",
    "predictions",
    "problems",
    "problems.declaration",
    "problems.registry",
    "reference",
    "removal",
    "ridge",
    "svc",
    "svr",
    "table",
    "validation",
]


@pytest.mark.parametrize("old", BEFORE)
def test_no_module_of_before_was_forgotten(old):
    assert importlib.import_module(f"fkd.{old}").__doc__


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(old, new, marks=needs(NEURAL if old == "neural" else None))
        for old, new in MOVED.items()
    ],
)
def test_an_import_path_of_before_leads_to_the_same_module(old, new):
    module = importlib.import_module(f"fkd.{old}")
    assert module is importlib.import_module(f"fkd.{new}")
    assert module.__name__ == module.__spec__.name == f"fkd.{new}"


def test_a_module_inside_a_moved_package_is_found_once():
    from fkd.methods.krr_fkd import METHOD

    from fkd.catalog.methods import methods

    assert METHOD is methods()["krr_fkd"]
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        importlib.import_module("fkd.methods.nothing")


def test_names_of_before_are_where_they_were():
    from fkd.chunked import KernelRows, chunked_dual_path
    from fkd.encoding import Encoder
    from fkd.expansion import KernelExpansion
    from fkd.feature_maps import make_map
    from fkd.literal import DualPath, algorithm_1, nystroem_dual_path, nystroem_path
    from fkd.path import removal_path
    from fkd.ridge import ridge_expansions
    from fkd.svr import FairSVR

    found = [KernelRows, chunked_dual_path, Encoder, KernelExpansion, make_map, DualPath]
    found += [algorithm_1, nystroem_dual_path, nystroem_path, removal_path, ridge_expansions]
    assert all(thing.__doc__ for thing in found)
    assert FairSVR is fkd.FairSVR

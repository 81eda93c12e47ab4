"""Declared methods: costs for planning, optional packages."""

import subprocess
import sys

import pytest
from training_sample import make_training

from fkd.baselines.base import Extra
from fkd.methods import Approximation, method, methods
from fkd.methods.declaration import kernel_cost, streaming_flops

N, D = 100_000, 500


def setting(name, kind="exact", *, shared=False):
    declared = method(name)
    return declared.parameters(approximation=Approximation(kind, 1000, shared=shared))


def test_an_exact_factor_costs_the_cube_of_its_rows():
    small, large = (kernel_cost([setting("krr_fkd")], n, 10) for n in (N, 2 * N))
    assert 7 < large.flops / small.flops < 8.5
    assert large.bytes == pytest.approx(4 * small.bytes, rel=0.01)


def test_reduced_features_are_never_held_whole():
    cost = kernel_cost([setting("krr_fkd", "nystroem")], N, D)
    assert cost.bytes < 8 * (N * D + 1000 * N / 2)


def test_a_shared_map_leaves_the_pass_over_the_rows_to_others():
    own, shared = (
        kernel_cost([setting("krr_fkd", "nystroem", shared=shared)], N, D)
        for shared in (False, True)
    )
    flops = streaming_flops(Approximation("nystroem", 1000), N, D)
    assert own.flops - shared.flops == pytest.approx(flops)
    assert own.bytes - shared.bytes == pytest.approx(8 * N * D)


def test_settings_of_one_kernel_share_its_factor():
    one, other = setting("krr_fkd"), method("krr_fkd").parameters(alpha=3.0)
    assert kernel_cost([one, other], 3000, 9).flops == kernel_cost([one], 3000, 9).flops


def test_a_machine_on_features_needs_no_kernel_matrix():
    reduced = kernel_cost([setting("svr_fkd", "nystroem")], N, D)
    exact = kernel_cost([setting("svr_fkd")], N, D)
    assert reduced.bytes < 8 * N * 4000 < 8 * N**2 < exact.bytes


def batch(k, n):
    """The cost of k batched machines beyond that of their map."""
    reduced = Approximation("nystroem", 1000, shared=True)
    parameters = method("svr_fkd").parameters
    settings = [parameters(approximation=reduced, C=1.0 + i, solver="batched") for i in range(k)]
    found = kernel_cost(settings, n, D)
    plain = kernel_cost([setting("krr", "nystroem", shared=True)], n, D)
    return found.flops - plain.flops, found.bytes - plain.bytes


@pytest.mark.parametrize("n", [5_000, N])
def test_batched_machines_cost_in_proportion_to_rows_with_a_bounded_memory(n):
    flops, size = batch(40, n)
    assert flops == pytest.approx(40 * 200 * n * 1000)
    assert size == 4 * n * 40
    assert batch(40, 2 * n)[0] == pytest.approx(2 * flops)
    assert batch(10_000, N)[1] == 2**31


def test_a_plain_ridge_costs_its_factor_and_nothing_for_paths_or_machines():
    cost = kernel_cost([setting("krr")], 3000, 9)
    assert cost.flops == 2.0 * 3000**2 * 9 + 1.5 * 3000**3 + 1e6
    assert cost.bytes == 8.0 * 4 * 3000**2 + 1e7


def hide(monkeypatch, *packages):
    """Let these packages look as if they were not installed."""
    monkeypatch.setattr(
        "fkd.baselines.base.find_spec",
        lambda name: None if name in packages else object(),
    )


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("nn_hgr", "torch"),
        ("nn_hgr_l", "torch"),
        ("nn_frem", "torch"),
        ("leace", "concept_erasure"),
        ("leace_nystroem", "concept_erasure"),
        ("correlation_remover", "fairlearn"),
    ],
)
def test_a_method_without_its_package_names_the_command_before_any_fit(
    rng, monkeypatch, name, package
):
    hide(monkeypatch, package)
    declared = method(name)
    words = rf"{name} needs {package}.*`make neural`"
    with pytest.raises(ModuleNotFoundError, match=words):
        declared.check_installed()
    with pytest.raises(ModuleNotFoundError, match=words):
        next(iter(declared.fit(make_training(rng), [declared.parameters()])))


@pytest.mark.parametrize(
    "name", ["krr", "svr", "krr_fkd", "svr_fkd", "krr_fkl", "svr_inlp", "frrm", "krr_frrm"]
)
def test_the_core_is_enough_for_kernel_methods(monkeypatch, name):
    hide(monkeypatch, "torch", "fairlearn", "concept_erasure")
    method(name).check_installed()


def test_an_extra_knows_what_is_missing():
    assert Extra("some", ("numpy", "surely_not_installed")).missing() == ("surely_not_installed",)


def test_declaring_all_methods_imports_no_optional_package():
    optional = ("torch", "fairlearn", "concept_erasure")
    script = (
        "import sys; from fkd.methods import methods; "
        f"print(len(methods()), [m for m in {optional} if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.split(maxsplit=1) == [str(len(methods())), "[]\n"]

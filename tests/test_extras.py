import subprocess
import sys

import pytest
from training_sample import make_training

from fkd.baselines.base import Extra
from fkd.methods import method, methods


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

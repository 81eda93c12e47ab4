"""An approximation that is left open: exact where that fits, else as many landmarks as needed."""

import pytest
from grown_sample import BASE, grown_study, write_rows

from fkd.methods import Approximation, methods
from tasks.kernels import auto_options as approximating
from tasks.kernels.auto_options import choose_approximation, resolve_auto

PARAMETERS = methods()["krr_fkd"].parameters
MEMORY = 1e12


@pytest.fixture
def study(tmp_path, settings):
    write_rows(tmp_path / "own.csv", BASE)
    return grown_study(tmp_path / "own.csv", settings)


def chosen(study, accuracy=0.03, memory=MEMORY):
    approximating._adequacy.cache_clear()
    setting = PARAMETERS(approximation=Approximation("auto", accuracy=accuracy))
    return choose_approximation(setting, study.inputs, study.loaded.table, memory)


def test_few_rows_that_fit_are_exact(study, monkeypatch):
    found = chosen(study)
    assert found.approximation == Approximation("exact")
    assert "are at most 10000" in found.why
    # Neither more of them nor less memory leave it at that.
    assert "do not fit into" in chosen(study, memory=1e3).why
    monkeypatch.setattr(approximating, "EXACT_ROWS", 10)
    assert "are more than 10" in chosen(study).why


@pytest.mark.parametrize("accuracy", [0.1, 0.03])
def test_many_rows_get_landmarks_for_the_required_accuracy(study, accuracy, monkeypatch):
    monkeypatch.setattr(approximating, "EXACT_ROWS", 10)
    monkeypatch.setattr(approximating, "_STEP", 1)
    found = chosen(study, accuracy)
    assert found.approximation.kind == "nystroem"
    assert found.adequacy.unexplained <= accuracy
    assert f"({accuracy:.1%} asked for)" in found.why
    assert found.approximation.shared  # twice as many rows are reserved
    assert chosen(study, accuracy / 2).approximation.landmarks > found.approximation.landmarks


def test_the_number_of_landmarks_is_stored_and_part_of_the_setting(study, monkeypatch):
    monkeypatch.setattr(approximating, "EXACT_ROWS", 10)
    found = chosen(study)
    monkeypatch.setattr(approximating, "_tried", lambda *_: pytest.fail("it was known"))
    assert chosen(study) == found
    asked = PARAMETERS(approximation=Approximation("auto"))
    (setting,) = resolve_auto([asked], study.inputs, study.loaded.table, MEMORY)
    assert setting.approximation.landmarks == found.approximation.landmarks
    assert setting.approximation.kind == "nystroem"

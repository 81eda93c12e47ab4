"""Benchmark files say how steady the machine was; figures of a busy one are not kept."""

import json
import sys
import types

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import calibration
from benchmarks.calibration import Calibration, between, fresh
from benchmarks.record import Goal, Record
from benchmarks.timing import best_of_each


@pytest.fixture
def bench(monkeypatch, tmp_path):
    """Run a made-up benchmark whose products took the given seconds; return code and folder."""

    def call(*words, wall, cpu, timed=True):
        module = types.ModuleType("benchmarks.made_up")
        module.run = lambda: Record([{"what": 1}], [Goal("one", 1.0, 2.0)], timed=timed)
        monkeypatch.setitem(sys.modules, "benchmarks.made_up", module)
        monkeypatch.setattr(benchmarks, "available", lambda: ["made_up"])
        monkeypatch.setattr(benchmarks, "fresh", lambda: Calibration(wall, cpu))
        monkeypatch.setattr(benchmarks, "between", lambda: None)
        monkeypatch.setattr(benchmarks, "RESULTS", tmp_path)
        monkeypatch.setattr(benchmarks, "UNSTEADY", tmp_path / "unsteady")
        return benchmarks.main(["made_up", *words])

    return call


def test_a_steady_machine_s_figures_are_kept_with_how_steady_it_was(bench, tmp_path, capsys):
    assert bench(wall=[0.10, 0.11], cpu=[0.10, 0.11]) == 0
    kept = json.loads((tmp_path / "made_up.json").read_text())
    assert kept["steadiness"]["variation"] == pytest.approx(0.1)
    assert "up to 10% longer than undisturbed (at most 15%)" in capsys.readouterr().out


@pytest.mark.parametrize("wall", [[0.10, 0.12], [0.20, 0.20]])  # one neighbour; a constant load
def test_a_busy_machine_s_figures_are_refused_but_not_lost(bench, tmp_path, capsys, wall):
    assert bench(wall=wall, cpu=[0.10, 0.10]) == 1
    assert not (tmp_path / "made_up.json").exists()
    assert (tmp_path / "unsteady" / "made_up.json").is_file()
    assert "REFUSED" in capsys.readouterr().out


def test_force_keeps_them(bench, tmp_path):
    assert bench("--force", wall=[0.2], cpu=[0.1]) == 0
    assert json.loads((tmp_path / "made_up.json").read_text())["steadiness"]["variation"] == 1.0


def test_figures_that_are_no_times_are_kept_whatever_the_load(bench, tmp_path):
    assert bench(wall=[0.2], cpu=[0.1], timed=False) == 0
    assert (tmp_path / "made_up.json").is_file()


def test_the_product_is_timed_before_every_measurement(monkeypatch):
    monkeypatch.setattr(calibration, "_SIZE", 8)
    taken = fresh()
    best_of_each(3, {"one": lambda: None, "two": lambda: None})
    assert len(taken.wall) == len(taken.cpu) == 6
    between()
    assert taken.plain()["products"] == 7
    assert min(taken.wall) > 0

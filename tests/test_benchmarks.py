"""Benchmark files say how steady the machine was; figures of a busy one are not kept."""

import json
import sys
import types

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import calibration, two_stores
from benchmarks import store as store_benchmark
from benchmarks.calibration import Calibration, between, fresh
from benchmarks.record import Goal, Record
from benchmarks.timing import best_of_each
from tasks.select.study import open_study
from tasks.storage.backends import FolderBackend
from tasks.storage.settings import Settings


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


def test_operations_of_a_store_are_counted_with_their_bytes(tmp_path):
    place = store_benchmark.Counted(FolderBackend(tmp_path))
    place.put("a/one", b"12345")
    assert place.put_absent("a/two", b"123")
    assert place.get("a/one") == b"12345"
    assert place.get_many(["a/one", "a/two", "a/none"]).keys() == {"a/one", "a/two"}
    assert [entry.name for entry in place.entries("a")] == ["a/one", "a/two"]
    assert (place.calls, place.waits, place.bytes) == (8, 6, 5 + 3 + 5 + 8)
    with pytest.raises(FileNotFoundError):
        place.get("a/none")
    assert (place.calls, place.seconds > 0) == (9, True)


def test_a_store_is_charged_for_a_sweep_of_ten_minutes():
    """Workers share what grows with fits; what the driver waits for is counted once."""
    row = {"fits": 100.0, "splits": 9.0, "waits, fitting": 200.0, "waits, after": 50.0}
    rows = {
        "folder": {**row, "fitting, s": 1.0, "after, s": 0.5},
        "S3": {**row, "fitting, s": 3.0, "after, s": 2.5},
    }
    record = store_benchmark._told(rows)
    (goal,) = record.goals
    assert goal.value == pytest.approx((2.0 * 1800 / 100 / 2 + 2.0) / 600)
    assert any("would add 6.2% to that" in remark for remark in record.remarks)


def test_the_trials_of_a_sweep_are_those_that_a_run_would_have(tmp_path):
    config = store_benchmark._config(2)
    study = open_study(config, Settings(tmp_path / "home"))
    assert store_benchmark._trials(config) == len(study.trials) == 6


def test_two_stores_are_compared_by_whole_runs_of_enough_maths():
    folder = [
        {"select": 9.0, "maths": 300.0, "cold": 390.0},
        {"select": 11.0, "maths": 320.0, "cold": 410.0},
    ]
    s3 = [{"select": 12.0, "maths": 322.0, "cold": cold} for cold in (410.0, 430.0)]
    record = two_stores.told({"folder": folder, "S3": s3})
    ratio, maths = record.goals
    assert (ratio.value, ratio.reached) == (pytest.approx(1.05), True)
    assert (maths.value, maths.reached) == (pytest.approx(10.0), True)
    assert any("folder 390.0, 410.0; S3 410.0, 430.0" in remark for remark in record.remarks)
    slow = [{**run, "cold": 450.0, "maths": 250.0} for run in s3]
    goals = two_stores.told({"folder": folder, "S3": slow}).goals
    assert [goal.reached for goal in goals] == [False, False]


def test_both_kinds_of_runs_see_the_same_drift_of_a_machine():
    places: dict[str, list[int]] = {}
    for i, what in enumerate(two_stores.ORDER):
        places.setdefault(what, []).append(i)
    assert len({(len(found), sum(found)) for found in places.values()}) == 1

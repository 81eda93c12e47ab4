"""Intervals of fits on very many test rows, from the fold to the figure."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from configs.load import load_config
from fkd.measures import MEASURES, REPORTED, interval
from tasks.fit import job as module
from tasks.fit.job import CountedEnds, is_counted, run_job
from tasks.select.results import TrialResult
from tasks.select.study import open_study

KRR = (
    "methods=[{name: krr_fkd, grid: {iterations: [0, 3]}, "
    "approximation: {kind: nystroem, landmarks: 40}}]"
)


def sample(rng, n=4000):
    s = rng.integers(0, 20, size=n) / 19
    f = 0.4 * s + 0.1 * rng.normal(size=n)
    return f, f + 0.2 * rng.normal(size=n), s


def test_the_ends_hold_what_was_measured(rng):
    f, y, s = sample(rng)
    found = {"s": {name: m.scaled().on_rows(y, s)(f) for name, m in REPORTED.items()}}
    found["s"]["mae"] = float(np.abs(f - y).mean())
    ends = CountedEnds(y, {"s": s}, seed=0).around(f, found)["s"]
    assert ends == CountedEnds(y, {"s": s}, seed=0).around(f, found)["s"]
    errors = np.abs(f - y)
    assert (ends["mae_lower"] + ends["mae_upper"]) / 2 == pytest.approx(errors.mean(axis=0))
    # Means of as many rows from the same source: nineteen of twenty inside, give or take.
    means = np.array([np.abs(0.2 * rng.normal(size=4000)).mean(axis=0) for _ in range(2000)])
    width = 2 * 1.96 * means.std(axis=0)
    assert ends["mae_upper"] - ends["mae_lower"] == pytest.approx(width, rel=0.1)
    for name in ("hgr", "gdp"):
        low, high = ends[f"{name}_lower"], ends[f"{name}_upper"]
        assert (low + high) / 2 == pytest.approx(found["s"][name])
        beside = interval(MEASURES[name].scaled(), f, s, rng=rng)
        assert high - low == pytest.approx(beside.high - beside.low, rel=0.35)


def test_ends_stay_where_a_measure_can_be(rng):
    s = rng.integers(0, 20, size=400) / 19
    y, constant = s + rng.normal(size=400), np.full(400, 0.3)
    for f, value in ((s, 0.995), (constant, 0.0)):
        found = {"s": {"hgr": value, "gdp": 0.0}}
        ends = CountedEnds(y, {"s": s}, seed=0).around(f, found)["s"]
        assert 0 <= ends["hgr_lower"] <= value <= ends["hgr_upper"] <= 1
        assert (ends["gdp_lower"], ends["gdp_upper"] > 0) == (0.0, value > 0)


def test_rows_that_weigh_or_are_few_are_not_counted():
    assert is_counted(module.BINNED_FROM, None)
    assert not is_counted(module.BINNED_FROM - 1, None)
    assert not is_counted(module.BINNED_FROM, np.ones(3))


def test_outer_folds_alone_store_the_ends(settings, monkeypatch):
    monkeypatch.setattr(module, "BINNED_FROM", 200)
    study = open_study(load_config("default", [KRR, "folds.k=2", "select.inner_folds=2"]), settings)
    for job in study.missing():
        run_job(job)
    for result in study.results():
        low, high = result.ends("hgr", "racepctblack")
        assert low < result.mean("hgr", "racepctblack") < high
        assert result.ends("pf", "racepctblack") is None
    assert all(r.ends("hgr", "racepctblack") is None for r in study.results(inner=True))


def test_intervals_of_folds_add_up_as_squares(settings):
    study = open_study(load_config("default", [KRR]), settings)
    job = study.missing()[0]
    run_job(job)
    one = study.store.read(job.record_keys[0])
    folds = [
        replace(one, measures={"s": {"mae": v, "mae_lower": v - d, "mae_upper": v + 2 * d}})
        for v, d in ((1.0, 0.3), (2.0, 0.4))
    ]
    low, high = TrialResult(study.trials[0], tuple(folds)).ends("mae", "s")
    assert_allclose([low, high], [1.5 - 0.25, 1.5 + 0.5])
    older = {"mae": 1.0, "mae_low": 0.9, "mae_high": 1.1}  # quantiles of other draws
    assert (
        TrialResult(study.trials[0], (folds[0], replace(one, measures={"s": older}))).ends(
            "mae", "s"
        )
        is None
    )
    bare = [folds[0], replace(one, measures={"s": {"mae": 1.0}})]
    assert TrialResult(study.trials[0], tuple(bare)).ends("mae", "s") is None

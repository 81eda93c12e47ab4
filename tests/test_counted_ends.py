"""Intervals of fits on very many test rows, from the fold to the figure."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from report_sample import make_report

from configs.load import load_config
from fkd.measures import MEASURES, PairwiseRows, interval
from tasks.fit import job as module
from tasks.fit.job import ColumnJudge, CountedEnds, is_counted, measure, run_job
from tasks.report.figures import bar_words, panels_of
from tasks.report.model import ReportedNumber
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
    found = measure(f, y, {"s": ColumnJudge(s, PairwiseRows(y, s))})
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


def test_a_figure_draws_intervals_where_there_are_some():
    report = make_report()
    assert bar_words(report.trials) == "Bars show one standard deviation over the folds."

    def known(number):
        return replace(number, ends=(number.mean - 0.001, number.mean + 0.003))

    def counted(trial):
        scores = {
            column: {**found, "hgr": known(found["hgr"])} for column, found in trial.scores.items()
        }
        return replace(trial, mae=known(trial.mae), scores=scores)

    after = replace(report, trials=tuple(map(counted, report.trials)))
    assert "95 % intervals" in bar_words(after.trials)
    hgr, gdp, _ = panels_of(after, after.columns[0])
    assert_allclose([p.x_std for p in hgr.points], 0.002)
    assert_allclose([p.y_std for p in hgr.points], 0.002 * after.target.scale)
    before = panels_of(report, report.columns[0])[1]
    assert [p.x_std for p in gdp.points] == [p.x_std for p in before.points]
    assert any("\N{NO-BREAK SPACE}to" in line for line in hgr.points[0].hover)
    assert ReportedNumber(1.0).bar == 0.0

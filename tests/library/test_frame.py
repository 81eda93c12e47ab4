"""MeasureFrame: metrics and measures by groups, each equal to that of the group alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.measures import MEASURES, MeasureFrame, by_stratum, gdp, interval, pairwise_fairness

QUICK = {"replicates": 40}


@pytest.fixture
def rows(rng):
    s = rng.uniform(size=400)
    job = np.where(rng.uniform(size=400) < 0.3, "clerk", "cook")
    y = s + rng.normal(size=400)
    return y, s + 0.5 * (job == "cook") + 0.1 * rng.normal(size=400), s, job


def test_fifths_of_the_attribute_have_the_means_of_their_rows(rows):
    y, f, s, _ = rows
    table = MeasureFrame.by_quantiles(y, f, s, **QUICK)
    edges = np.quantile(s, [0.2, 0.4, 0.6, 0.8])
    codes = np.searchsorted(edges, s, side="left")
    assert [group.rows for group in table.groups] == np.bincount(codes).tolist()
    for i, group in enumerate(table.groups):
        own = codes == i
        assert_allclose(group.values["mean_prediction"].estimate, f[own].mean())
        assert_allclose(group.values["mean_error"].estimate, np.abs(f - y)[own].mean())
        assert_allclose(group.values["mean_excess"].estimate, (f - y)[own].mean())
    assert_allclose(table.overall.values["mean_prediction"].estimate, f.mean())
    means = [group.values["mean_prediction"].estimate for group in table.groups]
    assert_allclose(table.difference("mean_prediction"), max(means) - min(means))


def test_own_metrics_have_intervals(rows):
    y, f, s, _ = rows
    own = {"largest": lambda y, f: float(f.max())}
    table = MeasureFrame.by_quantiles(y, f, s > 0.5, metrics=own, **QUICK)
    assert [group.label for group in table.groups] == ["0", "1"]
    top = table.groups[1].values["largest"]
    assert top.estimate == f[s > 0.5].max()
    assert top.low <= top.estimate <= top.high
    assert top.replicates == 40


def test_strata_have_the_measures_of_their_rows(rows):
    y, f, s, job = rows
    table = MeasureFrame.by_strata(y, f, s, control_features=job, **QUICK)
    assert [group.label for group in table.groups] == ["clerk", "cook"]
    cook = job == "cook"
    own = y[cook], f[cook], s[cook]
    for name, found in table.groups[1].values.items():
        measure = MEASURES[name]
        columns = measure.columns(*own)
        assert found == interval(measure, *columns, rng=np.random.default_rng(0), **QUICK)
    strata = by_stratum(pairwise_fairness, y, f, s, control_features=job).strata
    assert [g.values["pf"].estimate for g in table.groups] == [t.value for t in strata]


def test_groups_left_out_have_a_reason(rows):
    y, f, s, job = rows
    job = job.astype(object)
    job[:5] = "pilot"
    table = MeasureFrame.by_strata(y, f, s, control_features=job, measures=("gdp",), **QUICK)
    assert [(group.label, group.why) for group in table.left_out] == [
        ("pilot", "fewer than 30 rows")
    ]
    assert len(table.groups) == 2
    levels = np.where(np.arange(400) < 3, 7.0, np.round(s))
    left = MeasureFrame.by_quantiles(y, f, levels, **QUICK).left_out
    assert [(group.label, group.rows) for group in left] == [("7", 3)]


def test_data_frame_has_one_row_per_group_after_all_rows(rows):
    y, f, s, job = rows
    frame = MeasureFrame.by_strata(y, f, s, control_features=job, **QUICK).frame()
    assert frame.index.tolist() == ["all", "clerk", "cook"]
    assert frame["rows"].squeeze().tolist() == [400, *np.unique(job, return_counts=True)[1]]
    assert frame["gdp"].columns.tolist() == ["estimate", "low", "high"]
    assert (frame["gdp", "low"] <= frame["gdp", "estimate"]).all()
    assert_allclose(frame.loc["all", ("gdp", "estimate")], gdp(f, s))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y, f, s: MeasureFrame.by_quantiles(y[:9], f, s), "^y_true must"),
        (
            lambda y, f, s: MeasureFrame.by_quantiles(y, f, np.column_stack([s, s])),
            "^sensitive_features must",
        ),
        (
            lambda y, f, s: MeasureFrame.by_strata(
                y, f, s, control_features=s > 0, measures=("mae",)
            ),
            "^measures must .*'mae'",
        ),
        (
            lambda y, f, s: MeasureFrame.by_strata(y, f, s, control_features=s > 0, measures=()),
            "^measures must .*none",
        ),
    ],
)
def test_invalid_arguments_are_refused_by_name(rows, call, message):
    y, f, s, _ = rows
    with pytest.raises(ValueError, match=message):
        call(y, f, s)

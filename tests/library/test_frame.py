"""Numbers by groups, each as it is on that group's rows alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.measures import (
    MeasureFrame,
    bootstrap_interval,
    by_stratum,
    gdp,
    pairwise_fairness,
    pairwise_interval,
)

QUICK = {"replicates": 40}


@pytest.fixture
def rows(rng):
    s = rng.uniform(size=400)
    job = np.where(rng.uniform(size=400) < 0.3, "clerk", "cook")
    y = s + rng.normal(size=400)
    return y, s + 0.5 * (job == "cook") + 0.1 * rng.normal(size=400), s, job


def test_fifths_of_the_attribute_hold_the_means_of_their_rows(rows):
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


def test_metrics_of_ones_own_come_with_intervals(rows):
    y, f, s, _ = rows
    own = {"largest": lambda y, f: float(f.max())}
    table = MeasureFrame.by_quantiles(y, f, s > 0.5, metrics=own, **QUICK)
    assert [group.label for group in table.groups] == ["0", "1"]
    top = table.groups[1].values["largest"]
    assert top.estimate == f[s > 0.5].max()
    assert top.low <= top.estimate <= top.high
    assert top.replicates == 40


def test_strata_hold_the_measures_of_their_rows(rows):
    y, f, s, job = rows
    table = MeasureFrame.by_strata(y, f, s, control_features=job, **QUICK)
    assert [group.label for group in table.groups] == ["clerk", "cook"]
    cook = job == "cook"
    options = {"rng": np.random.default_rng(0), **QUICK}
    known = bootstrap_interval(gdp, f[cook], s[cook], bounds=(0, np.inf), **options)
    assert table.groups[1].values["gdp"] == known
    assert table.groups[1].values["pf"] == pairwise_interval(
        y[cook], f[cook], s[cook], rng=np.random.default_rng(0), **QUICK
    )
    strata = by_stratum(pairwise_fairness, y, f, s, control_features=job).strata
    assert [g.values["pf"].estimate for g in table.groups] == [t.value for t in strata]


def test_groups_that_cannot_be_measured_are_named(rows):
    y, f, s, job = rows
    job = job.astype(object)
    job[:5] = "pilot"
    table = MeasureFrame.by_strata(y, f, s, control_features=job, measures=("gdp",), **QUICK)
    assert [(group.label, group.why) for group in table.left_out] == [
        ("pilot", "fewer than 30 rows")
    ]
    assert len(table.groups) == 2
    levels = np.where(np.arange(400) < 3, 7.0, np.round(s))
    told = MeasureFrame.by_quantiles(y, f, levels, **QUICK).left_out
    assert [(group.label, group.rows) for group in told] == [("7", 3)]


def test_the_frame_has_a_row_per_group_with_all_rows_first(rows):
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
        (lambda y, f, s: MeasureFrame.by_quantiles(y[:9], f, s), "y_true must have one row"),
        (
            lambda y, f, s: MeasureFrame.by_quantiles(y, f, np.column_stack([s, s])),
            "sensitive_features must be one column here, got 2",
        ),
        (
            lambda y, f, s: MeasureFrame.by_strata(
                y, f, s, control_features=s > 0, measures=("mae",)
            ),
            r"measures must be of gdp, hgr, pf, got \['mae'\]",
        ),
        (
            lambda y, f, s: MeasureFrame.by_strata(y, f, s, control_features=s > 0, measures=()),
            "measures must be of gdp, hgr, pf, got none",
        ),
    ],
)
def test_bad_input_is_refused_by_name(rows, call, message):
    y, f, s, _ = rows
    with pytest.raises(ValueError, match=message):
        call(y, f, s)

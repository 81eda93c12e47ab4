"""Weights as counts: a measure of weighted rows is that of repeated rows, for every measure."""

import inspect
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import mean_absolute_error

import fkd
from fkd import measures
from fkd.core.validation import weight_vector
from fkd.measures import (
    MEASURES,
    BinnedRows,
    MeasureFrame,
    Nodes,
    PairwiseRows,
    by_stratum,
    compare,
    curves_along,
    gdp,
    gedi,
    hgr,
    interval,
    leaking_function,
    means_by_pair,
    means_by_quantile,
    noise_floor,
    pairwise_fairness,
    pairwise_rates,
    profile_along,
    profile_of_pair,
    profile_within,
    recoverability,
    survey_weights,
)
from fkd.measures.columns import quantiles_of

pytestmark = pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")


@dataclass(frozen=True)
class Rows:
    """Rows with every column that some measure needs."""

    y: np.ndarray
    f: np.ndarray
    g: np.ndarray
    S: np.ndarray
    job: np.ndarray
    hours: np.ndarray

    @classmethod
    def draw(cls, rng, n):
        S = np.column_stack([np.round(rng.gamma(2.0, size=n), 2), rng.uniform(5, 9, size=n)])
        y = np.round(S[:, 0] + rng.normal(size=n), 1)
        return cls(
            y=y,
            f=np.round(y + S[:, 1] + rng.normal(size=n), 1),
            g=y + rng.normal(size=n),
            S=S,
            job=rng.choice(["cook", "pilot"], size=n),
            hours=rng.uniform(size=n),
        )

    def taken(self, index):
        return replace(self, **{name: column[index] for name, column in vars(self).items()})

    @property
    def s(self):
        return self.S[:, 0]


def seeded():
    return np.random.default_rng(3)


NODES = {"f_nodes": Nodes.between(-20, 60), "s_nodes": Nodes.between(0, 30)}


def binned(found):
    return [found.hgr(), found.gdp(), found.gdp(estimator="plugin")]


def curve(band):
    return np.concatenate([band.points, band.mean])


def group_values(groups):
    return np.array([[*group.ranges[0], *group.mean] for group in groups])


def leak(found):
    return np.concatenate([[found.correlation], found.points, found.values, found.scores])


def frame_values(table):
    return [
        [interval.estimate for interval in group.values.values()]
        for group in (table.overall, *table.groups)
    ]


def audited(r, w, **options):
    found = fkd.audit(
        r.y, r.f, r.S, other=r.g, replicates=2, sample_weight=w, **{"level": 0.9, **options}
    )
    scores = [
        [value.estimate for value in (*column.scores.values(), *column.within.values())]
        for column in found.columns
    ]
    curves = [curve(column.profile.curves["error"]) for column in found.columns]
    pairs = [group_values(pair.groups) for pair in found.pairs]
    errors = [found.mae.estimate, found.error.estimate, found.mae_change.estimate]
    return np.concatenate([np.ravel(part) for part in (*scores, *curves, *pairs, errors)])


def declared(measure):
    return lambda r, w: measure(*measure.columns(r.y, r.f, r.S), sample_weight=w)


def interval_of(name, end, **options):
    measure = MEASURES[name]
    return lambda r, w: getattr(
        interval(
            measure,
            *measure.columns(r.y, r.f, r.s),
            rng=seeded(),
            replicates=9,
            sample_weight=w,
            **{key: getattr(r, column) for key, column in options.items()},
        ),
        end,
    )


def comparison_of(name):
    measure = MEASURES[name]
    return lambda r, w: [
        side.estimate
        for side in vars(
            compare(
                measure,
                measure.columns(r.y, r.f, r.s),
                measure.columns(r.y, r.g, r.s),
                rng=seeded(),
                replicates=2,
                sample_weight=w,
            )
        ).values()
    ]


# Values that depend on the weighted distribution of the rows alone.
DISTRIBUTION = {
    **{name: declared(measure) for name, measure in MEASURES.items()},
    "hgr rank": lambda r, w: hgr(r.f, r.S, margins="rank", sample_weight=w),
    "hgr within": lambda r, w: hgr(r.f, r.S, control_features=r.job, sample_weight=w),
    "gdp rank": lambda r, w: gdp(r.f, r.S, margins="rank", sample_weight=w),
    "gdp within": lambda r, w: gdp(r.f, r.S, control_features=r.hours, sample_weight=w),
    "gedi 2": lambda r, w: gedi(r.f, r.S, degree=2, sample_weight=w),
    "pf within": lambda r, w: pairwise_fairness(
        r.y, r.f, r.S, control_features=r.hours, sample_weight=w
    ),
    "pf dp": lambda r, w: pairwise_fairness(None, r.f, r.S, criterion="dp", sample_weight=w),
    "pairwise_rates": lambda r, w: pairwise_rates(r.y, r.f, r.S, ties="half", sample_weight=w),
    "PairwiseRows": lambda r, w: PairwiseRows(r.y, r.S, sample_weight=w).rates(r.f),
    "by_stratum": lambda r, w: [
        [group.weight or group.rows, group.value]
        for group in by_stratum(gdp, r.f, r.s, control_features=r.hours, sample_weight=w).strata
    ],
    "means_by_quantile": lambda r, w: group_values(means_by_quantile(r.y, r.s, sample_weight=w)),
    "means_by_pair": lambda r, w: group_values(
        means_by_pair(r.y, r.S[:, 0], r.S[:, 1], groups=2, sample_weight=w)[0]
    ),
    "curves_along": lambda r, w: curve(
        curves_along(r.y, r.s, rng=seeded(), draws=2, sample_weight=w)[0]
    ),
    "leaking_function": lambda r, w: leak(leaking_function(r.f, r.s, sample_weight=w)),
    "profile_along": lambda r, w: curve(
        profile_along(r.y, r.f, r.s, rng=seeded(), draws=2, sample_weight=w).curves["error"]
    ),
    "profile_within": lambda r, w: [
        group_values(job.groups)
        for job in profile_within(r.y, r.f, r.s, control_features=r.job, sample_weight=w)[0]
    ],
    "profile_of_pair": lambda r, w: group_values(
        profile_of_pair(r.y, r.f, r.S, sample_weight=w)[0]
    ),
    "BinnedRows": lambda r, w: binned(BinnedRows.from_rows(r.f, r.s, sample_weight=w, **NODES)),
    "MeasureFrame": lambda r, w: frame_values(
        MeasureFrame.by_quantiles(r.y, r.f, r.s, replicates=2, sample_weight=w)
    ),
    "by_strata": lambda r, w: frame_values(
        MeasureFrame.by_strata(r.y, r.f, r.s, control_features=r.job, replicates=2, sample_weight=w)
    ),
    **{f"interval {name}": interval_of(name, "estimate") for name in MEASURES},
    "interval within": interval_of("gdp", "estimate", control_features="job"),
    "compare gdp": comparison_of("gdp"),
    "compare pf": comparison_of("pf"),
    "audit": lambda r, w: audited(r, w, control_features=r.job),
}
# Values that depend on the number of rows: a row of weight two is one observation.
OBSERVATIONS = {
    "noise_floor": lambda r, w: (
        noise_floor(r.f, r.S, rng=seeded(), permutations=5, sample_weight=w).mean
    ),
    "recoverability": lambda r, w: [
        [found.before, found.after]
        for found in recoverability(
            np.column_stack([r.f, r.y]), r.S, before=np.column_stack([r.f, r.g]), sample_weight=w
        )
    ],
    "band": lambda r, w: curves_along(r.y, r.s, rng=seeded(), sample_weight=w)[0].highest,
    "group interval": lambda r, w: [
        group.high for group in means_by_quantile(r.y, r.s, sample_weight=w)
    ],
    "gdp interval": interval_of("gdp", "high"),
    "pf interval": interval_of("pf", "high"),
    "pf interval within": interval_of("pf", "high", control_features="hours"),
}
# Rows are exchanged between two samples, which is exact for equal weights only.
WITHOUT_WEIGHTS = {"sample_changes"}
# The unit of weights does not matter to these.
WITHOUT_UNIT = ("gedi", "gedi 2", "pf", "pf dp", "pairwise_rates", "PairwiseRows")
EXACT = ("pf", "pf dp", "pairwise_rates", "PairwiseRows", "interval pf", "compare pf")

distribution = pytest.mark.parametrize("name", DISTRIBUTION)
everything = pytest.mark.parametrize("name", [*DISTRIBUTION, *OBSERVATIONS])


def value(name, rows, w):
    found = {**DISTRIBUTION, **OBSERVATIONS}[name](rows, w)
    return np.concatenate([np.ravel(part) for part in found]) if np.ndim(found) else found


@pytest.fixture
def rows(rng):
    return Rows.draw(rng, 448)


@pytest.fixture
def whole(rng, rows):
    return rng.choice([0.0, 1.0, 2.0, 3.0], p=[0.1, 0.4, 0.3, 0.2], size=len(rows.y))


def test_every_public_function_of_rows_takes_weights():
    rows = {"y_pred", "columns", "first", "sensitive", "sensitive_features", "features"}
    for name in measures.__all__:
        function = getattr(measures, name)
        if inspect.isfunction(function) and name not in WITHOUT_WEIGHTS:
            parameters = inspect.signature(function).parameters
            assert ("sample_weight" in parameters) == bool(rows & {*parameters} or "survey" in name)


@distribution
def test_whole_weights_are_repeated_rows(name, rows, whole):
    repeated = rows.taken(np.repeat(np.arange(len(whole)), whole.astype(int)))
    found, expected = value(name, rows, whole), value(name, repeated, None)
    if name in EXACT:
        assert_array_equal(found, expected)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    plain = value(name, rows, None)
    # Weights make a difference.
    assert np.shape(plain) != np.shape(found) or not np.allclose(found, plain, rtol=1e-3, atol=0)


@everything
def test_row_of_weight_zero_is_absent(name, rows, whole):
    kept = whole > 0
    found = value(name, rows, whole)
    assert_allclose(found, value(name, rows.taken(kept), whole[kept]), rtol=1e-9, atol=1e-12)


@everything
def test_weights_of_one_change_nothing(name, rows):
    found = value(name, rows, np.ones(len(rows.y)))
    assert_allclose(found, value(name, rows, None), rtol=1e-9, atol=1e-9)


@distribution
def test_order_of_rows_does_not_matter(name, rows, rng):
    w, order = rng.uniform(0.5, 2, size=len(rows.y)), rng.permutation(len(rows.y))
    found = value(name, rows.taken(order), w[order])
    assert_allclose(found, value(name, rows, w), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WITHOUT_UNIT)
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_unit_of_weights_does_not_matter_without_a_bandwidth(name, rows, rng, unit):
    w = rng.uniform(0.5, 2, size=len(rows.y))
    assert_allclose(value(name, rows, unit * w), value(name, rows, w), rtol=1e-9)


@pytest.mark.parametrize("name", ["hgr", "chi2", "gdp", "gdp_plugin", "curves_along"])
def test_bandwidths_are_those_of_the_sum_of_weights(name, rows, rng):
    w = rng.uniform(0.5, 2, size=len(rows.y))
    scaled = value(name, rows, survey_weights(1000 * w))
    assert_allclose(scaled, value(name, rows, survey_weights(w)), rtol=1e-9)
    assert not np.allclose(value(name, rows, 1000 * w), scaled, rtol=1e-3)
    with pytest.raises(ValueError, match=r"sample_weight .*survey_weights"):
        value(name, rows, w / w.sum())


def test_survey_weights_sum_to_the_number_of_rows_above_zero():
    w = np.array([0.0, 10.0, 30.0])
    assert survey_weights(w).tolist() == [0.0, 0.5, 1.5]
    with pytest.raises(ValueError, match="sample_weight"):
        survey_weights(None)


@pytest.mark.parametrize(
    ("changed", "module", "size"),
    [
        ("_ROWS", "hgr", 64),
        ("CELLS_FROM", "hgr", 200),
        ("BLOCK_ROWS", "profiles", 64),
        ("TILE_CELLS", "gdp", 4096),
        ("SUBSAMPLES_FROM", "pairwise", 100),
        ("PAIR_TILE_CELLS", "pairwise", 4096),
    ],
)
def test_size_of_blocks_does_not_change_weighted_values(monkeypatch, rng, changed, module, size):
    rows, w = Rows.draw(rng, 300), rng.uniform(0.5, 2, size=300)
    names = ("hgr", "gdp", "pairwise_rates", "band", "pf interval", "pf interval within")
    before = [value(name, rows, w) for name in names]
    monkeypatch.setattr(import_module(f"fkd.measures.{module}"), changed, size)
    # Rows counted in cells are shared out between points, which costs a few digits.
    digits = 1e-4 if changed == "CELLS_FROM" else 1e-9
    for name, expected in zip(names, before, strict=True):
        assert_allclose(value(name, rows, w), expected, rtol=digits)


# Quantiles and intervals


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), share=st.floats(0, 1))
def test_quantiles_are_those_of_repeated_rows_to_the_bit(seed, n, share):
    rng = np.random.default_rng(seed)
    values, w = np.round(rng.normal(size=n), 1), rng.integers(1, 5, size=n)
    found = quantiles_of(values, [share], w.astype(float))
    assert_array_equal(found, np.quantile(np.repeat(values, w), [share]))


def test_heavy_row_is_one_observation_of_an_interval(rng):
    rows = Rows.draw(rng, 400)
    heavy = np.where(np.arange(400) < 40, 50.0, 0.1)
    for found in (
        partial(interval, mean_absolute_error, rows.y, rows.f, replicates=200),
        partial(interval, MEASURES["pf"], rows.y, rows.f, rows.s, replicates=200),
    ):
        even, few = found(rng=seeded()), found(rng=seeded(), sample_weight=heavy)
        assert few.high - few.low > 1.5 * (even.high - even.low)
    groups = [means_by_quantile(rows.y, rows.s, groups=2, sample_weight=w) for w in (None, heavy)]
    even, few = (both[0].high - both[0].low for both in groups)
    assert few > 1.5 * even


def test_interval_does_not_shrink_with_the_unit_of_weights(rows, rng):
    w = rng.uniform(0.5, 2, size=len(rows.y))
    assert_allclose(value("pf interval", rows, 100 * w), value("pf interval", rows, w), rtol=1e-9)
    cooks = (rows.job == "cook").astype(float)
    highs = [
        [group.high for group in means_by_quantile(rows.y, cooks, sample_weight=scaled)]
        for scaled in (w, 100 * w)
    ]
    assert_allclose(*highs, rtol=1e-9)
    ends = [
        interval(
            mean_absolute_error, rows.y, rows.f, rng=seeded(), replicates=50, sample_weight=scaled
        ).high
        for scaled in (w, 100 * w)
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def test_unequal_weights_raise_the_noise_floor(rng):
    f, s = rng.normal(size=(2, 400))
    even, uneven = np.ones(400), survey_weights(np.where(np.arange(400) % 10, 0.01, 1.0))
    floors = [
        noise_floor(f, s, rng=seeded(), permutations=20, sample_weight=w).mean
        for w in (even, uneven)
    ]
    assert floors[1] > 1.5 * floors[0]


def test_noise_floor_shuffles_values_in_proportion_to_their_weights(rng):
    seen = []

    def mean_of_s(f, S, *, sample_weight):
        seen.append(float(S.mean()))
        return 0.0

    s = rng.uniform(size=1000)
    noise_floor(s, s, rng=rng, measure=mean_of_s, permutations=1, sample_weight=s + 0.01)
    assert seen[1] == pytest.approx(np.average(s, weights=s + 0.01), abs=0.01)
    assert seen[1] > s.mean() + 0.1


def test_recoverability_counts_errors_by_weight(rng):
    s = rng.uniform(size=600)
    readable = np.arange(600) % 2 == 0
    features = np.where(readable, s, rng.uniform(size=600))[:, None]
    for heavy in (True, False):
        w = np.where(readable == heavy, 1.0, 0.001)
        for found in recoverability(features, s, sample_weight=w):
            assert (found.after > 0.8) == heavy, found
    with pytest.raises(ValueError, match=r"^features must .*20 rows .*sample_weight.* got 5"):
        recoverability(features, s, sample_weight=np.arange(600) < 5)


def test_group_is_left_out_by_its_number_of_rows(rng):
    rows = Rows.draw(rng, 300)
    few = np.where(np.arange(300) < 20, "few", "many")
    w = np.where(few == "few", 100.0, 1.0)
    found = by_stratum(gdp, rows.f, rows.s, control_features=few, sample_weight=w)
    assert [(group.label, group.why) for group in found.left_out] == [("few", "fewer than 30 rows")]
    light = np.where(np.arange(300) < 100, "light", "heavy")
    w = np.where(light == "light", 0.001, 1.0)
    found = by_stratum(gdp, rows.f, rows.s, control_features=light, sample_weight=w)
    (left,) = found.left_out
    assert left.why == "weights that sum to less than 2"


@pytest.mark.parametrize("as_given", [list, np.asarray, pd.Series, pd.DataFrame])
def test_groups_contain_rows_of_positive_weight(rng, as_given):
    rows, w = Rows.draw(rng, 300), np.arange(300) % 5
    job = as_given(rows.job)
    found = by_stratum(gdp, rows.f, rows.s, control_features=job, sample_weight=w)
    assert [group.label for group in found.strata] == ["cook", "pilot"]
    assert [group.weight for group in found.strata] == [
        w[rows.job == name].sum() for name in ("cook", "pilot")
    ]
    assert found.rows == 240
    longer = as_given(np.append(rows.job, "cook"))
    with pytest.raises(ValueError, match=r"control_features must .*301"):
        by_stratum(gdp, rows.f, rows.s, control_features=longer, sample_weight=w)


def test_groups_report_their_weight(rng):
    rows, w = Rows.draw(rng, 400), rng.integers(1, 5, size=400)
    table = MeasureFrame.by_quantiles(rows.y, rows.f, rows.s, replicates=2, sample_weight=w)
    assert table.overall.weight == w.sum() == sum(group.weight for group in table.groups)
    assert table.frame()["weight"].tolist()[0] == w.sum()
    assert "weight" not in MeasureFrame.by_quantiles(rows.y, rows.f, rows.s, replicates=2).frame()
    assert fkd.audit(rows.y, rows.f, rows.s, replicates=2, sample_weight=w).weight == w.sum()


# Validation


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, -1.0, 1.0], "-1 in row 1"),
        ([1.0, np.nan, 1.0], "nan in row 1"),
        ([np.inf, 1.0, 1.0], "inf in row 0"),
        ([1.0, 1e-200, 1.0], "1e-200 in row 1"),
        ([0.0, 0.0, 0.0], "got 0"),
        ([9e15, 9e15, 0.0], "1.8e"),
        ([1.0, 1.0], r"shape \(2,\)"),
        (2.0, r"shape \(\)"),
        (["a", "b", "c"], "<U1"),
        (np.ma.masked_equal([1.0, 2.0, 3.0], 2.0), "masked"),
    ],
)
def test_invalid_weights_are_refused(weights, words):
    with pytest.raises(ValueError, match=f"sample_weight .*{words}"):
        weight_vector(weights, 3)


def test_weights_may_be_any_column():
    assert weight_vector(None, 3) is None
    assert weight_vector(np.array([[1], [0], [2]]), 3).tolist() == [1.0, 0.0, 2.0]
    assert weight_vector([True, False, True], 3).tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["hgr", "gdp", "gedi", "pf", "interval pf"])
def test_one_row_of_positive_weight_is_too_few(name, rng):
    rows, w = Rows.draw(rng, 300), np.zeros(300)
    w[7] = 3
    with pytest.raises(ValueError, match=r"sample_weight .*two rows"):
        value(name, rows, w)


@pytest.mark.needs("fairlearn")
def test_fairlearn_passes_weights_to_a_measure(rng):
    from fairlearn import metrics

    rows, w = Rows.draw(rng, 400), rng.uniform(0.5, 2, size=400)
    frame = metrics.MetricFrame(
        metrics={"pf": pairwise_fairness, "mae": mean_absolute_error},
        y_true=rows.y,
        y_pred=rows.f,
        sensitive_features=rows.job,
        sample_params={
            "pf": {"sensitive_features": rows.s, "sample_weight": w},
            "mae": {"sample_weight": w},
        },
    )
    for job, found in frame.by_group["pf"].items():
        own = rows.job == job
        expected = pairwise_fairness(rows.y[own], rows.f[own], rows.s[own], sample_weight=w[own])
        assert found == pytest.approx(expected)
    assert frame.overall["pf"] == pytest.approx(
        pairwise_fairness(rows.y, rows.f, rows.s, sample_weight=w)
    )


def test_noise_floor_needs_more_than_one_heavy_row(rng):
    """Shuffled beside it, s would be next to constant, and the floor next to nothing."""
    f, s = rng.normal(size=(2, 200))
    with pytest.raises(ValueError, match=r"sample_weight .*one row"):
        noise_floor(f, s, rng=rng, sample_weight=np.r_[1e4, np.ones(199)])
    heavy = np.r_[100.0, np.ones(199)]
    assert noise_floor(f, s, rng=rng, permutations=20, sample_weight=heavy).mean > 0

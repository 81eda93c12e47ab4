"""Weights of rows: what a measure says of rows that are there so often, without repeating them."""

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
from sklearn import config_context
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import cross_validate

import fkd
from fkd import measures
from fkd.core.validation import weight_vector
from fkd.measures import (
    MeasureFrame,
    MeasureState,
    Nodes,
    PairwiseRows,
    bootstrap_difference,
    bootstrap_interval,
    bootstrap_pair,
    by_stratum,
    chi2,
    curves_along,
    gdp,
    gedi,
    hgr,
    leaking_function,
    means_by_pair,
    means_by_quantile,
    noise_floor,
    pairwise_fairness,
    pairwise_interval,
    pairwise_pair,
    pairwise_rates,
    profile_along,
    profile_of_pair,
    profile_within,
    recoverability,
    scorer,
    stratified_interval,
    survey_weights,
)
from fkd.measures.columns import quantiles_of
from fkd.measures.groups import UndefinedMeasureError
from fkd.measures.pairwise import dense_ranks, weighted_ascents

pytestmark = pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")


@dataclass(frozen=True)
class Rows:
    """Rows with everything that some measure asks for."""

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


def nodes():
    return {"f_nodes": Nodes.between(-20, 60), "s_nodes": Nodes.between(0, 30)}


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


# Values that depend on the weighted distribution of the rows alone.
PROMISED = {
    "hgr": lambda r, w: hgr(r.f, r.S, sample_weight=w),
    "hgr rank": lambda r, w: hgr(r.f, r.S, margins="rank", sample_weight=w),
    "hgr within": lambda r, w: hgr(r.f, r.S, control_features=r.job, sample_weight=w),
    "chi2": lambda r, w: chi2(r.f, r.S, sample_weight=w),
    "gdp": lambda r, w: gdp(r.f, r.S, sample_weight=w),
    "gdp rank": lambda r, w: gdp(r.f, r.S, margins="rank", sample_weight=w),
    "gdp plugin": lambda r, w: gdp(r.f, r.S, estimator="plugin", sample_weight=w),
    "gdp within": lambda r, w: gdp(r.f, r.S, control_features=r.hours, sample_weight=w),
    "gedi": lambda r, w: gedi(r.f, r.S, degree=2, sample_weight=w),
    "pairwise_fairness": lambda r, w: pairwise_fairness(r.y, r.f, r.S, sample_weight=w),
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
    "MeasureState": lambda r, w: [
        *MeasureState.of(r.f, r.s, sample_weight=w, **nodes()).value().values()
    ],
    "MeasureFrame": lambda r, w: frame_values(
        MeasureFrame.by_quantiles(r.y, r.f, r.s, replicates=2, sample_weight=w)
    ),
    "by_strata": lambda r, w: frame_values(
        MeasureFrame.by_strata(r.y, r.f, r.s, control_features=r.job, replicates=2, sample_weight=w)
    ),
    "bootstrap_interval": lambda r, w: (
        bootstrap_interval(hgr, r.f, r.s, rng=seeded(), replicates=2, sample_weight=w).estimate
    ),
    "bootstrap_difference": lambda r, w: (
        bootstrap_difference(
            gdp, (r.f, r.s), (r.g, r.s), rng=seeded(), replicates=2, sample_weight=w
        ).estimate
    ),
    "bootstrap_pair": lambda r, w: (
        bootstrap_pair(
            gdp, (r.f, r.s), (r.g, r.s), rng=seeded(), replicates=2, sample_weight=w
        ).second.estimate
    ),
    "pairwise_interval": lambda r, w: (
        pairwise_interval(r.y, r.f, r.s, rng=seeded(), replicates=2, sample_weight=w).estimate
    ),
    "pairwise_pair": lambda r, w: (
        pairwise_pair(
            r.y, r.f, r.g, r.s, rng=seeded(), replicates=2, sample_weight=w
        ).difference.estimate
    ),
    "stratified_interval": lambda r, w: (
        stratified_interval(
            gdp, r.f, r.s, control_features=r.job, rng=seeded(), replicates=2, sample_weight=w
        ).estimate
    ),
    "audit": lambda r, w: audited(r, w, control_features=r.job),
}
# Ends of intervals and what is random beside them: a row of weight two is one row that was seen.
OF_ROWS = {
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
    "interval": lambda r, w: (
        bootstrap_interval(gdp, r.f, r.s, rng=seeded(), replicates=9, sample_weight=w).high
    ),
    "pf interval": lambda r, w: (
        pairwise_interval(r.y, r.f, r.s, rng=seeded(), replicates=9, sample_weight=w).high
    ),
    "interval within": lambda r, w: (
        stratified_interval(
            pairwise_fairness,
            r.y,
            r.f,
            r.s,
            control_features=r.hours,
            rng=seeded(),
            replicates=9,
            sample_weight=w,
        ).high
    ),
}
CANNOT = {
    **dict.fromkeys(
        ("counted_floor", "counted_interval", "counted_intervals", "counted_pair"),
        "rows of one cell are drawn as alike, which rows of two weights are not",
    ),
    "sample_changes": "rows are exchanged between two samples, which is exact for equal rows alone",
}
# What is no function of rows: values that others return, points, the weights themselves.
NO_ROWS = {
    "CurveBand",
    "CurveChange",
    "GroupMeans",
    "Interval",
    "IntervalPair",
    "LeakingFunction",
    "MeasuredGroup",
    "Nodes",
    "NoiseFloor",
    "NumberChange",
    "Profile",
    "Recovery",
    "SampleChanges",
    "StratifiedValue",
    "Stratum",
    "StratumProfile",
    "survey_weights",
}
# Which unit weights have does not matter to these.
WITHOUT_UNIT = ("gedi", "pairwise_fairness", "pf dp", "pairwise_rates", "PairwiseRows")
EXACT = ("pairwise_fairness", "pf dp", "pairwise_rates", "PairwiseRows", "pairwise_interval")

promised = pytest.mark.parametrize("name", PROMISED)
everything = pytest.mark.parametrize("name", [*PROMISED, *OF_ROWS])


def value(name, rows, w):
    found = {**PROMISED, **OF_ROWS}[name](rows, w)
    return np.concatenate([np.ravel(part) for part in found]) if np.ndim(found) else found


@pytest.fixture(params=[448, 800], ids=["compared", "sorted"])
def rows(request, rng):
    return Rows.draw(rng, request.param)


@pytest.fixture
def whole(rng, rows):
    return rng.choice([0.0, 1.0, 2.0, 3.0], p=[0.1, 0.4, 0.3, 0.2], size=len(rows.y))


def test_every_public_measure_keeps_the_promise_or_says_why_not():
    told = {*PROMISED, *OF_ROWS, *CANNOT, *NO_ROWS, "scorer"}
    assert {*measures.__all__, "audit"} <= told
    taking = {
        name
        for name in measures.__all__
        if "sample_weight" in inspect.signature(getattr(measures, name)).parameters
    }
    assert taking == {*measures.__all__} - {*CANNOT} - (NO_ROWS - {"survey_weights"}) - {
        "scorer",  # asks for it by routing
        "MeasureFrame",  # its makers take it
        "MeasureState",
    }
    assert all(CANNOT.values())


@promised
def test_whole_weights_are_repeated_rows(name, rows, whole):
    repeated = rows.taken(np.repeat(np.arange(len(whole)), whole.astype(int)))
    found, expected = value(name, rows, whole), value(name, repeated, None)
    if name in EXACT:
        assert_array_equal(found, expected)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    plain = value(name, rows, None)
    # Weights matter.
    assert np.shape(plain) != np.shape(found) or not np.allclose(found, plain, rtol=1e-3, atol=0)


@everything
def test_a_row_of_weight_zero_is_absent(name, rows, whole):
    kept = whole > 0
    found = value(name, rows, whole)
    assert_allclose(found, value(name, rows.taken(kept), whole[kept]), rtol=1e-9, atol=1e-12)


@everything
def test_weights_of_one_are_none(name, rows):
    found = value(name, rows, np.ones(len(rows.y)))
    assert_allclose(found, value(name, rows, None), rtol=1e-9, atol=1e-9)


@promised
def test_the_order_of_rows_does_not_matter(name, rows, rng):
    w, order = rng.uniform(0.5, 2, size=len(rows.y)), rng.permutation(len(rows.y))
    found = value(name, rows.taken(order), w[order])
    assert_allclose(found, value(name, rows, w), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WITHOUT_UNIT)
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_what_has_no_window_has_no_unit_of_weights(name, rows, rng, unit):
    w = rng.uniform(0.5, 2, size=len(rows.y))
    assert_allclose(value(name, rows, unit * w), value(name, rows, w), rtol=1e-9)


@pytest.mark.parametrize("name", ["hgr", "chi2", "gdp", "gdp plugin", "curves_along"])
def test_windows_are_of_the_sum_of_weights(name, rows, rng):
    w = rng.uniform(0.5, 2, size=len(rows.y))
    scaled = value(name, rows, survey_weights(1000 * w))
    assert_allclose(scaled, value(name, rows, survey_weights(w)), rtol=1e-9)
    assert not np.allclose(value(name, rows, 1000 * w), scaled, rtol=1e-3)
    with pytest.raises(ValueError, match=r"sum to at least 2, got 1: .*survey_weights scales"):
        value(name, rows, w / w.sum())


def test_survey_weights_sum_to_the_rows_that_count():
    w = np.array([0.0, 10.0, 30.0])
    assert survey_weights(w).tolist() == [0.0, 0.5, 1.5]
    with pytest.raises(ValueError, match="got None; leave it out"):
        survey_weights(None)


@pytest.mark.parametrize(
    ("changed", "module", "size"),
    [
        ("_ROWS", "hgr", 64),
        ("CELLS_FROM", "hgr", 200),
        ("BLOCK_ROWS", "level_rows", 64),
        ("TILE_CELLS", "smoothing", 4096),
        ("TILE_CELLS", "pair_counts", 4096),
        ("SORT_FROM", "pairwise", 2),
        ("QUARTERS_FROM", "pair_resampling", 100),
        ("TILE_CELLS", "pair_resampling", 4096),
    ],
)
def test_no_block_loses_its_weights(monkeypatch, rng, changed, module, size):
    rows, w = Rows.draw(rng, 300), rng.uniform(0.5, 2, size=300)
    names = ("hgr", "gdp", "pairwise_rates", "band", "pf interval", "interval within")
    before = [value(name, rows, w) for name in names]
    monkeypatch.setattr(import_module(f"fkd.measures.{module}"), changed, size)
    # Rows counted in cells are shared out between points, which costs a few digits.
    digits = 1e-4 if changed == "CELLS_FROM" else 1e-9
    for name, expected in zip(names, before, strict=True):
        assert_allclose(value(name, rows, w), expected, rtol=digits)


# Pairs


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 70), levels=st.sampled_from([2, 9, 10**6]))
def test_rising_pairs_count_the_product_of_their_weights(seed, n, levels):
    rng = np.random.default_rng(seed)
    values = dense_ranks(rng.integers(levels, size=n).astype(float))
    w = rng.integers(0, 50, size=n).astype(float)
    above = np.triu(values[:, None] < values[None, :])
    assert weighted_ascents(values, w) == float(w @ above @ w)


def rates_by_definition(y, f, s, w):
    pair = w[:, None] * w * (y[:, None] > y)
    for given_s in (s[:, None] > s, s[:, None] < s):
        yield (pair * given_s * (f[:, None] > f)).sum() / (pair * given_s).sum()


def test_fractions_count_pairs_by_their_product(rows, rng):
    w = rng.uniform(size=len(rows.y))
    found = pairwise_rates(rows.y, rows.f, rows.s, sample_weight=w)
    assert_allclose(found, [*rates_by_definition(rows.y, rows.f, rows.s, w)], rtol=1e-10)


@pytest.mark.parametrize("n", [300, *range(700, 710)])
def test_rounding_makes_no_pairs_where_there_are_none(rng, n):
    s, w = rng.normal(size=n), rng.uniform(size=n)
    with pytest.raises(UndefinedMeasureError, match="pairs to compare in both directions"):
        pairwise_fairness(s, rng.normal(size=n), s, sample_weight=w)
    # One pair of whole weights is told from none, however many others there are.
    y = s.copy()
    y[np.argsort(s)[:2]] = y[np.argsort(s)[1::-1]]
    assert pairwise_rates(y, y, s, sample_weight=rng.integers(1, 9, size=n)) == (1.0, 1.0)


def test_a_rate_of_fractions_never_leaves_its_range(rng):
    s, w = np.round(rng.normal(size=700), 1), rng.uniform(size=700)
    y = s + rng.normal(size=700)
    for f, expected in ((y, (1.0, 1.0)), (-y, (0.0, 0.0)), (s, (1.0, 0.0))):
        found = pairwise_rates(y, f, s, sample_weight=w)
        assert_allclose(found, expected, atol=1e-12)
        assert 0 <= min(found) <= max(found) <= 1


# Quantiles, blocks, intervals


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), share=st.floats(0, 1))
def test_quantiles_are_those_of_repeated_rows_to_the_bit(seed, n, share):
    rng = np.random.default_rng(seed)
    values, w = np.round(rng.normal(size=n), 1), rng.integers(1, 5, size=n)
    found = quantiles_of(values, [share], w.astype(float))
    assert_array_equal(found, np.quantile(np.repeat(values, w), [share]))


@pytest.mark.parametrize("kind", ["whole", "fractions"])
def test_states_of_weighted_blocks_add_up(rng, kind):
    rows = Rows.draw(rng, 700)
    w = rng.integers(1, 5, 700).astype(float) if kind == "whole" else rng.uniform(0.5, 2, 700)
    parts = [
        MeasureState.of(rows.f[part], rows.s[part], sample_weight=w[part], **nodes())
        for part in (slice(90), slice(90, 91), slice(91, None))
    ]
    together = MeasureState.of(rows.f, rows.s, sample_weight=w, **nodes())
    added = parts[2] + (parts[0] + parts[1])
    assert added.rows == together.rows == 700
    if kind == "whole":
        assert added.value() == together.value()
        assert together.cells.dtype == np.int64
    assert_allclose([*added.value().values()], [*together.value().values()], rtol=1e-10)
    assert_allclose(together.hgr(), hgr(rows.f, rows.s, sample_weight=w), atol=1e-4)
    assert_allclose(together.gdp(), gdp(rows.f, rows.s, sample_weight=w), rtol=1e-3)


def test_an_interval_takes_a_heavy_row_for_one_row(rng):
    rows = Rows.draw(rng, 400)
    heavy = np.where(np.arange(400) < 40, 50.0, 0.1)
    for found in (
        partial(bootstrap_interval, mean_absolute_error, rows.y, rows.f, replicates=200),
        partial(pairwise_interval, rows.y, rows.f, rows.s, replicates=200),
    ):
        even, few = found(rng=seeded()), found(rng=seeded(), sample_weight=heavy)
        assert few.high - few.low > 1.5 * (even.high - even.low)
    groups = [means_by_quantile(rows.y, rows.s, groups=2, sample_weight=w) for w in (None, heavy)]
    even, few = (both[0].high - both[0].low for both in groups)
    assert few > 1.5 * even


def test_an_interval_does_not_shrink_with_the_unit_of_weights(rows, rng):
    w = rng.uniform(0.5, 2, size=len(rows.y))
    assert_allclose(value("pf interval", rows, 100 * w), value("pf interval", rows, w), rtol=1e-9)
    cooks = (rows.job == "cook").astype(float)
    highs = [
        [group.high for group in means_by_quantile(rows.y, cooks, sample_weight=scaled)]
        for scaled in (w, 100 * w)
    ]
    assert_allclose(*highs, rtol=1e-9)
    ends = [
        bootstrap_interval(
            mean_absolute_error, rows.y, rows.f, rng=seeded(), replicates=50, sample_weight=scaled
        ).high
        for scaled in (w, 100 * w)
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def test_noise_is_that_of_rows_of_unequal_weight(rng):
    f, s = rng.normal(size=(2, 400))
    even, uneven = np.ones(400), survey_weights(np.where(np.arange(400) % 10, 0.01, 1.0))
    floors = [
        noise_floor(f, s, rng=seeded(), permutations=20, sample_weight=w).mean
        for w in (even, uneven)
    ]
    assert floors[1] > 1.5 * floors[0]


def test_the_floor_shuffles_values_as_often_as_their_weights_say(rng):
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
    for told in (True, False):
        w = np.where(readable == told, 1.0, 0.001)
        for found in recoverability(features, s, sample_weight=w):
            assert (found.after > 0.8) == told, found
    with pytest.raises(ValueError, match="above 0 in at least 20 rows, got 5 such rows"):
        recoverability(features, s, sample_weight=np.arange(600) < 5)


def test_a_group_is_left_out_by_its_rows(rng):
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
def test_groups_are_of_the_rows_that_count(rng, as_given):
    rows, w = Rows.draw(rng, 300), np.arange(300) % 5
    job = as_given(rows.job)
    found = by_stratum(gdp, rows.f, rows.s, control_features=job, sample_weight=w)
    assert [group.label for group in found.strata] == ["cook", "pilot"]
    assert [group.weight for group in found.strata] == [
        w[rows.job == name].sum() for name in ("cook", "pilot")
    ]
    assert found.rows == 240
    longer = as_given(np.append(rows.job, "cook"))
    with pytest.raises(ValueError, match=r"control_features must have one row per .*, got 301"):
        by_stratum(gdp, rows.f, rows.s, control_features=longer, sample_weight=w)


def test_groups_tell_how_many_rows_they_stand_for(rng):
    rows, w = Rows.draw(rng, 400), rng.integers(1, 5, size=400)
    table = MeasureFrame.by_quantiles(rows.y, rows.f, rows.s, replicates=2, sample_weight=w)
    assert table.overall.weight == w.sum() == sum(group.weight for group in table.groups)
    assert table.frame()["weight"].tolist()[0] == w.sum()
    assert "weight" not in MeasureFrame.by_quantiles(rows.y, rows.f, rows.s, replicates=2).frame()
    assert fkd.audit(rows.y, rows.f, rows.s, replicates=2, sample_weight=w).weight == w.sum()


# The border


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1.0, -1.0, 1.0], "got -1 in row 1; drop such rows or give them weight 0"),
        ([1.0, np.nan, 1.0], "got nan in row 1; drop"),
        ([np.inf, 1.0, 1.0], "got inf in row 0; drop"),
        ([1.0, 1e-200, 1.0], "got 1e-200 in row 1; drop"),
        ([0.0, 0.0, 0.0], "sum above zero and up to 9e\\+15, got 0; give some row a weight"),
        ([9e15, 9e15, 0.0], "got 1.8e\\+16; give some row a weight, or scale them"),
        ([1.0, 1.0], r"one number per row \(3\), got shape \(2,\); take the weights"),
        (2.0, r"got shape \(\); take the weights"),
        (["a", "b", "c"], "must hold numbers, got dtype <U1; convert"),
        (np.ma.masked_equal([1.0, 2.0, 3.0], 2.0), "must not be masked"),
    ],
)
def test_bad_weights_are_refused_in_a_sentence(weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        weight_vector(weights, 3)


def test_weights_may_be_any_column():
    assert weight_vector(None, 3) is None
    assert weight_vector(np.array([[1], [0], [2]]), 3).tolist() == [1.0, 0.0, 2.0]
    assert weight_vector([True, False, True], 3).tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["hgr", "gdp", "gedi", "pairwise_fairness", "pairwise_interval"])
def test_one_row_that_counts_is_too_few(name, rng):
    rows, w = Rows.draw(rng, 300), np.zeros(300)
    w[7] = 3
    with pytest.raises(ValueError, match="above 0 in at least two rows, got one such row"):
        value(name, rows, w)


# Scorers, fairlearn


@pytest.mark.parametrize("name", ["hgr", "chi2", "gdp", "gedi", "pf"])
def test_a_scorer_weighs_the_rows_it_is_judged_on(name, rng):
    rows, w = Rows.draw(rng, 300), rng.uniform(0.5, 2, size=300)
    X = np.column_stack([rows.g, rows.S])
    with config_context(enable_metadata_routing=True):
        model = Ridge().set_fit_request(sample_weight=False)
        found = cross_validate(
            model,
            X,
            rows.y,
            scoring=scorer(name),
            cv=2,
            params={"sensitive_features": rows.S, "sample_weight": w},
            return_estimator=True,
            return_indices=True,
        )
    measure = {"hgr": hgr, "chi2": chi2, "gdp": gdp, "gedi": gedi}.get(name)
    for i, test in enumerate(found["indices"]["test"]):
        f = found["estimator"][i].predict(X[test])
        own = (f, rows.S[test])
        values = (
            pairwise_fairness(rows.y[test], *own, sample_weight=w[test])
            if measure is None
            else measure(*own, sample_weight=w[test])
        )
        assert found["test_score"][i] == pytest.approx(-max(values), rel=1e-12)


@pytest.mark.needs("fairlearn")
def test_fairlearn_hands_weights_to_our_measures(rng):
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


def test_one_row_with_nearly_all_weight_has_no_noise_floor(rng):
    """Shuffled beside it, s would be next to constant, and the floor next to nothing."""
    f, s = rng.normal(size=(2, 200))
    with pytest.raises(ValueError, match=r"more than 50% of all weight to one row.*got 98"):
        noise_floor(f, s, rng=rng, sample_weight=np.r_[1e4, np.ones(199)])
    heavy = np.r_[100.0, np.ones(199)]
    assert noise_floor(f, s, rng=rng, permutations=20, sample_weight=heavy).mean > 0

"""Intervals, comparisons and noise floors: width, coverage, pairing, and the fast ways."""

import warnings
from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pytest
from coverage_sample import MEASURES as COVERED
from coverage_sample import coverage, dependent, independent
from numpy.testing import assert_allclose

from fkd.core.validation import FairnessWarning, warn_user
from fkd.measures import (
    MEASURES,
    by_stratum,
    compare,
    gdp,
    hgr,
    interval,
    noise_floor,
    pairwise_fairness,
)
from fkd.measures.groups import UndefinedMeasureError
from fkd.measures.resampling import BINNED_FROM, SharedSubsamples, quarter, rescaled_draws

module = import_module("fkd.measures.resampling")


def seeded(replicates=40, seed=3):
    return {"rng": np.random.default_rng(seed), "replicates": replicates}


def ends(found):
    return np.array([found.estimate, found.low, found.high])


@pytest.fixture
def rows(rng):
    """Truth, an unfair prediction, a fair one, two sensitive columns."""
    S = rng.uniform(size=(300, 2)) * [1.0, 0.4]
    talent = rng.normal(size=300)
    y = talent + S[:, 0]
    return y, talent + 2 * S[:, 0], talent + 0.1 * rng.normal(size=300), S


# Intervals


def test_interval_depends_on_the_seed_alone(rows):
    _, f, _, S = rows
    first, again, other = (ends(interval(gdp, f, S, **seeded(50, seed))) for seed in (4, 4, 5))
    assert (first == again).all()
    assert (first[1] != other[1]).any()


@pytest.mark.parametrize("name", ["hgr", "gdp", "pf", "chi2"])
def test_interval_contains_the_estimate_of_every_column(rows, name):
    y, f, _, S = rows
    measure = MEASURES[name]
    columns = measure.columns(y, f, S)
    found = interval(measure, *columns, **seeded(100))
    assert_allclose(found.estimate, measure(*columns), rtol=0, atol=0)
    assert found.estimate.shape == found.low.shape == found.high.shape == (2,)
    assert (found.low < found.estimate).all()
    assert (found.estimate < found.high).all()
    assert (found.level, found.replicates) == (0.95, 100)


@pytest.mark.parametrize("seed", range(10))
def test_interval_of_hgr_of_independent_rows_contains_its_estimate(seed):
    """The plain bootstrap fails here: repeated rows increase HGR."""
    rng = np.random.default_rng(seed)
    found = interval(hgr, rng.normal(size=200), rng.uniform(size=200), rng=rng, replicates=100)
    assert found.low < found.estimate < found.high


def test_subsample_is_a_quarter_of_the_rows_each_four_times():
    seen = []

    def count(rows):
        seen.append(rows)
        return 0.0

    interval(count, np.arange(203.0), **seeded(20))
    assert (seen[0] == np.arange(203)).all()
    for rows in seen[1:]:
        assert np.unique(rows, return_counts=True)[1].tolist() == [4] * 50
    assert len({tuple(rows) for rows in seen}) == 21


@pytest.mark.parametrize("n", [1000, 1 << 16])
def test_every_row_is_equally_likely_to_be_in_a_quarter(rng, n):
    seen = np.zeros(n)
    for _ in range(200):
        rows = quarter(n, rng)
        assert len(np.unique(rows)) == len(rows) == n // 4
        seen[rows] += 1
    shares = [part.mean() / 200 for part in np.array_split(seen, 8)]
    assert_allclose(shares, 0.25, atol=5 * np.sqrt(0.1875 / 200 / (n / 8)))
    assert abs(seen.std() / np.sqrt(200 * 0.1875) - 1) < 0.1


@pytest.mark.parametrize("n", [11, 401])
def test_interval_of_a_mean_has_the_textbook_width(n):
    x = np.random.default_rng(n).normal(size=n)
    found = interval(np.mean, x, **seeded(4000))
    expected = 2 * 1.96 * x.std(ddof=1) / np.sqrt(n)
    # Ends of 4000 draws vary by about 2 %; means of two rows out of eleven are not quite normal.
    assert_allclose(found.high - found.low, expected, rtol=0.05 if n > 100 else 0.12)


def test_rows_are_warned_about_once():
    def warned(rows):
        warn_user("so many rows")
        return float(rows.mean())

    with pytest.warns(FairnessWarning) as messages:
        interval(warned, np.arange(40.0), **seeded(5))
    assert len(messages) == 1


def test_bias_of_subsamples_does_not_move_the_interval(rng):
    def inflated(rows):
        return float(rows.mean() + 100 / len(np.unique(rows)))

    x = rng.normal(size=200)
    plain, found = (ends(interval(measure, x, **seeded())) for measure in (np.mean, inflated))
    assert_allclose(found - 0.5, plain, atol=1e-12)


def test_interval_is_widened_to_contain_the_estimate():
    x = np.zeros(400)
    x[0] = 1.0
    found = interval(np.max, x, level=0.01, **seeded(20))
    assert found.low <= found.estimate == 1.0 <= found.high


def test_interval_is_clipped_to_bounds(rng):
    x = rng.normal(size=60)
    x -= x.mean()
    free, bound = (
        interval(np.mean, x, **seeded()),
        interval(np.mean, x, bounds=(-0.01, 10.0), **seeded()),
    )
    assert free.low < bound.low == -0.01
    assert bound.high == free.high


def test_declared_measure_is_clipped_to_its_range():
    rng = np.random.default_rng(3)
    y, s = rng.normal(size=(2, 200))
    columns = y, y + rng.normal(size=200), s
    free = interval(pairwise_fairness, *columns, **seeded(100))
    assert free.low < 0 == interval(MEASURES["pf"], *columns, **seeded(100)).low
    assert interval(MEASURES["pf"], *columns, bounds=(-9, 9), **seeded(100)).low < 0


def test_larger_level_gives_a_wider_interval(rows):
    _, f, _, S = rows
    narrow, wide = (interval(gdp, f, S[:, 0], level=level, **seeded(200)) for level in (0.5, 0.99))
    assert type(narrow.low) is float
    assert wide.low < narrow.low < narrow.high < wide.high


def test_options_of_a_function_are_set_by_partial(rows):
    _, f, _, S = rows
    plugin = partial(gdp, estimator="plugin")
    assert_allclose(interval(plugin, f, S, **seeded(5)).estimate, plugin(f, S), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (([1.0, 2.0], [0.0]), {}, "argument 1 must"),
        (([1.0, np.nan],), {}, "argument 0 must be finite"),
        ((3.0,), {}, "argument 0 must"),
        ((), {}, "columns must"),
        ((np.arange(7.0),), {}, "argument 0 must .*8 rows"),
        (([1.0, 2.0],), {"replicates": 0}, "replicates must"),
        (([1.0, 2.0],), {"level": 1.0}, "level must"),
        (([1.0, 2.0],), {"level": 1.0, "control_features": [0, 0]}, "level must"),
    ],
)
def test_invalid_arguments_are_refused_by_name(rng, columns, options, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        interval(np.mean, *columns, rng=rng, **options)


# Comparisons


def test_paired_difference_is_sharper_than_two_intervals(rows):
    y, f, _, _ = rows

    def error(y, f):
        return float(np.mean(np.abs(y - f)))

    worse = f - 0.05 * np.sign(y - f)
    found = compare(error, (y, worse), (y, f), **seeded(200))
    assert found.difference.low > 0
    assert found.second.high > found.first.low  # the two intervals overlap
    assert_allclose(found.difference.estimate, 0.05)


def test_prediction_does_not_differ_from_itself(rows):
    _, f, fair, S = rows
    same = compare(gdp, (f, S), (f, S), **seeded(20)).difference
    assert (same.low == 0).all()
    assert (same.high == 0).all()
    assert compare(gdp, (f, S), (fair, S), **seeded()).difference.low[0] > 0


@pytest.mark.parametrize("name", ["hgr", "gdp", "pf"])
def test_comparison_has_the_intervals_of_its_sides_and_of_their_difference(rows, name):
    y, f, fair, S = rows
    measure = MEASURES[name]
    first, second = (measure.columns(y, g, S[:, 0]) for g in (f, fair))
    found = compare(measure, first, second, **seeded())
    assert_allclose(ends(found.first), ends(interval(measure, *first, **seeded())), rtol=1e-13)
    assert_allclose(ends(found.second), ends(interval(measure, *second, **seeded())), rtol=1e-13)

    def difference(*columns):
        half = len(first)
        return measure(*columns[:half]) - measure(*columns[half:])

    known = interval(difference, *first, *second, **seeded())
    assert_allclose(ends(found.difference), ends(known), rtol=1e-9, atol=1e-14)


def test_bounds_of_a_comparison_are_those_of_its_sides(rows):
    _, f, fair, S = rows
    found = compare(gdp, (fair, S[:, 0]), (f, S[:, 0]), bounds=(0.0, 0.03), **seeded())
    assert found.second.high == 0.03
    assert found.difference.low < -0.03


def test_constant_prediction_can_be_compared(rng):
    # Some quarters have no pairs to compare; a constant is fair on all of them.
    y, s = rng.normal(size=40), np.r_[np.zeros(34), np.ones(6)]
    constant, f = np.zeros(40), y + rng.normal(size=40)
    found = compare(MEASURES["pf"], (y, f, s), (y, constant, s), rng=rng, replicates=200)
    assert found.second.high == 0
    assert found.first.replicates == found.second.replicates < 200
    alone = interval(MEASURES["pf"], y, constant, s, rng=rng, replicates=200)
    assert (alone.high, alone.replicates) == (0, 200)


@pytest.mark.parametrize("change", ["y_true", "s"])
def test_pairwise_comparison_of_sides_with_different_columns(rows, change):
    y, f, fair, S = rows
    first, second = (y, f, S[:, 0]), (y, fair, S[:, 0])
    second = (y[::-1], fair, S[:, 0]) if change == "y_true" else (y, fair, S[:, 1])
    found = compare(MEASURES["pf"], first, second, **seeded())
    plain = compare(pairwise_fairness, first, second, bounds=(0, 1), **seeded())
    for side in ("first", "second", "difference"):
        assert_allclose(ends(getattr(found, side)), ends(getattr(plain, side)), rtol=1e-12)


# Undefined subsamples


@pytest.mark.parametrize("measure", [MEASURES["pf"], pairwise_fairness])
@pytest.mark.parametrize("grouped", [False, True])
def test_subsamples_without_pairs_are_left_out_if_most_have_some(measure, grouped):
    rng = np.random.default_rng(1)
    y, s = rng.normal(size=80), np.zeros(80)
    f = y + rng.normal(size=80)
    options = {"bounds": (0, 1), **({"control_features": [0] * 80} if grouped else {})}
    s[np.argsort(y)[[30, 50]]] = 1
    error, words = (ValueError, "control_features") if grouped else (UndefinedMeasureError, "50")
    with pytest.raises(error, match=words):
        interval(measure, y, f, s, **options, **seeded(50))
    s[rng.permutation(80)[:8]] = 1
    found = interval(measure, y, f, s, **options, **seeded(200))
    assert 100 < found.replicates < 200
    assert 0 <= found.low < found.estimate < found.high <= 1


# Within groups


@pytest.fixture
def grouped(rng):
    control = np.repeat(["a", "b", "small"], [60, 140, 10])
    s = rng.uniform(size=210)
    f = rng.normal(size=210) + 3 * s
    return f + rng.normal(size=210), f, s, control


@pytest.mark.parametrize("name", ["hgr", "gdp", "pf"])
def test_interval_within_groups_contains_the_stratified_value(grouped, name):
    y, f, s, control = grouped
    measure = MEASURES[name]
    columns = measure.columns(y, f, s)
    found = interval(measure, *columns, control_features=control, **seeded())
    assert found.estimate == by_stratum(measure, *columns, control_features=control).mean
    assert 0 <= found.low < found.estimate < found.high
    assert found.replicates == 40
    plain = interval(
        measure.function, *columns, control_features=control, bounds=measure.range, **seeded()
    )
    assert_allclose(ends(found), ends(plain), rtol=1e-12)


def test_interval_of_a_mean_within_groups_has_the_textbook_width(rng):
    n = 4000
    f, s = rng.normal(size=(2, n))
    found = interval(
        lambda f, s: float(f.mean()), f, s, control_features=np.arange(n) % 4, **seeded(400)
    )
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(n), rel=0.15)


def test_subsamples_are_drawn_within_each_group(grouped):
    """The weight of a group does not vary, so constants of groups have no spread."""
    _, _, s, control = grouped
    level = np.where(control == "a", 1.0, 5.0)
    found = interval(
        lambda f, s: float(f.mean()), level, s, control_features=control, **seeded(100)
    )
    assert found.low == found.high == found.estimate
    assert found.estimate == pytest.approx((60 * 1 + 140 * 5) / 200)


def test_one_group_has_the_plain_interval(rng):
    f, S = rng.normal(size=100), rng.normal(size=(100, 2))
    for s in (S, S[:, 0]):
        plain = interval(gdp, f, s, level=0.5, **seeded())
        found = interval(gdp, f, s, level=0.5, control_features=[0] * 100, **seeded())
        assert_allclose(ends(found), ends(plain), rtol=1e-12)


def test_groups_have_independent_subsamples(rng):
    """Two groups with the same rows: the variance of their mean is half of that of one."""
    x, s = rng.normal(size=400), rng.uniform(size=400)

    def mean(f, s):
        return float(f.mean())

    one = interval(mean, x, s, **seeded(2000))
    both = interval(
        mean, np.tile(x, 2), np.tile(s, 2), control_features=np.repeat([0, 1], 400), **seeded(2000)
    )
    assert (both.high - both.low) / (one.high - one.low) == pytest.approx(np.sqrt(0.5), rel=0.08)


# Many rows: counts in cells, and subsamples of pairs below a quarter


def many(rng, n, levels=True):
    """Truth, a fair and an unfair prediction, an attribute of few or many values."""
    s = rng.integers(17, 94, size=n) / 77.0 if levels else rng.gamma(2.0, size=n)
    y = rng.normal(size=n) + 0.3 * s
    return y, 0.6 * y + 0.4 * rng.normal(size=n), 0.5 * y + 0.5 * s, s


@pytest.fixture
def pair_rows(monkeypatch):
    """Set the size of subsamples of pairs, each of which is then counted alone as of many rows."""
    monkeypatch.setattr("fkd.measures.pairwise.SUBSAMPLES_FROM", 0)
    return partial(monkeypatch.setattr, module, "PAIR_ROWS")


@pytest.fixture
def binned_from(monkeypatch):
    return partial(monkeypatch.setattr, module, "BINNED_FROM")


@pytest.mark.parametrize("name", ["hgr", "gdp", "gdp_plugin"])
def test_binned_comparison_of_many_values_is_close_to_that_of_rows(rng, binned_from, name):
    _, f, g, s = many(rng, 4000, levels=False)
    measure = MEASURES[name]
    measure = measure if name == "hgr" else measure.scaled()
    s = s / s.max()
    rows = compare(measure, (f, s), (g, s), **seeded(100))
    binned_from(4000)
    found = compare(measure, (f, s), (g, s), **seeded(100))
    for side in ("first", "second", "difference"):
        a, b = getattr(found, side), getattr(rows, side)
        assert a.estimate == b.estimate
        assert a.low != b.low
        assert_allclose([a.low, a.high], [b.low, b.high], atol=0.1 * (b.high - b.low))


def test_binned_comparison_of_a_constant_has_no_spread(rng, binned_from):
    _, f, _, s = many(rng, 500)
    binned_from(0)
    for name in ("hgr", "gdp"):
        found = compare(MEASURES[name], (np.ones(500), s), (f, s), **seeded(20))
        assert (ends(found.first) == 0).all()
        assert found.second.high > found.second.low


def test_counts_in_cells_start_at_their_number_of_rows(rng):
    f, s = rng.normal(size=(2, module.BINNED_FROM))
    for n, binned in ((module.BINNED_FROM, True), (module.BINNED_FROM - 1, False)):
        found = interval(MEASURES["gdp"], f[:n], s[:n], **seeded(2))
        rows = interval(gdp, f[:n], s[:n], **seeded(2))
        assert (found.high != rows.high) == binned
        assert_allclose(found.high, rows.high, rtol=0.01)


def test_weights_are_not_binned(rng, binned_from):
    f, s = rng.normal(size=(2, 500))
    w = rng.uniform(0.5, 2, size=500)
    rows = interval(MEASURES["gdp"], f, s, sample_weight=w, **seeded())
    binned_from(0)
    assert ends(interval(MEASURES["gdp"], f, s, sample_weight=w, **seeded())).tolist() == (
        ends(rows).tolist()
    )


@pytest.mark.parametrize("prediction", [1, 2], ids=["fair", "unfair"])
def test_smaller_subsamples_of_pairs_give_the_interval_of_quarters(rng, pair_rows, prediction):
    sample = many(rng, 8000)
    columns = sample[0], sample[prediction], sample[3]
    quarters = interval(MEASURES["pf"], *columns, **seeded(300))
    pair_rows(400)
    parts = interval(MEASURES["pf"], *columns, **seeded(300))
    assert parts.estimate == quarters.estimate
    width = quarters.high - quarters.low
    assert width / 1.4 < parts.high - parts.low < 1.4 * width
    assert_allclose([parts.low, parts.high], [quarters.low, quarters.high], atol=0.3 * width)


def test_slightly_unfair_prediction_is_covered_by_small_subsamples(rng, pair_rows):
    """Its gap is small against the noise of a subsample: absolute values would fold at zero."""
    pair_rows(250)
    s, y = rng.uniform(size=200_000), rng.normal(size=200_000)
    f = y + 0.07 * s + rng.normal(size=200_000)
    truth, hits = pairwise_fairness(y, f, s), 0
    for _ in range(25):
        rows = rng.choice(200_000, 4000, replace=False)
        found = interval(MEASURES["pf"], y[rows], f[rows], s[rows], rng=rng, replicates=100)
        hits += found.low <= truth <= found.high
    assert hits >= 21


def test_sides_of_a_comparison_share_small_subsamples(rng, pair_rows):
    pair_rows(400)
    y, f, g, s = many(rng, 5000)
    # Reversing a prediction reverses the sign of every gap, which the interval must ignore.
    for other in (g + 1e-9 * f, -g):
        found = compare(MEASURES["pf"], (y, g, s), (y, other, s), **seeded(100))
        width = found.first.high - found.first.low
        assert found.difference.high - found.difference.low < 0.01 * width


def test_shared_subsamples_give_the_standard_error_over_fresh_rows(rng):
    def sample():
        s = rng.integers(0, 20, size=4000) / 19
        return 0.4 * s + 0.1 * rng.normal(size=4000), s

    measures = [MEASURES[name].scaled() for name in ("hgr", "gdp")]
    f, s = sample()
    shared = SharedSubsamples(s, [quarter(4000, rng) for _ in range(300)])
    found = shared.deviations(measures, f)
    fresh = [sample() for _ in range(200)]
    for measure in measures:
        expected = np.std([measure(*rows) for rows in fresh])
        assert found[measure.name] == pytest.approx(expected, rel=0.2)
    assert shared.deviations(measures, np.ones(4000)) == {"hgr": 0.0, "gdp": 0.0}


def test_rescaled_draws_have_the_mean_and_spread_of_all_rows():
    draws = np.array([[1.0, 10.0], [3.0, 30.0]])
    assert_allclose(rescaled_draws(7.0, draws, 100), 7 + np.sqrt(25 / 75) * (draws - [2, 20]))
    assert_allclose(rescaled_draws(7.0, draws, 100, 10), 7 + np.sqrt(10 / 90) * (draws - [2, 20]))


# Coverage

LEAST, MOST = 0.90, 0.98  # of intervals with level .95


def limits(repetitions):
    """Widen the limits by two standard errors of a share."""
    slack = 2 * np.sqrt([LEAST * (1 - LEAST), MOST * (1 - MOST)]) / np.sqrt(repetitions)
    return LEAST - slack[0], MOST + slack[1]


@pytest.mark.parametrize("law", [independent, dependent])
@pytest.mark.parametrize(("names", "repetitions"), [(["hgr"], 120), (["pf", "mae"], 300)])
def test_coverage_at_200_rows(law, names, repetitions):
    low, high = limits(repetitions)
    found = coverage(law, 200, names, repetitions=repetitions, draws=100)
    assert all(low <= share <= high for share in found.values()), found


def test_coverage_of_differences_at_200_rows():
    low, high = limits(50)
    found = coverage(dependent, 200, ["hgr", "mae"], repetitions=50, draws=80, paired=True)
    assert all(low <= share <= high for share in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize(("n", "repetitions"), [(200, 400), (1000, 150), (5000, 80)])
@pytest.mark.parametrize("law", [independent, dependent])
def test_coverage_of_every_measure(law, n, repetitions):
    low, high = limits(repetitions)
    found = coverage(law, n, list(COVERED), repetitions=repetitions, draws=150, seed=1)
    assert all(low <= share <= high for share in found.values()), found


# Noise floors


def test_noise_floor_of_four_hundred_rows(rng):
    f, s = rng.normal(size=(2, 400))
    floor = noise_floor(f, s, rng=rng)
    assert_allclose(floor.mean, 0.103, rtol=0.15)
    assert type(floor.mean) is float
    assert floor.mean < floor.upper < 0.2
    values = [hgr(f, rng.normal(size=400)) for _ in range(200)]
    assert_allclose(floor.upper, np.quantile(values, 0.95), rtol=0.15)
    few, larger = (
        noise_floor(*rng.normal(size=(2, n)), rng=rng, permutations=20).mean for n in (200, 3200)
    )
    assert larger < few / 2


def test_dependence_exceeds_the_noise_floor_and_does_not_change_it(rng):
    S = rng.uniform(size=(400, 2)) * [1.0, 0.5]
    f = np.sin(6 * S[:, 0])
    floor = noise_floor(f, S, rng=rng, permutations=50)
    assert floor.mean.shape == floor.upper.shape == (2,)
    assert hgr(f, S)[0] > 3 * floor.upper[0]
    assert hgr(f, S)[1] < 1.5 * floor.upper[1]


def test_rows_of_several_columns_are_shuffled_together(rng):
    seen = []

    def measure(f, S):
        seen.append(S)
        return 0.0

    S = np.column_stack([np.arange(50.0), 2 * np.arange(50.0)])
    noise_floor(np.arange(50.0), S, rng=rng, measure=measure, permutations=3)
    for shuffled in seen[1:]:
        assert (shuffled[:, 1] == 2 * shuffled[:, 0]).all()
        assert sorted(shuffled[:, 0]) == [*range(50)]
        assert (shuffled != S).any()


def test_noise_floor_of_other_measures(rng):
    f, s = rng.uniform(size=(2, 300))
    options = {"permutations": 30, "quantile": 0.9}
    floor = noise_floor(f, s, rng=np.random.default_rng(3), measure=MEASURES["gdp"], **options)
    assert 0 < floor.mean < floor.upper < 0.05
    assert (floor.quantile, floor.permutations) == (0.9, 30)
    assert floor == noise_floor(f, s, rng=np.random.default_rng(3), measure=gdp, **options)


def test_noise_floor_of_a_measure_that_needs_the_truth(rng):
    y, f, s = rng.normal(size=(3, 300))
    floor = noise_floor(f + s, s, rng=rng, measure=MEASURES["pf"], y_true=y, permutations=50)
    assert 0 < floor.mean < floor.upper < 0.3 < pairwise_fairness(y, f + s, s)


def test_noise_floor_from_counts_is_that_of_shuffled_rows(rng, binned_from):
    _, f, _, s = many(rng, 3000)
    f = np.round(f, 1)
    for name in ("hgr", "gdp"):
        measure = MEASURES[name]
        binned_from(10**9)
        rows = noise_floor(f, s, measure=measure, permutations=30, rng=np.random.default_rng(3))
        binned_from(0)
        found = noise_floor(f, s, measure=measure, permutations=30, rng=np.random.default_rng(3))
        assert_allclose([found.mean, found.upper], [rows.mean, rows.upper], rtol=1e-5)
    constant = noise_floor(np.ones(50), s[:50], measure=MEASURES["hgr"], rng=rng, permutations=5)
    assert (constant.mean, constant.upper) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"permutations": 0}, "permutations"),
        ({"quantile": 0.0}, "quantile"),
        ({"measure": MEASURES["pf"]}, "y_true"),
        ({"measure": MEASURES["pf"], "y_true": [1.0]}, "y_true"),
    ],
)
def test_invalid_options_of_a_noise_floor_are_refused_by_name(rng, options, parameter):
    with pytest.raises(ValueError, match=f"^{parameter} must"):
        noise_floor([0.0, 1.0], [0.0, 1.0], rng=rng, **options)


@pytest.mark.parametrize("kind", ["pareto", "outlier"])
@pytest.mark.parametrize("name", ["hgr", "gdp", "gdp_plugin"])
def test_long_tails_do_not_narrow_the_interval_of_many_rows(kind, name):
    """512 equidistant points would put nearly all rows into one cell."""
    rng = np.random.default_rng(5)
    s = rng.pareto(1.5, size=BINNED_FROM) if kind == "pareto" else rng.uniform(size=BINNED_FROM)
    if kind == "outlier":
        s[0] = 1e4
    f = np.log1p(s) + rng.normal(size=len(s))
    measure = MEASURES[name]
    options = {"replicates": 3, "bounds": measure.range}
    with warnings.catch_warnings(action="ignore", category=FairnessWarning):
        declared = interval(measure, f, s, rng=np.random.default_rng(0), **options)
        by_rows = interval(
            lambda f, s: measure(f, s), f, s, rng=np.random.default_rng(0), **options
        )
    assert_allclose(declared.low, by_rows.low)
    assert_allclose(declared.high, by_rows.high)


def test_options_without_a_binned_form_go_by_rows(rng):
    s = rng.uniform(size=BINNED_FROM)
    f = s**3 + 0.1 * rng.normal(size=len(s))
    ranks = replace(MEASURES["hgr"], options={"margins": "rank"})
    options = {"replicates": 3, "bounds": (0.0, 1.0)}
    declared = interval(ranks, f, s, rng=np.random.default_rng(0), **options)
    by_rows = interval(partial(hgr, margins="rank"), f, s, rng=np.random.default_rng(0), **options)
    assert_allclose([declared.low, declared.high], [by_rows.low, by_rows.high])


def test_noise_floor_of_many_rows_warns_as_the_measure_does(rng):
    s = rng.uniform(size=BINNED_FROM)
    s[0] = 1e4
    with pytest.warns(FairnessWarning):
        noise_floor(rng.normal(size=len(s)), s, rng=rng, measure="hgr", permutations=1)


def test_the_truth_may_be_none_if_the_measure_accepts_it(rng):
    f, s, group = rng.normal(size=(3, 200))
    free = partial(pairwise_fairness, criterion="dp")
    for control in (None, group > 0):
        found = interval(free, None, f, s, rng=rng, replicates=20, control_features=control)
        assert found.low <= found.estimate <= found.high
    declared = replace(MEASURES["pf"], options={"criterion": "dp"})
    assert noise_floor(f, s, rng=rng, measure=declared, permutations=5).mean < 0.3
    with pytest.raises(ValueError, match="y_true"):
        noise_floor(f, s, rng=rng, measure="pf", permutations=5)


def test_a_measure_may_be_named(rng):
    y, f, s = rng.normal(size=(3, 60))
    options = {"replicates": 20}
    for name in ("hgr", "pf"):
        columns = MEASURES[name].columns(y, f, s)
        named = interval(name, *columns, rng=np.random.default_rng(0), **options)
        assert named == interval(MEASURES[name], *columns, rng=np.random.default_rng(0), **options)
    with pytest.raises(ValueError, match="measure"):
        interval("hrg", f, s, rng=rng)
    with pytest.raises(ValueError, match=r"y_true, y_pred, sensitive_features.*got 2"):
        interval("pf", f, s, rng=rng)
    with pytest.raises(ValueError, match="bounds"):
        interval("hgr", f, s, rng=rng, bounds=(1, 0))
    with pytest.raises(ValueError, match="y_true"):
        noise_floor(f, s, rng=rng, measure=hgr, y_true=y)


def test_groups_are_measured_once_on_all_rows(rng):
    f, s, group = rng.normal(size=(3, 200))
    calls = []

    def counted(f, s):
        calls.append(len(f))
        return float(np.mean(f * np.ravel(s)))

    interval(counted, f, s, rng=rng, replicates=10, control_features=group > 0)
    assert len(calls) == 2 * (1 + 10)

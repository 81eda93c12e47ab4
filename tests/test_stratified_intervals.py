from functools import partial

import numpy as np
import pytest

from fkd.measures import by_stratum, gdp, hgr, pairwise_fairness, stratified_interval
from fkd.measures.resampling import corrected_draws, quarter


@pytest.fixture
def rows(rng):
    control = np.repeat(["a", "b", "small"], [60, 140, 10])
    s = rng.uniform(size=210)
    f = rng.normal(size=210) + 3 * s
    return f + rng.normal(size=210), f, s, control


def source():
    return np.random.default_rng(3)


@pytest.mark.parametrize("measure", [gdp, hgr])
def test_the_estimate_is_the_stratified_value_inside_its_interval(measure, rows):
    _, f, s, control = rows
    found = stratified_interval(
        measure, f, s, control_features=control, rng=source(), replicates=50, bounds=(0, np.inf)
    )
    assert found.estimate == by_stratum(measure, f, s, control_features=control).mean
    assert found.estimate == measure(f, s, control_features=control)
    assert 0 <= found.low < found.estimate < found.high
    assert found.replicates == 50


def test_the_interval_of_a_mean_is_as_long_as_theory_says(rng):
    n = 4000
    f, s = rng.normal(size=(2, n))
    control = np.arange(n) % 4
    found = stratified_interval(
        lambda f, s: float(f.mean(axis=0)), f, s, control_features=control, rng=rng, replicates=400
    )
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(n), rel=0.15)


def test_quarters_are_drawn_within_each_group(rows):
    """Every draw of a constant of the group is that constant: no group loses weight."""
    _, _, s, control = rows
    level = np.where(control == "a", 1.0, 5.0)
    found = stratified_interval(
        lambda f, s: float(f.mean(axis=0)), level, s, control_features=control, rng=source()
    )
    assert (found.low, found.high) == (found.estimate, found.estimate)
    assert found.estimate == pytest.approx((60 * 1 + 140 * 5) / 200)


def test_pairwise_fairness_goes_the_quick_way_to_the_same_numbers(rows):
    columns, control = rows[:3], rows[3]
    options = {"control_features": control, "replicates": 40, "bounds": (0, 1)}
    quick = stratified_interval(pairwise_fairness, *columns, rng=source(), **options)
    slow = stratified_interval(partial(pairwise_fairness), *columns, rng=source(), **options)
    assert quick.estimate == slow.estimate
    assert (quick.low, quick.high) == pytest.approx((slow.low, slow.high))


def test_quarters_without_pairs_are_left_out_as_long_as_most_have_some(rng):
    n = 40
    f, y, s = rng.normal(size=n), np.zeros(n), rng.normal(size=n)
    y[:12] = 1.0
    options = {"control_features": [0] * n, "replicates": 200, "bounds": (0, 1)}
    found = stratified_interval(pairwise_fairness, y, f, s, rng=source(), **options)
    assert 100 < found.replicates < 200
    looped = stratified_interval(partial(pairwise_fairness), y, f, s, rng=source(), **options)
    assert looped.replicates == found.replicates
    y[3:] = 0.0
    with pytest.raises(
        ValueError, match=r"most quarters of every group, got .* in '0' \(40 rows\)"
    ):
        stratified_interval(pairwise_fairness, y, f, s, rng=source(), **options)


def test_one_group_has_the_draws_of_its_own_quarters(rng):
    f, s = rng.normal(size=(2, 100))
    found = stratified_interval(
        gdp, f, s, control_features=[0] * 100, rng=source(), replicates=30, level=0.5
    )
    again = source()
    draws = [
        gdp(*(np.tile(c[quarter_], 4) for c in (f, s)))
        for quarter_ in (quarter(100, again) for _ in range(30))
    ]
    low, high = np.quantile(corrected_draws(gdp(f, s), np.array(draws), 100), [0.25, 0.75])
    assert (found.low, found.high) == pytest.approx((low, high))


def test_several_sensitive_columns_have_an_interval_each(rng):
    f, S = rng.normal(size=120), rng.normal(size=(120, 2))
    found = stratified_interval(
        gdp, f, S, control_features=np.arange(120) % 2, rng=rng, replicates=20
    )
    assert found.estimate.shape == found.low.shape == found.high.shape == (2,)
    assert (found.low < found.high).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"replicates": 0}, "replicates must be at least 1"), ({"level": 1.0}, "level must lie")],
)
def test_what_gives_no_interval_is_refused(rows, options, words):
    _, f, s, control = rows
    with pytest.raises(ValueError, match=words):
        stratified_interval(gdp, f, s, control_features=control, rng=source(), **options)

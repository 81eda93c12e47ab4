"""Changes between two samples of rows: false alarms, detection, and the permutation bands."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.arrays import BLOCK_ROWS
from fkd.measures import gdp, hgr, pairwise_fairness, sample_changes
from fkd.measures.drift import permuted_bands


def sample(rng, n, *, shift=0.0, levels=None):
    """Rows of a model that leans on two columns of different units, skewed errors."""
    S = np.column_stack([rng.gamma(2.0, 10.0, size=n) + 18, rng.normal(-3.0, 2.0, size=n)])
    if levels:
        S[:, 0] = rng.integers(levels, size=n)
    f = S[:, 0] / 10 + rng.normal(size=n)
    y = f + rng.exponential(size=n) * (1 + S[:, 0] / 50) + shift * (S[:, 0] > 40)
    return y, f, S


def compared(before, after, seed=0, **options):
    rng = np.random.default_rng(seed)
    return sample_changes(before, after, rng=rng, names=("age", "share"), **options)


def test_numbers_are_the_measures_of_either_sample():
    rng = np.random.default_rng(0)
    before, after = sample(rng, 200), sample(rng, 320)
    unit = np.array([[0.0, 200.0], [-20.0, 20.0]])
    found = compared(before, after, permutations=19, sensitive_range=unit)
    told = {(one.quantity, one.column): (one.before, one.after) for one in found.numbers}
    assert len(told) == 9
    for side, (y, f, S) in enumerate((before, after)):
        assert_allclose(told["mae", ""][side], np.abs(f - y).mean())
        assert_allclose(told["error", ""][side], (f - y).mean())
        for j, name in enumerate(("age", "share")):
            u = (S[:, j] - unit[j, 0]) / (unit[j, 1] - unit[j, 0])
            assert_allclose(told["hgr", name][side], hgr(f, S[:, j], margins="standard"))
            assert_allclose(told["gdp", name][side], gdp(f, u, margins="given"))
            assert_allclose(told["pf", name][side], pairwise_fairness(y, f, S[:, j]))
    assert found.rows == (200, 320)


def test_rank_difference_is_the_probability_of_a_greater_error():
    rng = np.random.default_rng(13)
    (y, f, S), (z, g, T) = sample(rng, 70), sample(rng, 90, shift=1.0)
    y, z, f, g = np.round(y), np.round(z), np.round(f), np.round(g)  # with many ties
    found = compared((y, f, S), (z, g, T), permutations=19)
    rank = next(one for one in found.numbers if one.quantity == "error_rank")
    before, after = f - y, g - z
    pairs = after[:, None] - before[None, :]
    chance = (pairs > 0).mean() + (pairs == 0).mean() / 2
    assert 0.1 < chance < 0.49
    assert_allclose(rank.after - rank.before, chance - 0.5)


def test_few_enormous_errors_do_not_hide_a_shift_of_all():
    rng = np.random.default_rng(14)
    (y, f, S), (z, g, T) = sample(rng, 200), sample(rng, 200)
    z = z + 0.7
    for truth in (y, z):
        truth[rng.choice(200, 6, replace=False)] *= 10.0 ** rng.uniform(1, 3, size=6)
    found = compared((y, f, S), (z, g, T), permutations=59)
    crossed = {one.quantity: one.crossed for one in found.numbers if not one.column}
    assert crossed == {"mae": False, "error": False, "error_rank": True}
    rank = next(one for one in found.numbers if one.quantity == "error_rank")
    assert rank.high < 0  # too low now


@pytest.mark.parametrize("n", [60, BLOCK_ROWS])
def test_curves_at_levels_are_the_means_of_their_rows(n):
    rng = np.random.default_rng(2)
    before, after = sample(rng, n + 40, levels=3), sample(rng, n + 70, levels=3)
    found = compared(before, after, permutations=19, most_rows=10 * n)
    error = next(c for c in found.curves if (c.quantity, c.column) == ("error", "age"))
    assert_allclose(error.points, [0, 1, 2])
    for curve, (y, f, S) in ((error.before, before), (error.after, after)):
        assert_allclose(curve, [(f - y)[S[:, 0] == level].mean() for level in range(3)])


def test_curve_is_missing_if_one_sample_has_no_rows_there():
    rng = np.random.default_rng(3)
    y, f, S = sample(rng, 400, levels=3)
    young = S[:, 0] < 2
    found = compared((y[:200], f[:200], S[:200]), (y[young], f[young], S[young]), permutations=19)
    curve = next(one for one in found.curves if one.column == "age")
    assert np.isnan(curve.after[2])
    assert np.isfinite(curve.before).all()
    assert not curve.crossed[2]
    assert np.isnan(curve.change[2])


def test_bands_have_the_nominal_error_rate():
    # A thousand divisions of one distribution, twelve skewed quantities: at most 5 % outside.
    rng = np.random.default_rng(4)
    outside = 0
    for _ in range(1000):
        X = rng.exponential(size=(40, 12)) ** 2
        X[:, 6:] += X[:, :6]
        outside += permuted_bands(X[0], X[1:], np.ones(12), 0.95).outside.any()
    assert 25 <= outside <= 75  # expected 50, deviation 7


def test_bands_are_scaled_by_the_other_divisions():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 3))
    X[0, 1] = 50.0
    found = permuted_bands(X[0], X[1:], np.ones(3), 0.95)
    assert found.outside.tolist() == [False, True, False]
    assert_allclose(found.change, X[0] - X[1:].mean(axis=0))
    reach = (found.high - found.low) / 2 / X[1:].std(axis=0, ddof=1)
    assert_allclose(reach, reach[0])
    assert 1.5 < reach[0] < 4
    assert found.chance == 1 / 200


def test_quantity_that_never_varies_has_not_changed():
    X = np.random.default_rng(6).normal(size=(40, 2))
    X[:, 0] = 7.0
    X[0, 0] += 1e-15
    found = permuted_bands(X[0], X[1:], np.full(2, 7.0), 0.95)
    assert not found.outside[0]


@pytest.mark.parametrize("sizes", [(120, 120), (60, 240)])
def test_rows_of_one_distribution_rarely_differ(sizes):
    rng = np.random.default_rng(7)
    invented = sum(
        compared(*(sample(rng, n) for n in sizes), seed=i, permutations=39).crossed
        for i in range(60)
    )
    assert invented <= 8  # expected 3, deviation 1.7


def test_shift_of_some_rows_is_found_at_their_values_of_s():
    rng = np.random.default_rng(8)
    found = compared(sample(rng, 400), sample(rng, 400, shift=2.0), permutations=59)
    assert found.crossed
    assert found.chance <= 1 / 20
    error = next(c for c in found.curves if (c.quantity, c.column) == ("error", "age"))
    assert error.crossed.any()
    assert error.points[error.crossed].min() > 30
    assert (error.change[error.crossed] < 0).all()
    prediction = next(c for c in found.curves if (c.quantity, c.column) == ("prediction", "age"))
    assert not prediction.crossed.any()


def test_most_rows_limits_the_rows_compared():
    rng = np.random.default_rng(9)
    found = compared(sample(rng, 300), sample(rng, 100), permutations=19, most_rows=80)
    assert found.rows == (80, 80)


def test_constant_prediction_can_be_compared():
    rng = np.random.default_rng(10)
    (y, f, S), (z, _, T) = sample(rng, 100), sample(rng, 100)
    found = compared((y, 0 * f + 3.1, S), (z, 0 * f + 3.1, T), permutations=19)
    prediction = next(c for c in found.curves if c.quantity == "prediction")
    assert not prediction.crossed.any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"after": (np.ones(20), np.ones(20), np.ones(20))}, "sample after must"),
        ({"permutations": 18}, "permutations must"),
        ({"level": 1.0}, "level must"),
        (
            {"after": (np.arange(50.0), np.arange(50.0), np.arange(50.0))},
            "sensitive columns",
        ),
    ],
)
def test_invalid_arguments_are_refused_by_name(change, words):
    before = sample(np.random.default_rng(11), 50)
    given = {"after": before, **change}
    with pytest.raises(ValueError, match=words):
        compared(before, **given)


def test_column_constant_in_both_samples_is_refused():
    y, f, S = sample(np.random.default_rng(12), 50)
    S[:, 1] = 4.0
    with pytest.raises(ValueError, match="share must"):
        compared((y, f, S), (y, f, S))

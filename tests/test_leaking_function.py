import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.arrays import BLOCK_ROWS
from fkd.measures import hgr, leaking_function


def rows(n, shape, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.normal(loc=40.0, scale=8.0, size=n)
    return shape((s - 40) / 8) + 0.5 * rng.normal(size=n), s


@pytest.mark.parametrize("n", [400, 4 * BLOCK_ROWS + 5, (1 << 18) + 3])
def test_its_correlation_is_the_maximal_one(n):
    f, s = rows(n, np.sin)
    assert_allclose(leaking_function(f, s).correlation, hgr(f, s, margins="standard"), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "name"), [(lambda z: z, "line"), (lambda z: z**2, "bowl"), (np.abs, "wedge")]
)
def test_it_finds_what_the_prediction_was_made_of(shape, name):
    f, s = rows(4 * BLOCK_ROWS + 5, shape)
    found = leaking_function(f, s)
    truth = shape((found.points - 40) / 8)
    # In the middle, where rows are many: far out the window flattens it.
    middle = np.abs(found.points - 40) < 12
    assert np.corrcoef(found.values[middle], truth[middle])[0, 1] > 0.97, name


def test_the_two_functions_of_the_rows_have_the_promised_correlation():
    f, s = rows(20_000, np.tanh)
    found = leaking_function(f, s)
    a = np.interp(f, found.predictions, found.scores)
    b = np.interp(s, found.points, found.values)
    # The rows are sharper than the smoothed density that the functions were found on.
    assert found.correlation < np.corrcoef(a, b)[0, 1] < found.correlation + 0.06
    assert abs(b.mean()) < 0.02
    assert abs(b.std() - 1) < 0.1


def test_its_sign_follows_the_prediction():
    f, s = rows(2000, lambda z: z)
    up, down = leaking_function(f, s), leaking_function(-f, s)
    assert up.values[-1] > up.values[0]
    assert down.values[-1] < down.values[0]
    assert np.corrcoef(up.predictions, up.scores)[0, 1] > 0.9


def test_points_stay_where_rows_are():
    rng = np.random.default_rng(3)
    s = rng.gamma(0.3, size=1000)
    found = leaking_function(s + rng.normal(size=1000), s)
    assert found.points.min() >= s.min()
    assert found.points.max() <= s.max()


def test_two_values_are_told_apart():
    rng = np.random.default_rng(4)
    s = (rng.uniform(size=500) < 0.3).astype(float)
    found = leaking_function(s + rng.normal(size=500), s)
    assert found.points[0] >= 0
    assert found.points[-1] <= 1
    assert found.values[-1] > found.values[0]


def test_a_unit_changes_nothing_but_the_points():
    f, s = rows(800, np.sin)
    one, other = leaking_function(f, s), leaking_function(3 * f - 2, 10 * s)
    assert_allclose(other.values, one.values, rtol=1e-6)
    assert_allclose(other.points, 10 * one.points, rtol=1e-10)


@pytest.mark.parametrize(
    ("f", "s", "words"),
    [
        (np.ones(20), np.arange(20.0), "y_pred must vary to give anything away, got only 1"),
        (np.arange(20.0), np.ones(20), "sensitive must vary"),
        (np.arange(20.0), np.arange(19.0), "one row per prediction"),
    ],
)
def test_what_cannot_leak_is_refused(f, s, words):
    with pytest.raises(ValueError, match=words):
        leaking_function(f, s)

"""Maximal correlation, chi-squared and the functions that attain it."""

import tracemalloc
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd import FairnessWarning
from fkd.core.arrays import BLOCK_ROWS
from fkd.measures import chi2, hgr, leaking_function
from fkd.measures.hgr import CELLS_FROM, joint_density_grid, witsenhausen

module = import_module("fkd.measures.hgr")  # the package attribute `hgr` is the function
seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=20, deadline=None)


def dependent_pair(seed, n=150):
    rng = np.random.default_rng(seed)
    u = rng.normal(loc=5.0, scale=2.0, size=n)
    return u, np.sin(u) + 0.3 * rng.normal(size=n)


def density_by_tensor(u, v, damping):
    """The published form: one g x g x n tensor."""
    n = len(u)
    h = n ** (-1 / 6)
    c = np.linspace(-2.5, 2.5, int(min(50, 5 / h)))
    u, v = ((x - x.mean()) / x.std(ddof=1) for x in (u, v))
    d2 = (c[:, None, None] - u) ** 2 + (c[None, :, None] - v) ** 2
    P = (np.exp(-d2 / (2 * h**2)) / (np.sqrt(2 * np.pi) * h)).mean(axis=2) + damping
    return P / P.sum()


@pytest.mark.parametrize(
    ("P", "sigma"),
    [
        ([[0.4, 0.1], [0.1, 0.4]], [1, 0.6]),
        ([[0.2, 0.1, 0], [0.1, 0.2, 0.1], [0, 0.1, 0.2]], [1, 2 / 3, 1 / 6]),
        ([[40, 10, 0], [10, 40, 0], [0, 0, 0]], [1, 0.6]),  # counts, with an absent level
        (np.outer([0.2, 0.8], [0.1, 0.3, 0.6]), [1, 0]),  # independence
        (np.diag([0.5, 0.3, 0.2]), [1, 1, 1]),  # a bijection
    ],
)
def test_spectrum_of_a_joint_table(P, sigma):
    assert_allclose(witsenhausen(np.array(P)), sigma, atol=1e-14)


# One of ten thousand samples has a few rows so far out that they are warned of.
@pytest.mark.filterwarnings("ignore:.*stand apart:fkd.FairnessWarning")
@some
@given(seed=seeds, n=st.sampled_from([20, 90, 400]))
def test_value_is_that_of_the_published_tensor(seed, n):
    u, v = dependent_pair(seed, n)
    expected = density_by_tensor(u, v, damping=1e-10)
    assert_allclose(joint_density_grid(u, v), expected, rtol=1e-10, atol=1e-16)
    assert_allclose(hgr(u, v), witsenhausen(expected)[1], rtol=1e-10)
    undamped = witsenhausen(density_by_tensor(u, v, damping=0.0))
    assert_allclose(chi2(u, v), np.sum(undamped[1:] ** 2), rtol=1e-8)


@pytest.mark.parametrize(("n", "g"), [(200, 12), (1100, 16), (1 << 20, 50)])
def test_grid_has_the_published_size(rng, n, g):
    u = rng.normal(size=n)
    assert joint_density_grid(u, u).shape == (g, g)


@some
@given(seed=seeds, scale=st.sampled_from([-1.0, 0.001, -40.0]), shift=st.floats(-100, 100))
def test_symmetric_and_invariant_to_affine_maps_and_row_order(seed, scale, shift):
    u, v = dependent_pair(seed)
    value = hgr(u, v)
    assert_allclose(hgr(v, u), value, atol=1e-12)
    assert_allclose(hgr(scale * u + shift, v), value, atol=1e-9)
    assert_allclose(hgr(u, scale * v + shift), value, atol=1e-9)
    order = np.random.default_rng(seed).permutation(len(u))
    assert_allclose(hgr(u[order], v[order]), value, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-13, 1e-60, 1e60])
def test_unit_of_a_column_does_not_matter(unit):
    u, v = dependent_pair(3, n=400)
    assert_allclose(hgr(unit * u, v), hgr(u, v), rtol=1e-9)
    assert_allclose(chi2(u, unit * v), chi2(u, v), rtol=1e-9)
    assert hgr(u, v) > 0.5


@some
@given(seed=seeds, n=st.integers(2, 200))
def test_square_of_hgr_is_at_most_chi_squared(seed, n):
    u, v = np.random.default_rng(seed).standard_t(2, size=(2, n))
    value = hgr(u, v, margins="standard")
    assert 0 <= value <= 1
    # Only hgr is damped.
    assert value**2 <= chi2(u, v, margins="standard") + 1e-6


@pytest.mark.parametrize("n", [200, 1600, 6400])
def test_gaussian_with_itself_is_near_the_smoothed_theory(rng, n):
    u = rng.normal(size=n)
    assert abs(hgr(u, u) - 1 / (1 + n ** (-1 / 3))) < 0.03


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_gaussian_pair_is_near_its_correlation(rng, rho):
    u, noise = rng.normal(size=(2, 6400))
    v = rho * u + np.sqrt(1 - rho**2) * noise
    assert abs(hgr(u, v) - rho / (1 + 6400 ** (-1 / 3))) < 0.04


@pytest.mark.parametrize(("n", "floor"), [(200, 0.147), (1600, 0.069), (6400, 0.040)])
def test_independent_pairs_have_the_known_noise_level(rng, n, floor):
    values = [hgr(*rng.normal(size=(2, n))) for _ in range(20)]
    assert_allclose(np.mean(values), floor, rtol=0.25)


@pytest.mark.parametrize(
    ("n", "square", "exponential"), [(200, 0.711, 0.800), (1600, 0.836, 0.863)]
)
def test_dependence_without_correlation_is_detected(rng, n, square, exponential):
    u = rng.normal(size=(5, n))
    assert abs(np.mean([hgr(x, x**2) for x in u]) - square) < 0.06
    assert abs(np.mean([hgr(x, np.exp(x)) for x in u]) - exponential) < 0.06


def test_memory_does_not_grow_with_grid_times_rows(rng):
    u, v = rng.normal(size=(2, 200_000))
    tracemalloc.start()
    hgr(u, v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 38 * 200_000 * 8 / 2


@pytest.mark.needs("torch", "maxcorr")
def test_maxcorr_agrees(rng):
    import maxcorr

    u = rng.normal(size=300)
    v = np.sin(2 * u) + 0.3 * rng.normal(size=300)
    oracle = maxcorr.DensityIndicator(semantics="hgr", damping=1e-10)
    assert_allclose(hgr(u, v), float(oracle.compute(u, v)), atol=1e-4)  # float32 there


@pytest.mark.parametrize("measure", [hgr, chi2])
@pytest.mark.parametrize("kind", ["ages", "uniform", "atoms", "lognormal"])
def test_binned_density_of_many_rows_gives_the_value_of_the_rows(rng, monkeypatch, measure, kind):
    s = rng.integers(17, 94, size=20_000) if kind == "ages" else rng.uniform(size=20_000)
    f = 0.5 * s / s.std() + rng.gumbel(size=20_000)
    if kind == "atoms":
        f, s = np.round(f, 1), np.round(s, 4)
    if kind == "lognormal":
        s = np.exp(2 * s)
    direct = measure(f, s)
    monkeypatch.setattr(module, "CELLS_FROM", 20_000)
    assert_allclose(measure(f, s), direct, rtol=2e-6)
    monkeypatch.setattr(module, "CELLS_FROM", 20_001)
    assert measure(f, s) == direct


def test_binned_density_is_used_from_its_number_of_rows(rng, monkeypatch):
    f, s = rng.normal(size=(2, CELLS_FROM))
    binned = hgr(f + s, s)
    monkeypatch.setattr(module, "CELLS_FROM", CELLS_FROM + 1)
    assert 0 < abs(binned - hgr(f + s, s)) < 1e-7


# Margins


def test_outlier_hides_dependence_except_from_ranks(rng):
    s = rng.normal(size=2000)
    plain = hgr(s, s)
    outlying = s.copy()
    outlying[7] = 1e4
    with pytest.warns(FairnessWarning, match="outliers"):
        hidden = hgr(outlying, outlying)
    assert hidden < 0.5 < 0.9 < plain
    assert_allclose(hgr(outlying, outlying, margins="rank"), plain, atol=0.01)
    assert hgr(outlying, outlying, margins="standard") == hidden  # explicit, so no warning


def test_ranks_are_invariant_to_increasing_maps():
    u, v = dependent_pair(4, n=400)
    for measure in (hgr, chi2):
        ranks = measure(u, v, margins="rank")
        assert_allclose(measure(np.exp(u), v**3, margins="rank"), ranks, rtol=1e-12)
    assert_allclose(hgr(u, v, margins="rank"), hgr(u, v), atol=0.1)
    with pytest.raises(ValueError, match=r"^margins must .*'given'"):
        hgr(u, v, margins="given")


@pytest.mark.parametrize("share", [0.02, 0.05])
def test_rare_group_beyond_the_grid_gives_a_warning(rng, share):
    s = (np.arange(2000) < share * 2000).astype(float)
    f = s + 0.1 * rng.normal(size=2000)
    with pytest.warns(FairnessWarning, match="2000 rows"):
        assert hgr(f, s) < 0.1 < 0.8 < np.corrcoef(f, s)[0, 1]


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_larger_group_gives_no_warning(rng, share):
    s = (np.arange(2000) < share * 2000).astype(float)
    assert hgr(s + 0.1 * rng.normal(size=2000), s) > 0.9


def test_tail_of_a_mostly_constant_column_gives_no_warning(rng):
    s = np.append(np.zeros(950), np.linspace(1, 9, 50))
    assert hgr(rng.normal(size=1000) + s, s) > 0


# The functions of f and s that attain the maximal correlation


def shaped(n, shape):
    rng = np.random.default_rng(0)
    s = rng.normal(loc=40.0, scale=8.0, size=n)
    return shape((s - 40) / 8) + 0.5 * rng.normal(size=n), s


@pytest.mark.parametrize("n", [400, 4 * BLOCK_ROWS + 5, CELLS_FROM + 3])
def test_leaking_function_has_the_maximal_correlation(n):
    f, s = shaped(n, np.sin)
    assert_allclose(leaking_function(f, s).correlation, hgr(f, s, margins="standard"), rtol=1e-12)


@pytest.mark.parametrize("shape", [np.positive, np.square, np.abs])
def test_leaking_function_has_the_shape_of_the_dependence(shape):
    f, s = shaped(4 * BLOCK_ROWS + 5, shape)
    found = leaking_function(f, s)
    truth = shape((found.points - 40) / 8)
    middle = np.abs(found.points - 40) < 12  # further out the window flattens it
    assert np.corrcoef(found.values[middle], truth[middle])[0, 1] > 0.97


def test_both_functions_of_the_rows_have_that_correlation():
    f, s = shaped(20_000, np.tanh)
    found = leaking_function(f, s)
    a = np.interp(f, found.predictions, found.scores)
    b = np.interp(s, found.points, found.values)
    # The rows are sharper than the smoothed density.
    assert found.correlation < np.corrcoef(a, b)[0, 1] < found.correlation + 0.06
    assert abs(b.mean()) < 0.02
    assert abs(b.std() - 1) < 0.1


def test_sign_of_the_leaking_function_follows_the_prediction():
    f, s = shaped(2000, np.positive)
    up, down = leaking_function(f, s), leaking_function(-f, s)
    assert up.values[-1] > up.values[0]
    assert down.values[-1] < down.values[0]
    assert np.corrcoef(up.predictions, up.scores)[0, 1] > 0.9


def test_points_of_the_leaking_function_are_within_the_column(rng):
    for s in (rng.gamma(0.3, size=1000), (rng.uniform(size=1000) < 0.3).astype(float)):
        found = leaking_function(s + rng.normal(size=1000), s)
        assert s.min() <= found.points.min() < found.points.max() <= s.max()
        assert found.values[-1] > found.values[0]


def test_unit_changes_only_the_points_of_the_leaking_function():
    f, s = shaped(800, np.sin)
    one, other = leaking_function(f, s), leaking_function(3 * f - 2, 10 * s)
    assert_allclose(other.values, one.values, rtol=1e-6)
    assert_allclose(other.points, 10 * one.points, rtol=1e-10)


@pytest.mark.parametrize(
    ("f", "s", "parameter"),
    [
        (np.ones(20), np.arange(20.0), "y_pred"),
        (np.arange(20.0), np.ones(20), "sensitive"),
        (np.arange(20.0), np.arange(19.0), "sensitive"),
    ],
)
def test_leaking_function_needs_two_varying_columns_of_equal_length(f, s, parameter):
    with pytest.raises(ValueError, match=f"^{parameter} must"):
        leaking_function(f, s)

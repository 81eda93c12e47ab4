"""Maximal correlation: exact properties of the estimator, discrete oracles, its statistics."""

import tracemalloc
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd import FairnessWarning
from fkd.measures.hgr import chi2, hgr, joint_density_grid, witsenhausen

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
        ([[40, 10, 0], [10, 40, 0], [0, 0, 0]], [1, 0.6]),  # counts, with a level never seen
        (np.outer([0.2, 0.8], [0.1, 0.3, 0.6]), [1, 0]),  # independence
        (np.diag([0.5, 0.3, 0.2]), [1, 1, 1]),  # a bijection
    ],
)
def test_the_spectrum_of_a_joint_table(P, sigma):
    assert_allclose(witsenhausen(P), sigma, atol=1e-14)


def test_chi_squared_of_the_three_level_table():
    sigma = witsenhausen([[0.2, 0.1, 0], [0.1, 0.2, 0.1], [0, 0.1, 0.2]])
    assert_allclose(np.sum(sigma[1:] ** 2), 17 / 36)


@pytest.mark.parametrize("P", [[[0.5, -0.5]], [[0.0, 0.0]], [0.5, 0.5], np.zeros((0, 2))])
def test_what_is_no_joint_table_is_refused(P):
    with pytest.raises(ValueError, match="P must be a table of non-negative numbers"):
        witsenhausen(P)


@some
@given(seed=seeds)
def test_the_matrix_product_equals_the_published_tensor(seed):
    u, v = dependent_pair(seed, n=90)
    expected = density_by_tensor(u, v, damping=1e-10)
    assert_allclose(joint_density_grid(u, v), expected, rtol=1e-10, atol=1e-16)
    assert_allclose(hgr(u, v), witsenhausen(expected)[1], rtol=1e-10)


def test_the_density_does_not_depend_on_the_size_of_row_blocks(monkeypatch):
    u, v = dependent_pair(0)
    whole = joint_density_grid(u, v)
    # The package's attribute `hgr` is the function, so the module is asked for by name.
    monkeypatch.setattr(import_module("fkd.measures.hgr"), "_ROWS", 7)
    assert_allclose(joint_density_grid(u, v), whole, rtol=1e-12)


@pytest.mark.parametrize(("n", "g"), [(200, 12), (400, 13), (1100, 16)])
def test_the_grid_has_the_published_size(rng, n, g):
    u = rng.normal(size=n)
    assert joint_density_grid(u, u).shape == (g, g)


@some
@given(seed=seeds)
def test_the_density_is_a_distribution_whose_leading_singular_value_is_one(seed):
    P = joint_density_grid(*dependent_pair(seed))
    assert (P > 0).all()
    assert_allclose(P.sum(), 1)
    assert_allclose(witsenhausen(P)[0], 1, atol=1e-10)


@some
@given(seed=seeds)
def test_hgr_is_symmetric(seed):
    u, v = dependent_pair(seed)
    assert_allclose(hgr(u, v), hgr(v, u), atol=1e-12)


@some
@given(seed=seeds, scale=st.sampled_from([-1.0, 0.001, -40.0]), shift=st.floats(-100, 100))
def test_hgr_does_not_see_affine_maps(seed, scale, shift):
    u, v = dependent_pair(seed)
    assert_allclose(hgr(scale * u + shift, v), hgr(u, v), atol=1e-9)
    assert_allclose(hgr(u, scale * v + shift), hgr(u, v), atol=1e-9)


@some
@given(seed=seeds)
def test_hgr_does_not_see_the_order_of_rows(seed):
    u, v = dependent_pair(seed)
    order = np.random.default_rng(seed).permutation(len(u))
    assert_allclose(hgr(u[order], v[order]), hgr(u, v), atol=1e-12)


@some
@given(seed=seeds, n=st.integers(2, 200))
def test_hgr_lies_between_zero_and_one_with_its_square_below_chi_squared(seed, n):
    u, v = np.random.default_rng(seed).standard_t(2, size=(2, n))
    value = hgr(u, v, margins="standard")
    assert 0 <= value <= 1
    # The damping is only in the first.
    assert value**2 <= chi2(u, v, margins="standard") + 1e-6


def test_a_constant_attribute_is_independent_of_everything(rng):
    assert hgr(rng.normal(size=50), np.full(50, 0.1)) == 0.0
    assert chi2(rng.normal(size=50), np.full(50, 0.1)) == 0.0
    with pytest.raises(ValueError, match="v must not be constant, got 50 times"):
        joint_density_grid(rng.normal(size=50), np.full(50, 0.1))


@pytest.mark.parametrize("n", [200, 400, 1600, 6400])
def test_a_gaussian_with_itself_comes_near_the_smoothed_theory(rng, n):
    u = rng.normal(size=n)
    assert abs(hgr(u, u) - 1 / (1 + n ** (-1 / 3))) < 0.03


@pytest.mark.parametrize(("n", "floor"), [(200, 0.147), (400, 0.103), (1600, 0.069), (6400, 0.040)])
def test_independent_pairs_show_the_noise_floor(rng, n, floor):
    values = [hgr(*rng.normal(size=(2, n))) for _ in range(20)]
    assert_allclose(np.mean(values), floor, rtol=0.25)


@pytest.mark.parametrize(
    ("n", "square", "exponential"),
    [(200, 0.711, 0.800), (400, 0.771, 0.802), (1600, 0.836, 0.863), (6400, 0.891, 0.909)],
)
def test_dependence_without_correlation_is_seen(rng, n, square, exponential):
    u = rng.normal(size=(5, n))
    assert abs(np.mean([hgr(x, x**2) for x in u]) - square) < 0.06
    assert abs(np.mean([hgr(x, np.exp(x)) for x in u]) - exponential) < 0.06


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_a_gaussian_pair_comes_near_its_correlation(rng, rho):
    u, noise = rng.normal(size=(2, 6400))
    v = rho * u + np.sqrt(1 - rho**2) * noise
    assert abs(hgr(u, v) - rho / (1 + 6400 ** (-1 / 3))) < 0.04


def test_memory_does_not_grow_with_a_grid_times_rows_matrix(rng):
    u, v = rng.normal(size=(2, 200_000))
    tracemalloc.start()
    hgr(u, v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    one_factor = 38 * 200_000 * 8
    assert peak < one_factor / 2


@pytest.mark.needs("torch", "maxcorr")
def test_maxcorr_agrees(rng):
    import maxcorr

    u = rng.normal(size=300)
    v = np.sin(2 * u) + 0.3 * rng.normal(size=300)
    oracle = maxcorr.DensityIndicator(semantics="hgr", damping=1e-10)
    # It works in float32.
    assert_allclose(hgr(u, v), float(oracle.compute(u, v)), atol=1e-4)


@pytest.mark.parametrize("unit", [1e-13, 1e-60, 1e60])
def test_the_unit_of_a_prediction_does_not_matter(unit):
    u, v = dependent_pair(3, n=400)
    assert_allclose(hgr(unit * u, v), hgr(u, v), rtol=1e-9)
    assert_allclose(chi2(u, unit * v), chi2(u, v), rtol=1e-9)
    assert hgr(u, v) > 0.5


def test_an_outlier_hides_dependence_but_not_from_ranks(rng):
    s = rng.normal(size=2000)
    plain = hgr(s, s)
    outlying = s.copy()
    outlying[7] = 1e4
    with pytest.warns(FairnessWarning, match="outliers widen the window .* margins='rank'"):
        hidden = hgr(outlying, outlying)
    assert hidden < 0.5 < 0.9 < plain
    assert_allclose(hgr(outlying, outlying, margins="rank"), plain, atol=0.01)
    assert hgr(outlying, outlying, margins="standard") == hidden  # meant so: no warning


def test_ranks_see_no_increasing_map(rng):
    u, v = dependent_pair(4, n=400)
    ranks = hgr(u, v, margins="rank")
    assert_allclose(hgr(np.exp(u), v**3, margins="rank"), ranks, rtol=1e-12)
    assert_allclose(chi2(np.exp(u), v**3, margins="rank"), chi2(u, v, margins="rank"), rtol=1e-12)
    assert_allclose(ranks, hgr(u, v), atol=0.1)
    with pytest.raises(ValueError, match="margins must be one of standard, rank, got 'given'"):
        hgr(u, v, margins="given")


@pytest.mark.parametrize("share", [0.02, 0.05])
def test_a_rare_group_beyond_the_grid_is_told(rng, share):
    s = (np.arange(2000) < share * 2000).astype(float)
    f = s + 0.1 * rng.normal(size=2000)
    with pytest.warns(FairnessWarning, match="of 2000 rows stand apart, more than 2.8 st"):
        assert hgr(f, s) < 0.1 < 0.8 < np.corrcoef(f, s)[0, 1]


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_a_larger_group_is_seen(rng, share):
    s = (np.arange(2000) < share * 2000).astype(float)
    assert hgr(s + 0.1 * rng.normal(size=2000), s) > 0.9


def test_mostly_equal_rows_with_a_tail_are_no_outliers(rng):
    s = np.append(np.zeros(950), np.linspace(1, 9, 50))
    assert hgr(rng.normal(size=1000) + s, s) > 0

"""Sizes on both sides of every constant by which rows are cut into blocks or panels."""

from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from fkd import FairGaussianProcess
from fkd.core.arrays import BLOCK_ROWS, PANEL_ROWS, row_blocks
from fkd.core.feature_maps import ExactMap, NystroemMap, make_map
from fkd.core.kernels import Kernel
from fkd.core.linalg import _SOLVE_ROWS, ShiftedInverse, gram, is_symmetric, mirror_lower
from fkd.core.moments import Moments, training_moments
from fkd.measures.hgr import joint_density_grid
from fkd.paper.algorithm2 import TILE_ROWS, KernelRows

hgr_module = import_module("fkd.measures.hgr")  # the function has the module's name
PANEL = [PANEL_ROWS - 1, PANEL_ROWS, PANEL_ROWS + 1, 2 * PANEL_ROWS + 3]
SOLVE = [_SOLVE_ROWS - 1, _SOLVE_ROWS, _SOLVE_ROWS + 1, 2 * _SOLVE_ROWS + 3]


@pytest.mark.parametrize("n", [0, 1, 9, 10, 11, 20, 25])
def test_blocks_cover_every_row_once_in_order(n):
    blocks = list(row_blocks(n, 10))
    rows = np.concatenate([np.arange(n)[b] for b in blocks]) if blocks else np.arange(0)
    assert_array_equal(rows, np.arange(n))
    assert all(b.stop - b.start == 10 for b in blocks[:-1])
    assert all(0 < b.stop - b.start <= 10 for b in blocks)


@pytest.mark.parametrize("columns", [(), (3,)])
@pytest.mark.parametrize("n", SOLVE)
def test_a_shifted_solve_is_numpys(rng, n, columns):
    A = rng.normal(size=(n, n + 5))
    C, B = A @ A.T / n, rng.normal(size=(n, *columns))
    expected = np.linalg.solve(C + 0.1 * np.eye(n), B)
    D = ShiftedInverse.from_matrix(C, 0.1)
    assert_allclose(D @ B, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    assert len(D.corners) == -(-n // _SOLVE_ROWS)


@pytest.mark.parametrize("n", PANEL)
def test_mirrored_panels_have_no_seam(rng, n):
    A = rng.normal(size=(n, n))
    lower = np.tril(A)
    assert_array_equal(mirror_lower(A.copy()), lower + np.tril(lower, -1).T)
    triangle = np.asfortranarray(lower)
    assert_allclose(gram(triangle), triangle.T @ triangle, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("place", [(0, 1), (5, PANEL_ROWS + 2), (PANEL_ROWS + 2, PANEL_ROWS + 4)])
def test_one_wrong_number_in_any_panel_is_no_symmetry(rng, place):
    A = rng.normal(size=(PANEL_ROWS + 9, PANEL_ROWS + 9))
    A = A + A.T
    assert is_symmetric(A)
    A[place] += 1e-3
    assert not is_symmetric(A)


@pytest.mark.parametrize("n", PANEL)
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_kernel_panels_have_no_seam(rng, n, name):
    X, Z = rng.normal(size=(n, 3)), rng.normal(size=(7, 3))
    metric = {"rbf": "sqeuclidean", "laplacian": "cityblock"}[name]
    assert_allclose(Kernel(name, 0.4)(X, Z), np.exp(-0.4 * cdist(X, Z, metric)), rtol=1e-12)
    assert_allclose(Kernel(name, 0.4).gram(X), np.exp(-0.4 * cdist(X, X, metric)), atol=1e-13)


@pytest.mark.parametrize("r", PANEL)
def test_centred_normal_equations_have_no_seam(rng, r):
    G, y = rng.normal(size=(r + 9, r)) + 1, rng.normal(size=r + 9) + 2
    C, c = Moments.from_rows(G, y[:, None], y).normal_equations(fit_intercept=True)
    assert_allclose(C, (G - G.mean(axis=0)).T @ (G - G.mean(axis=0)), atol=1e-9)
    assert_allclose(c, (G - G.mean(axis=0)).T @ y, atol=1e-9)


@pytest.fixture(scope="module")
def many():
    """Rows of a block and a few more, with a map of 40 of them."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(BLOCK_ROWS + 3, 3))
    return X, rng.normal(size=(len(X), 2)), rng.normal(size=len(X))


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_streamed_features_have_no_seam(rng, many, approximation):
    X, S, y = many
    fmap = make_map(X, gamma=0.3, approximation=approximation, landmarks=40, random_state=0)
    G, B = fmap.transform(X), rng.normal(size=(fmap.rank, 2))
    assert [len(block) for block in fmap.training_blocks(X)] == [BLOCK_ROWS, 3]
    assert_allclose(fmap.product(X, B), G @ B, atol=1e-9)
    assert_allclose(fmap.training_product(X, B), G @ B, atol=1e-9)
    assert_allclose(fmap.training_adjoint(X, y), G.T @ y, atol=1e-8)
    moments = training_moments(fmap, X, S, y)
    assert moments.n == len(X)
    assert_allclose(moments.C, G.T @ G, rtol=1e-9, atol=1e-8)
    assert_allclose(moments.b, G.T @ S, rtol=1e-9, atol=1e-8)
    assert_allclose(moments.c, G.T @ y, rtol=1e-9, atol=1e-8)
    f = fmap.expansion(B[:, 0], 0.5)
    assert_allclose(f.predict(X), G @ B[:, 0] + 0.5, atol=1e-8)


def test_streamed_deviations_have_no_seam(rng, many):
    X = many[0]
    model = FairGaussianProcess(
        gamma=0.3, alpha=0.1, amplitude=2.0, iterations=2, held_out=0, normalize_y=False
    ).fit(X[:60], X[:60, 1], sensitive_features=X[:60, 0])
    mean, std = model.predict(X, return_std=True)
    last, last_std = model.predict(X[-5:], return_std=True)
    assert mean.shape == std.shape == (BLOCK_ROWS + 3,)
    assert_allclose(mean[-5:], last, rtol=1e-9, atol=1e-12)
    assert_allclose(std[-5:], last_std, rtol=1e-9)


@pytest.mark.parametrize("extra", [0, 1])
def test_the_density_over_blocks_is_one_sum(rng, extra):
    n = hgr_module._ROWS + extra
    u = rng.normal(size=n)
    v = np.where(np.arange(n) < hgr_module._ROWS, 0.5 * u + rng.normal(size=n), 2.0)
    P = joint_density_grid(u, v, damping=0.0)
    a, b = ((x - x.mean()) / x.std(ddof=1) for x in (u, v))
    centers = np.linspace(-hgr_module.GRID_REACH, hgr_module.GRID_REACH, len(P))
    for i, j in [(10, 12), (3, 20), (22, 5)]:
        distance = (a - centers[i]) ** 2 + (b - centers[j]) ** 2
        middle = (a - centers[12]) ** 2 + (b - centers[12]) ** 2
        shares = [np.exp(-0.5 * d * n ** (1 / 3)).sum() for d in (distance, middle)]
        assert_allclose(P[i, j] / P[12, 12], shares[0] / shares[1], rtol=1e-9)


def test_kernel_tiles_meet_at_their_edges(rng):
    n = TILE_ROWS + 3
    X, B = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    data = KernelRows(Kernel("rbf", 0.2), X, np.arange(5))
    (found,) = data.products([B])
    assert_allclose(found, np.exp(-0.2 * cdist(X, X, "sqeuclidean")) @ B, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "make", [NystroemMap.from_landmarks, lambda k, X, rows: ExactMap.from_rows(k, X[rows])]
)
def test_centres_stand_in_the_order_of_their_factor(rng, make):
    X, kernel = rng.normal(size=(60, 3)), Kernel("rbf", 0.3)
    twice = np.concatenate([X[:30], X[:30], X])  # what repeats is dropped, the rest reordered
    fmap = make(kernel, twice, np.arange(60, 110)[::-1])
    again = make(kernel, twice, np.r_[5:40, 0:5])
    for found in (fmap, again):
        Z = found.centers
        assert_allclose(found.L @ found.L.T, np.exp(-0.3 * cdist(Z, Z, "sqeuclidean")), atol=1e-10)
        assert_allclose(found.transform(Z), found.L, atol=1e-7)
    assert len(again.centers) == 30

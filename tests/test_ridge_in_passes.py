"""Ridge regression by passes over a kernel matrix, against the paper's dense form."""

import numpy as np
import pytest
from fkd.methods.krr_fkd_nystroem import Parameters
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.kernels import Kernel
from fkd.methods import Training, method
from fkd.methods.paper_methods import kernel_passes
from fkd.paper.algorithm2 import (
    DualRidge,
    KernelRows,
    LandmarkFeatures,
    LandmarkInverse,
    chunked_dual_path,
    dual_ridge,
    precondition,
)

KERNEL = Kernel("rbf", 0.2)


@pytest.fixture
def sample(rng):
    """Rows in tiles of 64 with their sensitive columns, target."""
    X = rng.normal(size=(300, 4))
    S = X[:, :2] ** 2 * [1.0, 5.0] + [3.0, -2.0] + 0.1 * rng.normal(size=(300, 2))
    data = KernelRows(KERNEL, X, np.sort(rng.choice(300, size=40, replace=False)), 64)
    return data, S, np.sin(X[:, 0]) + X[:, 1] + 5.0


def printed(K, S, landmarks, *, ridge, iterations):
    """K_m by Algorithm 2 as it is printed: an n x n inverse, T multiplied up, nothing factored."""
    n = len(K)
    T, left = np.eye(n), K
    for _ in range(iterations):
        K_nq, K_qq = left[:, landmarks], left[np.ix_(landmarks, landmarks)]
        inner = np.linalg.pinv(K_qq + K_nq.T @ K_nq / ridge, rcond=1e-14, hermitian=True)
        B = np.eye(n) / ridge - K_nq @ inner @ K_nq.T / ridge**2
        B = (B + B.T) / 2
        b = B @ S
        M = b @ np.linalg.solve(b.T @ left @ b, b.T)
        T = T @ (np.eye(n) - M @ left)
        left = K @ T
        left = (left + left.T) / 2
    return left


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("m", [0, 1, 4])
@pytest.mark.parametrize("l", [1, 2])
def test_weights_are_those_of_the_printed_dense_form(sample, l, m, fit_intercept):
    data, S, y = sample
    K, S = KERNEL.gram(data.X), S[:, :l]
    path = chunked_dual_path(data, S, ridge=0.5, iterations=m)
    (found,) = dual_ridge(data, path, y, [DualRidge(m, 0.3, fit_intercept)])
    K_m = printed(K, S, data.landmarks, ridge=0.5, iterations=m)
    n = len(y)
    A = np.block([[K_m + 0.3 * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    exact = np.linalg.solve(A, np.r_[y, 0]) if fit_intercept else None
    beta = exact[:n] if fit_intercept else np.linalg.solve(K_m + 0.3 * np.eye(n), y)
    fitted = K_m @ beta + (exact[n] if fit_intercept else 0.0)
    assert_allclose(K @ found.coef + found.intercept, fitted, atol=1e-7)
    if m:
        plain = K @ np.linalg.solve(K + 0.3 * np.eye(n), y)
        assert np.abs(plain - fitted).max() > 0.01  # removing changes something


def test_the_number_of_tiles_does_not_matter(sample):
    data, S, y = sample
    settings = [DualRidge(3, 0.1), DualRidge(0, 1.0, True)]
    found = []
    for tile_rows in (64, 100, 300, 1000):
        rows = KernelRows(KERNEL, data.X, data.landmarks, tile_rows)
        path = chunked_dual_path(rows, S, ridge=0.5, iterations=3)
        weights = dual_ridge(rows, path, y, settings)
        found.append([KERNEL(data.X, data.X) @ w.coef + w.intercept for w in weights])
    for other in found[1:]:
        assert_allclose(other, found[0], atol=1e-7)


def test_a_setting_does_not_depend_on_its_neighbours(sample):
    data, S, y = sample
    wanted = [DualRidge(2, 0.1, True), DualRidge(5, 1.0), DualRidge(0, 0.01), DualRidge(2, 0.1)]
    path = chunked_dual_path(data, S, ridge=0.5, iterations=5)
    together = dual_ridge(data, path, y, wanted)
    for setting, found in zip(wanted, together, strict=True):
        short = chunked_dual_path(data, S, ridge=0.5, iterations=setting.iterations)
        (alone,) = dual_ridge(data, short, y, [setting])
        assert_array_equal(found.coef, alone.coef)
        assert found.intercept == alone.intercept


@pytest.mark.parametrize("m", [0, 3])
def test_the_preconditioner_is_the_inverse_that_all_landmarks_give(rng, sample, m):
    _, S, y = sample
    # Independent rows, all of them landmarks: what they see is everything.
    X = rng.normal(size=(300, 4)) * 3
    data = KernelRows(Kernel("rbf", 0.5), X, np.arange(300), 64)
    K = data.kernel.gram(X)
    path = chunked_dual_path(data, S, ridge=0.5, iterations=m)
    features = LandmarkFeatures.of(data, 300)
    inverse = LandmarkInverse(features.lam, features.removed(path), 0.3)
    (found,) = precondition(features, [inverse], [y[:, None]])
    exact = np.linalg.solve(path.fair_gram(K) + 0.3 * np.eye(300), y)
    assert_allclose(found[:, 0], exact, atol=1e-6)


def test_the_preconditioner_saves_passes(sample, monkeypatch):
    data, S, y = sample
    path = chunked_dual_path(data, S, ridge=0.5, iterations=3)
    passes = []
    products = KernelRows.products
    counted = lambda self, panels: passes.append(len(panels)) or products(self, panels)  # noqa: E731
    monkeypatch.setattr(KernelRows, "products", counted)
    dual_ridge(data, path, y, [DualRidge(3, 0.01)])
    preconditioned = len(passes)
    monkeypatch.setattr("fkd.paper.algorithm2.precondition", lambda features, inverses, R: R)
    dual_ridge(data, path, y, [DualRidge(3, 0.01)])
    assert preconditioned < (len(passes) - preconditioned) / 2


def test_landmarks_that_repeat_each_other_are_no_trouble(sample):
    data, S, y = sample
    X = np.concatenate([data.X, data.X])
    twice = KernelRows(KERNEL, X, np.r_[data.landmarks, data.landmarks + 300], 64)
    SS, yy = np.concatenate([S, S]), np.concatenate([y, y])
    path = chunked_dual_path(twice, SS, ridge=0.5, iterations=2)
    (found,) = dual_ridge(twice, path, yy, [DualRidge(2, 0.1)])
    K = KERNEL.gram(X)
    K_m = path.fair_gram(K)
    exact = K_m @ np.linalg.solve(K_m + 0.1 * np.eye(600), yy)
    assert_allclose(K @ found.coef, exact, atol=1e-7)


def test_what_cannot_be_solved_names_alpha(sample):
    data, S, y = sample
    path = chunked_dual_path(data, S, ridge=0.5, iterations=1)
    with pytest.raises(ValueError, match=r"alpha=1e-09 \(iterations=1\); use a larger"):
        dual_ridge(data, path, y, [DualRidge(1, 1e-9)], budget=3)
    with pytest.raises(ValueError, match="alpha must be"):
        dual_ridge(data, path, y, [DualRidge(1, 0.0)])
    with pytest.raises(ValueError, match="at most 1"):
        dual_ridge(data, path, y, [DualRidge(2, 1.0)])


@pytest.fixture
def training(sample):
    data, S, y = sample
    return Training(data.X, y, S, seed=0)


def predictions(name, training, *settings):
    return [f.predict(training.X[:50]) for f in method(name).fit(training, settings)]


@pytest.mark.parametrize("form", [{}, {"center_sensitive": True, "fit_intercept": True}])
def test_every_row_a_landmark_is_the_exact_method(training, form):
    exact = method("krr_fkd").parameters
    lengths = (0, 1, 3)
    path = [exact(iterations=m, gamma=0.2, ridge=0.5, **form) for m in lengths]
    passes = [Parameters(m, 1.0, 0.2, ridge=0.5, **form) for m in lengths]
    assert_allclose(
        predictions("krr_fkd_nystroem", training, *passes),
        predictions("krr_fkd", training, *path),
        atol=1e-6,
    )


def test_tiles_and_the_whole_matrix_predict_the_same(training, monkeypatch):
    settings = [Parameters(m, 0.1, 0.2, fit_intercept=m > 0) for m in (0, 2, 5)]
    whole = predictions("krr_fkd_nystroem", training, *settings)
    monkeypatch.setattr("fkd.methods.paper_methods.WHOLE_ROWS", 299)
    assert_allclose(predictions("krr_fkd_nystroem", training, *settings), whole, atol=1e-7)
    assert kernel_passes(training, 0.2, np.arange(3)).kernel.name == "rbf"


def test_settings_of_several_paths_come_in_order(training):
    settings = [Parameters(2, f, g) for f in (0.1, 0.5) for g in (0.2, 0.4)]
    mixed = [settings[i] for i in (2, 0, 3, 1)]
    alone = [predictions("krr_fkd_nystroem", training, p)[0] for p in mixed]
    assert_array_equal(predictions("krr_fkd_nystroem", training, *mixed), alone)

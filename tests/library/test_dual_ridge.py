"""Ridge regression in passes over a kernel matrix, by preconditioned conjugate gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.kernels import Kernel
from fkd.paper.algorithm2 import (
    DualRidge,
    KernelRows,
    LandmarkPreconditioner,
    chunked_dual_path,
    dual_ridge,
    solve_systems,
)

KERNEL = Kernel("rbf", 0.2)


# Conjugate gradients against direct solves.


def systems(rng, conditions, n=120, w=2):
    """Positive definite matrices of given condition with right-hand sides."""
    found = []
    for condition in conditions:
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        found.append((Q * np.geomspace(1.0, condition, n)) @ Q.T)
    return found, [rng.normal(size=(n, w)) for _ in conditions]


def solved(matrices, B, names=None, passes=None, precondition=None, **options):
    def apply(which, panels):
        if passes is not None:
            passes.append(list(which))
        return [matrices[i] @ P for i, P in zip(which, panels, strict=True)]

    return solve_systems(
        apply,
        B,
        precondition=precondition or (lambda which, R: [r.copy() for r in R]),
        names=names or [f"alpha={i}" for i in range(len(B))],
        **options,
    )


@pytest.mark.parametrize("condition", [1.0, 50.0, 1e4])
def test_solutions_are_those_of_a_direct_solve(rng, condition):
    matrices, B = systems(rng, [condition])
    (X,) = solved(matrices, B)
    assert_allclose(X, np.linalg.solve(matrices[0], B[0]), atol=1e-10 * condition)


def test_the_number_of_distinct_eigenvalues_bounds_the_passes(rng):
    Q = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    A = (Q * np.repeat([1.0, 7.0, 50.0], 20)) @ Q.T
    passes = []
    solved([A], [rng.normal(size=(60, 1))], passes=passes)
    assert len(passes) == 3 + 1  # one for each eigenvalue, one for the true residual


def test_a_system_does_not_depend_on_others_and_leaves_when_it_is_solved(rng):
    matrices, B = systems(rng, [10.0, 1e4, 3.0])
    alone, passes = [solved([A], [b])[0] for A, b in zip(matrices, B, strict=True)], []
    for one, other in zip(solved(matrices, B, passes=passes), alone, strict=True):
        assert_array_equal(one, other)
    assert passes[0] == [0, 1, 2]
    assert passes[-2] == [1]


def test_a_column_of_zeros_is_solved_by_zeros(rng):
    matrices, B = systems(rng, [100.0])
    B[0][:, 1] = 0.0
    (X,) = solved(matrices, B)
    assert not X[:, 1].any()
    assert_allclose(matrices[0] @ X, B[0], atol=1e-8)


def test_a_preconditioner_saves_passes_and_changes_no_solution(rng):
    matrices, B = systems(rng, [1e5])
    A, passes = matrices[0], []
    near = np.linalg.inv(A + 0.5 * np.eye(len(A)))

    def apply(which, panels):
        passes.append(which)
        return [A @ P for P in panels]

    (X,) = solve_systems(apply, B, precondition=lambda _, R: [near @ R[0]], names=["it"])
    plain = []
    (Y,) = solved(matrices, B, passes=plain)
    assert_allclose(X, Y, atol=1e-7)
    assert len(passes) < len(plain) / 5


def test_an_unsolved_system_is_named(rng):
    matrices, B = systems(rng, [2.0, 1e8])
    with pytest.raises(ValueError, match=r"alpha=1e-08 .* after 5 passes"):
        solved(matrices, B, names=["alpha=1", "alpha=1e-08"], max_passes=5)


def test_a_residual_hidden_by_rounding_is_an_error(rng):
    matrices, B = systems(rng, [1.0])
    calls = []

    def drifting(which, panels):
        # The last product is with another matrix than the one that was solved.
        calls.append(which)
        factor = 1.0 if len(calls) < 2 else 1.0 + 1e-5
        return [factor * (matrices[0] @ P) for P in panels]

    with pytest.raises(ValueError, match=r"got 1\.0e-05 after 1 passes"):
        solve_systems(drifting, B, precondition=lambda _, R: list(R), names=["alpha=1"])


def test_nan_is_an_error(rng):
    matrices, B = systems(rng, [3.0])
    matrices[0][3, 3] = np.nan
    with pytest.raises(ValueError, match="got nan"):
        solved(matrices, B, max_passes=4)


# Ridge regression against the dense form.


@pytest.fixture
def sample(rng):
    """Rows in tiles of 64 with sensitive columns and target."""
    X = rng.normal(size=(300, 4))
    S = X[:, :2] ** 2 * [1.0, 5.0] + [3.0, -2.0] + 0.1 * rng.normal(size=(300, 2))
    data = KernelRows(KERNEL, X, np.sort(rng.choice(300, size=40, replace=False)), 64)
    return data, S, np.sin(X[:, 0]) + X[:, 1] + 5.0


def printed(K, S, landmarks, *, ridge, iterations):
    """K_m by Algorithm 2 as printed: an n x n inverse and products of T."""
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


def test_the_size_of_tiles_does_not_matter(sample):
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
def test_the_preconditioner_is_the_inverse_if_all_rows_are_landmarks(rng, sample, m):
    _, S, y = sample
    # Rows far from each other: all landmarks together represent the whole kernel.
    X = rng.normal(size=(300, 4)) * 3
    data = KernelRows(Kernel("rbf", 0.5), X, np.arange(300), 64)
    K = data.kernel.gram(X)
    path = chunked_dual_path(data, S, ridge=0.5, iterations=m)
    precondition = LandmarkPreconditioner(data, path, [DualRidge(0, 1.0), DualRidge(m, 0.3)])
    (found,) = precondition([1], [y[:, None]])
    exact = np.linalg.solve(path.fair_gram(K) + 0.3 * np.eye(300), y)
    assert_allclose(found[:, 0], exact, atol=1e-6)


def test_the_preconditioner_saves_passes(sample):
    data, S, y = sample
    path, setting = chunked_dual_path(data, S, ridge=0.5, iterations=3), DualRidge(3, 0.01)
    K_m = path.fair_gram(KERNEL.gram(data.X)) + 0.01 * np.eye(300)
    passes = {}
    for name, precondition in {
        "plain": lambda which, panels: panels,
        "landmarks": LandmarkPreconditioner(data, path, [setting]),
    }.items():
        passes[name] = []
        (found,) = solved([K_m], [y[:, None]], passes=passes[name], precondition=precondition)
        assert_allclose(K_m @ found[:, 0], y, atol=1e-6)
    assert len(passes["landmarks"]) < len(passes["plain"]) / 2


def test_duplicate_landmarks_give_the_same_fit(sample):
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


def test_an_unsolved_setting_is_named(sample):
    data, S, y = sample
    path = chunked_dual_path(data, S, ridge=0.5, iterations=1)
    with pytest.raises(ValueError, match=r"alpha=1e-09 \(iterations=1\)"):
        dual_ridge(data, path, y, [DualRidge(1, 1e-9)], max_passes=3)
    with pytest.raises(ValueError, match="alpha must be"):
        dual_ridge(data, path, y, [DualRidge(1, 0.0)])
    with pytest.raises(ValueError, match="at most 1"):
        dual_ridge(data, path, y, [DualRidge(2, 1.0)])

"""Iterative null-space projection: directions with all digits, the projected regression."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from training_sample import fit_one, make_training

from fkd.baselines import NullspaceProjection
from fkd.core.feature_maps import ExactMap
from fkd.core.kernels import Kernel
from fkd.core.moments import training_moments
from fkd.core.removal import removal_path
from fkd.methods import Training, method


def removed_inputs(training, m):
    """The orthonormal directions that m iterations remove."""
    return fit_one("svr_inlp", training, iterations=m).U


def explicit_removal(X, s, iterations, ridge):
    """The removed projector by the recursion as defined, in 80 digits."""
    with mpmath.workdps(80):
        A, s = mpmath.matrix(X.tolist()), mpmath.matrix(s.tolist())
        removed = mpmath.zeros(A.cols)
        for _ in range(iterations):
            w = mpmath.lu_solve(A.T * A + ridge * mpmath.eye(A.cols), A.T * s)
            P = w * w.T / (w.T * w)[0]
            A, removed = A - A * P, removed + P
        return np.array(removed.tolist(), dtype=np.float64)


@pytest.mark.parametrize("m", range(1, 9))
def test_removal_on_inputs_is_fkd_under_a_linear_kernel(rng, m):
    X = rng.normal(size=(50, 8))
    S = X[:, :1] + 0.5 * rng.normal(size=(50, 1))
    U = removed_inputs(Training(X, X[:, 1], S, 0), m)
    X_m = X - (X @ U) @ U.T
    linear = ExactMap.from_rows(Kernel("linear"), X)
    moments = training_moments(linear, X, S, np.zeros(50))
    G_m = removal_path(moments, ridge=0.05, iterations=m).at(m).features(linear.G)
    assert_allclose(X_m @ X_m.T, G_m @ G_m.T, atol=1e-9)


@pytest.mark.parametrize("m", [1, 4, 7, 10])
def test_the_projector_of_one_hot_inputs_has_all_its_digits(rng, m):
    # Columns of one-hot groups are linearly dependent. The recursion in float64, also as a Krylov
    # space of all inputs, has no correct digit from seven iterations on.
    codes = rng.integers(6, size=(60, 3))
    X = np.hstack([np.eye(6)[column] for column in codes.T])
    s = 0.1 * codes[:, 0] + 0.05 * codes[:, 1] ** 2 + 0.1 * rng.normal(size=60)
    U = removed_inputs(Training(X, s, s[:, None], 0), m)
    assert_allclose(U @ U.T, explicit_removal(X, s, m, 0.05), atol=1e-9)


def test_a_prediction_does_not_depend_on_the_removed_directions(rng):
    training = make_training(rng, d=6)
    U = removed_inputs(training, 2)
    moved = training.X + rng.normal(size=(60, U.shape[1])) @ U.T
    fair = fit_one("svr_inlp", training, iterations=2)
    plain = fit_one("svr_inlp", training, iterations=0)
    assert_allclose(fair.predict(moved), fair.predict(training.X), atol=1e-9)
    assert np.abs(plain.predict(moved) - plain.predict(training.X)).max() > 0.01


@pytest.mark.parametrize("m", [2, 5, 200])
def test_after_the_rank_the_prediction_is_constant(rng, m):
    training = make_training(rng, d=4)  # two columns of S: two directions per iteration
    assert np.ptp(fit_one("svr_inlp", training, iterations=m).predict(training.X)) < 1e-12


def test_no_removal_is_support_vector_regression(rng):
    training = make_training(rng)
    new = rng.uniform(size=(7, 4))
    common = {"C": 0.5, "epsilon": 0.005}
    plain = fit_one("svr", training, **common)
    assert_allclose(
        fit_one("svr_inlp", training, iterations=0).predict(new), plain.predict(new), atol=1e-9
    )


def test_a_target_inside_the_tube_needs_no_support(rng):
    training = make_training(rng)
    flat = Training(training.X, np.full(60, 0.3), training.S, 0)
    assert_allclose(fit_one("svr_inlp", flat, iterations=1).predict(training.X), 0.3, atol=0.005)


def test_a_setting_does_not_depend_on_the_others(rng):
    training = make_training(rng, d=8)
    inlp = method("svr_inlp")
    settings = [
        inlp.parameters(iterations=m, ridge=ridge, center_sensitive=c)
        for m in (3, 0, 1)
        for ridge, c in ((0.05, False), (0.5, True))
    ]
    together = [f.predict(training.X) for f in inlp.fit(training, settings)]
    alone = [next(iter(inlp.fit(training, [p]))).predict(training.X) for p in settings]
    assert_array_equal(together, alone)


def test_the_representation_is_the_input_of_the_regression(rng):
    training = make_training(rng, d=6)
    inlp = method("svr_inlp")
    p = inlp.parameters(iterations=2)
    left = inlp.represent(training, p, training.X)
    f = fit_one("svr_inlp", training, iterations=2)
    assert_array_equal(f.inner.predict(left), f.predict(training.X))
    assert np.linalg.matrix_rank(left) == 6 - 4


@pytest.mark.parametrize("m", [0, 1, 3])
def test_the_estimator_projects_as_the_method(rng, m):
    training = make_training(rng, n=200, d=8)
    known = fit_one("svr_inlp", training, iterations=m, center_sensitive=True)
    model = NullspaceProjection(m)
    projected = model.fit_transform(training.X, sensitive_features=training.S)
    assert_allclose(projected, training.X - training.X @ known.U @ known.U.T, atol=1e-10)
    assert model.effective_iterations_ == m

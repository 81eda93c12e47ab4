"""Fair kernel learning against its published closed form, as method and as estimator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from training_sample import fit_one, make_training, published_fkl, worst_correlation

from fkd.baselines import FairKernelLearning
from fkd.baselines.fkl import fkl_removal
from fkd.core.feature_maps import KernelSettings
from fkd.core.kernels import Kernel
from fkd.core.moments import basis_moments
from fkd.core.removal import fkl_penalty, shrinkage
from fkd.core.ridge import RidgeSetting, fit_ridge
from fkd.core.training import KnownRemoval
from fkd.methods import Approximation, Training, method

ALPHA, GAMMA, GAMMA_S = 0.25, 0.8, 0.5
RBF = KernelSettings(gamma=GAMMA)


def centred(K):
    H = np.eye(len(K)) - 1 / len(K)
    return H @ K @ H


def kernels(training, gamma_s=GAMMA_S):
    """Kernel matrices of the inputs and of the sensitive columns."""
    return Kernel("rbf", GAMMA).gram(training.X), Kernel("rbf", gamma_s).gram(training.S)


def predictions(training, penalties, gamma_s=GAMMA_S):
    """Predictions of the training rows at each penalty."""
    common = {"alpha": ALPHA, "gamma": GAMMA, "gamma_s": gamma_s}
    return [
        fit_one("krr_fkl", training, penalty=p, **common).predict(training.X) for p in penalties
    ]


@pytest.mark.parametrize(("mu", "coef", "f"), [(0, 1, 0.5), (1, 0.8, 0.4), (4, 0.5, 0.25)])
def test_two_rows_by_hand(mu, coef, f):
    K, y, S = np.array([[1, 0.5], [0.5, 1]]), np.array([1.0, -1.0]), np.array([[0.0], [1.0]])
    published = published_fkl(K, S @ S.T, y, alpha=0.5, mu=mu)
    assert_allclose(published, [coef, -coef], rtol=1e-14)
    training, kernel = Training(K, y, S), KernelSettings("precomputed")
    removal = KnownRemoval(shrinkage(basis_moments(training.feature_map(kernel), K, S)))
    setting = RidgeSetting(kernel, removal, fkl_penalty(mu, n=2), 0.5)
    (model,) = fit_ridge(training, [setting])
    assert_allclose(model.expansion.predict(K), [f, -f], rtol=1e-13)
    assert_allclose(model.expansion.predict(np.eye(2)), [coef, -coef], rtol=1e-13)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mu=st.sampled_from([0.0, 0.05, 1.0, 30.0]))
def test_predictions_are_those_of_the_published_form(seed, mu):
    training = make_training(np.random.default_rng(seed))
    K, K_s = kernels(training)
    coef = published_fkl(K, K_s, training.y, alpha=ALPHA, mu=mu)
    (f,) = predictions(training, [mu])
    assert_allclose(f, K @ coef, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("mu", [0.05, 1.0])
def test_new_rows_are_predicted_as_published(rng, mu):
    training, new = make_training(rng), rng.uniform(size=(7, 4))
    K, K_s = kernels(training, 0.3)
    coef = published_fkl(K, K_s, training.y, alpha=ALPHA, mu=mu)
    ours = fit_one("krr_fkl", training, penalty=mu, gamma=GAMMA, gamma_s=0.3)
    assert_allclose(ours.predict(new), Kernel("rbf", GAMMA)(new, training.X) @ coef, rtol=1e-8)


def test_a_narrow_kernel_of_s_has_a_direction_per_row(rng):
    training = make_training(rng)
    K, K_s = kernels(training, 1e4)
    assert fkl_removal(training, RBF, 1e4).removals.V.shape[1] == len(K) - 1  # one is the mean
    (f,) = predictions(training, [0.7], 1e4)
    assert_allclose(
        f, K @ published_fkl(K, K_s, training.y, alpha=ALPHA, mu=0.7), rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("gamma_s", [0.05, 2.0])
def test_a_wide_kernel_of_s_has_few_directions(rng, gamma_s):
    training = make_training(rng, n=200, l=1)
    assert fkl_removal(training, RBF, gamma_s).removals.V.shape[1] <= 20


def test_the_symmetric_form_agrees(rng):
    training = make_training(rng)
    K, K_s = kernels(training)
    R = np.linalg.cholesky(np.eye(len(K)) + 0.5 * centred(K_s))
    inner = np.linalg.solve(R.T @ K @ R + ALPHA * np.eye(len(K)), np.linalg.solve(R, training.y))
    (f,) = predictions(training, [0.5])
    assert_allclose(f, K @ R @ inner, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("mu", [0.0, 0.6, 5.0])
def test_the_published_form_is_a_stationary_point_of_the_objective(rng, mu):
    training = make_training(rng)
    K, K_s = kernels(training)
    coef = published_fkl(K, K_s, training.y, alpha=ALPHA, mu=mu)
    gradient = K @ (K @ coef + ALPHA * coef + mu * centred(K_s) @ K @ coef - training.y)
    assert np.abs(gradient).max() < 1e-10 * np.abs(K @ training.y).max()


def test_dependence_falls_as_the_penalty_rises(rng):
    training = make_training(rng)
    _, K_s = kernels(training)
    found = predictions(training, [0.0, 0.05, 0.25, 1.0, 10.0, 1e4])
    assert (np.diff([f @ centred(K_s) @ f for f in found]) < 0).all()


def test_a_huge_penalty_leaves_no_correlation_with_either_column(rng):
    training = make_training(rng)
    plain, fair = predictions(training, [0.0, 1e7])
    assert worst_correlation(fair, training.S) < 1e-2
    assert worst_correlation(plain, training.S) > 0.2  # the check fails without the penalty


@pytest.mark.parametrize("shift", [[1.0, 1.0], [-7.0, 3.0]])
def test_an_offset_of_s_changes_nothing(rng, shift):
    training = make_training(rng)
    moved = Training(training.X, training.y, training.S + np.array(shift))
    for one, other in zip(*(predictions(t, [0.05, 5.0]) for t in (training, moved)), strict=True):
        assert_allclose(other, one, atol=1e-11)


def test_a_constant_s_has_no_effect(rng):
    training = make_training(rng)
    constant = Training(training.X, training.y, np.ones((60, 1)))
    plain, penalised = predictions(constant, [0.0, 100.0])
    assert_allclose(penalised, plain, rtol=1e-12)


@pytest.mark.parametrize("kind", ["exact", "nystroem", "fourier"])
def test_no_penalty_is_kernel_ridge_regression(rng, kind):
    training = make_training(rng)
    approximation = Approximation(kind, 20)
    fair = fit_one("krr_fkl", training, penalty=0.0, approximation=approximation)
    plain = fit_one("krr", training, approximation=approximation)
    assert_allclose(fair.predict(training.X), plain.predict(training.X), rtol=1e-12)


@pytest.mark.parametrize(("scale", "power"), [("n", 1), ("n_squared", 2)])
def test_the_penalty_can_be_divided_by_the_number_of_rows(rng, scale, power):
    training = make_training(rng)
    scaled = fit_one("krr_fkl", training, penalty=0.5 * 60.0**power, penalty_scale=scale)
    plain = fit_one("krr_fkl", training, penalty=0.5)
    assert_array_equal(scaled.predict(training.X), plain.predict(training.X))


def test_a_setting_does_not_depend_on_the_others(rng):
    training = make_training(rng)
    fkl = method("krr_fkl")
    wanted = [
        fkl.parameters(penalty=penalty, alpha=alpha, gamma_s=g)
        for g in (0.05, 0.5)
        for penalty in (1.0, 0.0, 0.3)
        for alpha in (0.25, 0.5)
    ]
    together = [f.predict(training.X) for f in fkl.fit(training, wanted)]
    alone = [next(iter(fkl.fit(training, [p]))).predict(training.X) for p in wanted]
    assert_array_equal(together, alone)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_estimator_is_the_method_on_scaled_columns(rng, fit_intercept):
    training = make_training(rng, n=200)
    setting = {"penalty": 0.6, "gamma": 0.05, "alpha": 0.25, "fit_intercept": fit_intercept}
    S = (training.S - training.S.min(axis=0)) / np.ptp(training.S, axis=0)
    known = fit_one("krr_fkl", Training(training.X, training.y, S), **setting)
    model = FairKernelLearning(**setting)
    model.fit(training.X, training.y, sensitive_features=training.S)
    assert_allclose(model.predict(training.X), known.predict(training.X), atol=1e-9)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from training_sample import make_training, worst_correlation

from fkd.baselines.fkl import (
    closed_form,
    dependence_sums,
    penalised_expansions,
    sensitive_factor,
)
from fkd.core.feature_maps import ExactMap
from fkd.core.kernels import Kernel
from fkd.core.moments import BasisMoments, Moments

ALPHA = 0.25


def centred(K):
    H = np.eye(len(K)) - 1 / len(K)
    return H @ K @ H


def system(rng, *, gamma_s=0.5, n=60):
    """Map, kernel matrices, products with s of a sample with two sensitive columns."""
    training = make_training(rng, n=n)
    fmap = ExactMap.from_rows(Kernel("rbf", 0.8), training.X)
    sums = dependence_sums(fmap, training.X, training.S, gamma_s)
    K_s = Kernel("rbf", gamma_s).gram(training.S)
    return training, fmap, Kernel("rbf", 0.8).gram(training.X), K_s, sums


def predictions(training, fmap, sums, mus):
    """What the training rows are told at each price."""
    moments = Moments.from_rows(fmap.G, training.S, training.y)
    found = penalised_expansions(fmap, moments, sums, alpha=ALPHA, mus=mus, fit_intercept=False)
    return [f.predict(training.X) for f in found]


def fitted(rng, mus, **sample):
    training, fmap, K, K_s, sums = system(rng, **sample)
    return training, K, K_s, predictions(training, fmap, sums, mus)


HAND = pytest.mark.parametrize(("mu", "coef", "f"), [(0, 1, 0.5), (1, 0.8, 0.4), (4, 0.5, 0.25)])
K_HAND = np.array([[1, 0.5], [0.5, 1]])
Y_HAND = np.array([1.0, -1.0])
S_HAND = np.array([[0.0], [1.0]])


@HAND
def test_the_hand_example_by_the_published_formula(mu, coef, f):
    found = closed_form(K_HAND, S_HAND @ S_HAND.T, Y_HAND, alpha=0.5, mu=mu)
    assert_allclose(found, [coef, -coef], rtol=1e-14)
    assert_allclose(K_HAND @ found, [f, -f], rtol=1e-14)


@HAND
def test_the_hand_example_in_features(mu, coef, f):
    fmap = ExactMap.from_rows(Kernel("precomputed"), K_HAND)
    moments, sums = (
        Moments.from_rows(fmap.G, S_HAND, Y_HAND),
        BasisMoments.from_rows(fmap.G, S_HAND),
    )
    (found,) = penalised_expansions(fmap, moments, sums, alpha=0.5, mus=[mu], fit_intercept=False)
    assert_allclose(found.predict(K_HAND), [f, -f], rtol=1e-13)
    assert_allclose(found.predict(np.eye(2)), [coef, -coef], rtol=1e-13)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mu=st.sampled_from([0.0, 0.05, 1.0, 30.0]))
def test_one_factorisation_gives_what_lu_gives(seed, mu):
    training, K, K_s, (f,) = fitted(np.random.default_rng(seed), [mu])
    coef = closed_form(K, K_s, training.y, alpha=ALPHA, mu=mu)
    assert_allclose(f, K @ coef, rtol=1e-9, atol=1e-11)


def test_a_narrow_kernel_on_s_has_a_direction_per_row(rng):
    training, fmap, K, K_s, sums = system(rng, gamma_s=1e4)
    assert sums.p == len(K)  # every row has an s of its own
    (f,) = predictions(training, fmap, sums, [0.7])
    coef = closed_form(K, K_s, training.y, alpha=ALPHA, mu=0.7)
    assert_allclose(f, K @ coef, rtol=1e-9, atol=1e-11)


def test_the_symmetric_form_agrees(rng):
    training, K, K_s, (f,) = fitted(rng, [0.5])
    R = np.linalg.cholesky(np.eye(len(K)) + 0.5 * centred(K_s))
    inner = np.linalg.solve(R.T @ K @ R + ALPHA * np.eye(len(K)), np.linalg.solve(R, training.y))
    assert_allclose(f, K @ R @ inner, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("mu", [0.0, 0.6, 5.0])
def test_the_solution_is_stationary(rng, mu):
    training, _, K, K_s, _ = system(rng)
    coef = closed_form(K, K_s, training.y, alpha=ALPHA, mu=mu)
    gradient = K @ (K @ coef + ALPHA * coef + mu * centred(K_s) @ K @ coef - training.y)
    assert np.abs(gradient).max() < 1e-10 * np.abs(K @ training.y).max()


@pytest.mark.parametrize("gamma_s", [0.05, 2.0])
def test_the_factor_of_the_sensitive_kernel_is_thin(rng, gamma_s):
    S = make_training(rng, n=200).S[:, :1]
    F = sensitive_factor(S, gamma_s)
    assert_allclose(F @ F.T, centred(Kernel("rbf", gamma_s).gram(S)), atol=1e-12)
    assert F.shape[1] <= 20


def test_dependence_falls_as_its_price_rises(rng):
    prices = [0.0, 0.05, 0.25, 1.0, 10.0, 1e4]
    _, _, K_s, predictions = fitted(rng, prices)
    hsic = [f @ centred(K_s) @ f for f in predictions]
    assert (np.diff(hsic) < 0).all()


def test_a_huge_price_leaves_no_correlation_with_either_column(rng):
    training, _, _, (plain, fair) = fitted(rng, [0.0, 1e7])
    assert worst_correlation(fair, training.S) < 1e-2
    assert worst_correlation(plain, training.S) > 0.2  # the check would bite


@pytest.mark.parametrize("shift", [[1.0, 1.0], [-7.0, 3.0]])
def test_a_shift_of_s_changes_nothing(rng, shift):
    S = make_training(rng).S
    F, moved = sensitive_factor(S, 0.5), sensitive_factor(S + np.array(shift), 0.5)
    assert_allclose(moved @ moved.T, F @ F.T, atol=1e-11)


def test_a_constant_kernel_on_s_has_no_effect(rng):
    training, fmap, _, _, _ = system(rng)
    sums = dependence_sums(fmap, training.X, np.ones((60, 1)), 0.5)
    plain, priced = predictions(training, fmap, sums, [0.0, 100.0])
    assert_allclose(priced, plain, rtol=1e-12)

"""Against explicit least squares on [S | U] at small n, and the bound by bisection."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import bisect
from training_sample import make_training, worst_correlation

from fkd.baselines.frrm import SensitiveRidge
from fkd.core.feature_maps import IdentityMap
from fkd.core.moments import training_moments

ALPHA = 0.3


def solved(training, alpha=ALPHA):
    X, y, S = training.X, training.y, training.S
    return SensitiveRidge.of(training_moments(IdentityMap(X.shape[1]), X, S, y), S, y, alpha=alpha)


def predicted(training, rows=None, *, penalty=0.0, unfairness=1.0):
    rows = training if rows is None else rows
    f = solved(training).expansion(
        IdentityMap(training.X.shape[1]), penalty=penalty, unfairness=unfairness
    )
    return f.predict(np.hstack([rows.X, rows.S]))


def parts(training, rows=None):
    """Centred S and U of rows, both learnt from the training rows by plain least squares."""
    rows = training if rows is None else rows
    ones = np.ones((len(training.X), 1))
    slopes = np.linalg.lstsq(np.hstack([ones, training.S]), training.X, rcond=None)[0]
    U = rows.X - np.hstack([np.ones((len(rows.X), 1)), rows.S]) @ slopes
    return rows.S - training.S.mean(axis=0), U


def augmented(training, penalty, alpha=ALPHA):
    """Weights (a, b) of one least-squares problem with the penalties as extra rows."""
    S, U = parts(training)
    l, d, n = S.shape[1], U.shape[1], len(S)
    rows = np.vstack(
        [
            np.hstack([S, U]),
            np.hstack([np.sqrt(n * penalty) * np.eye(l), np.zeros((l, d))]),
            np.hstack([np.zeros((d, l)), np.sqrt(alpha) * np.eye(d)]),
        ]
    )
    target = np.concatenate([training.y - training.y.mean(), np.zeros(l + d)])
    w = np.linalg.lstsq(rows, target, rcond=None)[0]
    return w[:l], w[l:]


def share_of(training, a, b):
    S, U = parts(training)
    return np.var(S @ a) / np.var(S @ a + U @ b)


@pytest.mark.parametrize("l", [1, 2])
@pytest.mark.parametrize("penalty", [0.0, 0.02, 5.0])
def test_a_price_is_least_squares_with_extra_rows_also_on_new_rows(rng, l, penalty):
    training, new = make_training(rng, l=l), make_training(rng, n=7, l=l)
    a, b = augmented(training, penalty)
    S, U = parts(training, new)
    expected = training.y.mean() + S @ a + U @ b
    assert_allclose(predicted(training, new, penalty=penalty), expected, rtol=1e-9)
    assert_allclose(solved(training).share(penalty), share_of(training, a, b), rtol=1e-9)


@pytest.mark.parametrize("unfairness", [1e-6, 0.01, 0.1, 0.3])
@pytest.mark.parametrize("l", [1, 2])
def test_a_bound_holds_exactly_where_bisection_finds_it(rng, l, unfairness):
    training = make_training(rng, l=l)
    assert share_of(training, *augmented(training, 0.0)) > 0.4  # the bound bites

    def excess(log_price):
        return share_of(training, *augmented(training, np.exp(log_price))) - unfairness

    price = np.exp(bisect(excess, np.log(1e-8), np.log(1e6), xtol=1e-13))
    assert_allclose(solved(training).penalty_for(unfairness), price, rtol=1e-6)
    S, _ = parts(training)
    f = predicted(training, unfairness=unfairness)
    on_s = S @ np.linalg.lstsq(S, f - f.mean(), rcond=None)[0]
    assert_allclose(np.var(on_s) / np.var(f), unfairness, rtol=0, atol=1e-8)
    assert_allclose(np.var(on_s) / np.var(f), unfairness, rtol=1e-6)


def test_no_share_leaves_no_correlation_with_either_column(rng):
    training = make_training(rng, n=300)
    assert worst_correlation(predicted(training, unfairness=0.0), training.S) < 1e-10
    assert worst_correlation(predicted(training), training.S) > 0.3  # the check would bite


def test_no_bound_is_ridge_regression_with_free_sensitive_columns(rng):
    training = make_training(rng)
    a, b = augmented(training, 0.0)
    S, U = parts(training)
    assert_allclose(predicted(training, unfairness=1.0), training.y.mean() + S @ a + U @ b)
    assert solved(training).penalty_for(1.0) == 0


def test_a_bound_that_holds_anyway_costs_nothing(rng):
    model = solved(make_training(rng))
    assert model.penalty_for(model.share(0.0) + 1e-9) == 0
    assert model.penalty_for(model.share(0.0) - 1e-9) > 0


def test_of_price_and_bound_the_stricter_one_holds(rng):
    training = make_training(rng)
    price = solved(training).penalty_for(0.1)
    for given, ruling in [(price / 2, price), (price * 2, price * 2)]:
        assert_allclose(
            predicted(training, penalty=given, unfairness=0.1),
            predicted(training, penalty=ruling),
            rtol=1e-12,
        )


def test_the_share_falls_as_the_price_rises(rng):
    model = solved(make_training(rng))
    shares = [model.share(penalty) for penalty in (0.0, *np.geomspace(1e-6, 1e6, num=30))]
    assert (np.diff(shares) < 0).all()
    assert shares[-1] < 1e-9
    prices = [model.penalty_for(r) for r in (0.4, 0.1, 0.01, 1e-4, 0.0)]
    assert (np.diff(prices) > 0).all()
    assert prices[-1] == np.inf


def test_a_price_means_the_same_at_every_number_of_rows(rng):
    training = make_training(rng)
    X, y, S = (np.concatenate([A] * 3) for A in (training.X, training.y, training.S))
    moments = training_moments(IdentityMap(4), X, S, y)
    thrice = SensitiveRidge.of(moments, S, y, alpha=3 * ALPHA)
    assert_allclose(thrice.weights(0.1), solved(training).weights(0.1), rtol=1e-9)
    assert_allclose(thrice.share(0.1), solved(training).share(0.1), rtol=1e-9)


def with_columns(training, S):
    return type(training)(training.X, training.y, S, training.seed)


@pytest.mark.parametrize("offset", [0.1, 1e6 / 3])
@pytest.mark.parametrize("unfairness", [0.0, 0.1, 1.0])
def test_a_constant_column_changes_nothing(rng, offset, unfairness):
    training = make_training(rng)
    constant = np.full((len(training.S), 1), offset)
    wider = with_columns(training, np.hstack([training.S, constant]))
    assert_allclose(
        predicted(wider, unfairness=unfairness),
        predicted(training, unfairness=unfairness),
        rtol=1e-7,  # the fold's own numbers stand beside 1e6
    )


def test_constant_columns_alone_leave_ridge_regression(rng):
    training = make_training(rng)
    constant = with_columns(training, np.full((len(training.S), 2), 0.1))
    (price,) = {solved(constant).penalty_for(r) for r in (0.0, 0.5, 1.0)}
    assert price == 0
    Xc, yc = training.X - training.X.mean(axis=0), training.y - training.y.mean()
    b = np.linalg.solve(Xc.T @ Xc + ALPHA * np.eye(4), Xc.T @ yc)
    assert_allclose(predicted(constant, unfairness=0.0), training.y.mean() + Xc @ b, rtol=1e-9)


@pytest.mark.parametrize("unfairness", [0.0, 0.1, 1.0])
def test_collinear_columns_are_one_column(rng, unfairness):
    training = make_training(rng, l=1)
    twice = with_columns(training, np.hstack([training.S, 1.0 - 2 * training.S]))
    assert_allclose(
        predicted(twice, unfairness=unfairness),
        predicted(training, unfairness=unfairness),
        rtol=1e-9,
    )


def test_inputs_that_the_sensitive_columns_explain_leave_a_constant_under_any_bound(rng):
    training = make_training(rng)
    same = type(training)(training.S @ rng.normal(size=(2, 4)), training.y, training.S, 0)
    assert_allclose(predicted(same, unfairness=0.5), training.y.mean(), atol=1e-9)
    assert np.ptp(predicted(same)) > 0.5


def test_arguments_stay_as_they_are(rng):
    training = make_training(rng)
    for A in (training.X, training.y, training.S):
        A.flags.writeable = False
    predicted(training, penalty=0.1, unfairness=0.1)


@pytest.mark.parametrize("unfairness", [-0.1, 1.1, float("nan"), True, "0.1"])
def test_a_bound_outside_its_range_is_refused_by_its_rule(rng, unfairness):
    with pytest.raises(ValueError, match=r"unfairness must lie in \[0, 1\].*; 1 sets no bound"):
        predicted(make_training(rng), unfairness=unfairness)


def test_a_negative_price_is_refused(rng):
    with pytest.raises(ValueError, match="penalty must not be negative, got -1"):
        predicted(make_training(rng), penalty=-1.0)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf")])
def test_a_ridge_that_is_none_is_refused(rng, alpha):
    with pytest.raises(ValueError, match="alpha must be a finite number above 0"):
        solved(make_training(rng), alpha=alpha)

"""The fair ridge regression model: explicit least squares, bounds by bisection, the dual form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import bisect
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from training_sample import fit_one, make_training, worst_correlation

from fkd.baselines.frrm import SensitiveRidge
from fkd.core.feature_maps import IdentityMap, KernelSettings
from fkd.core.moments import training_moments
from fkd.core.predictors import SensitiveExpansion
from fkd.core.training import RunningSums
from fkd.datasets import read_crimes
from fkd.methods import Approximation, Training, method
from fkd.problems.crimes import CRIMES, PREDICTORS

ALPHA = 0.3
BOTH = pytest.mark.parametrize("name", ["frrm", "krr_frrm"])


def solved(training, alpha=ALPHA):
    X, y, S = training.X, training.y, training.S
    moments = training_moments(IdentityMap(X.shape[1]), X, S, y)
    return SensitiveRidge.from_moments(moments, S, y, alpha=alpha)


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
def test_a_penalty_is_least_squares_with_extra_rows_also_on_new_rows(rng, l, penalty):
    training, new = make_training(rng, l=l), make_training(rng, n=7, l=l)
    a, b = augmented(training, penalty)
    S, U = parts(training, new)
    expected = training.y.mean() + S @ a + U @ b
    assert_allclose(predicted(training, new, penalty=penalty), expected, rtol=1e-9)
    assert_allclose(solved(training).share(penalty), share_of(training, a, b), rtol=1e-9)


@pytest.mark.parametrize("unfairness", [1e-6, 0.01, 0.1, 0.3])
@pytest.mark.parametrize("l", [1, 2])
def test_a_bound_holds_exactly_at_the_penalty_of_bisection(rng, l, unfairness):
    training = make_training(rng, l=l)
    assert share_of(training, *augmented(training, 0.0)) > 0.4  # the bound is needed

    def excess(log_penalty):
        return share_of(training, *augmented(training, np.exp(log_penalty))) - unfairness

    penalty = np.exp(bisect(excess, np.log(1e-8), np.log(1e6), xtol=1e-13))
    assert_allclose(solved(training).penalty_for(unfairness), penalty, rtol=1e-6)
    S, _ = parts(training)
    f = predicted(training, unfairness=unfairness)
    on_s = S @ np.linalg.lstsq(S, f - f.mean(), rcond=None)[0]
    assert_allclose(np.var(on_s) / np.var(f), unfairness, rtol=0, atol=1e-8)
    assert_allclose(np.var(on_s) / np.var(f), unfairness, rtol=1e-6)


def test_a_bound_of_0_leaves_no_correlation_with_either_column(rng):
    training = make_training(rng, n=300)
    assert worst_correlation(predicted(training, unfairness=0.0), training.S) < 1e-10
    assert (
        worst_correlation(predicted(training), training.S) > 0.3
    )  # the check fails without a bound


def test_a_bound_that_holds_anyway_needs_no_penalty(rng):
    model = solved(make_training(rng))
    assert model.penalty_for(1.0) == 0
    assert model.penalty_for(model.share(0.0) + 1e-9) == 0
    assert model.penalty_for(model.share(0.0) - 1e-9) > 0


def test_the_stricter_of_penalty_and_bound_holds(rng):
    training = make_training(rng)
    penalty = solved(training).penalty_for(0.1)
    for given, ruling in [(penalty / 2, penalty), (penalty * 2, penalty * 2)]:
        assert_allclose(
            predicted(training, penalty=given, unfairness=0.1),
            predicted(training, penalty=ruling),
            rtol=1e-12,
        )


def test_the_share_falls_as_the_penalty_rises(rng):
    model = solved(make_training(rng))
    shares = [model.share(penalty) for penalty in (0.0, *np.geomspace(1e-6, 1e6, num=30))]
    assert (np.diff(shares) < 0).all()
    assert shares[-1] < 1e-9
    penalties = [model.penalty_for(r) for r in (0.4, 0.1, 0.01, 1e-4, 0.0)]
    assert (np.diff(penalties) > 0).all()
    assert penalties[-1] == np.inf


def test_a_penalty_has_the_same_effect_for_any_number_of_rows(rng):
    training = make_training(rng)
    X, y, S = (np.concatenate([A] * 3) for A in (training.X, training.y, training.S))
    moments = training_moments(IdentityMap(4), X, S, y)
    thrice = SensitiveRidge.from_moments(moments, S, y, alpha=3 * ALPHA)
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
    (penalty,) = {solved(constant).penalty_for(r) for r in (0.0, 0.5, 1.0)}
    assert penalty == 0
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


def test_arguments_are_not_changed(rng):
    training = make_training(rng)
    for A in (training.X, training.y, training.S):
        A.flags.writeable = False
    predicted(training, penalty=0.1, unfairness=0.1)


@pytest.mark.parametrize("unfairness", [-0.1, 1.1, float("nan"), True, "0.1"])
def test_a_bound_outside_its_range_is_refused(rng, unfairness):
    with pytest.raises(ValueError, match=r"unfairness must lie in \[0, 1\]"):
        predicted(make_training(rng), unfairness=unfairness)


def test_a_negative_penalty_is_refused(rng):
    with pytest.raises(ValueError, match="penalty must not be negative, got -1"):
        predicted(make_training(rng), penalty=-1.0)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf")])
def test_a_ridge_of_0_is_refused(rng, alpha):
    with pytest.raises(ValueError, match="alpha must be a finite number above 0"):
        solved(make_training(rng), alpha=alpha)


def with_s(training):
    return np.hstack([training.X, training.S])


def with_constant(S):
    return np.hstack([np.ones((len(S), 1)), S])


def by_kernel_matrix(training, new, K, K_t, *, penalty, alpha):
    """Predictions of new rows in dual form: no features, residuals of the kernel's rows."""
    Z, n = with_constant(training.S), len(training.S)
    R = np.eye(n) - Z @ np.linalg.pinv(Z)  # what least squares on S leaves
    coef = np.linalg.solve(R @ K @ R + alpha * np.eye(n), R @ training.y)
    on_u = (K_t - with_constant(new.S) @ np.linalg.pinv(Z) @ K) @ R @ coef
    S = training.S - training.S.mean(axis=0)
    yc = training.y - training.y.mean()
    a = np.linalg.solve(S.T @ S + n * penalty * np.eye(S.shape[1]), S.T @ yc)
    return training.y.mean() + (new.S - training.S.mean(axis=0)) @ a + on_u


@pytest.mark.parametrize("penalty", [0.0, 0.1, 10.0])
def test_the_linear_form_is_the_dual_on_inner_products(rng, penalty):
    training, new = make_training(rng), make_training(rng, n=7)
    K, K_t = training.X @ training.X.T, new.X @ training.X.T
    expected = by_kernel_matrix(training, new, K, K_t, penalty=penalty, alpha=0.1)
    ours = fit_one("frrm", training, penalty=penalty, alpha=0.1)
    assert_allclose(ours.predict(with_s(new)), expected, rtol=1e-8)


@pytest.mark.parametrize("penalty", [0.0, 0.1, 10.0])
def test_the_kernel_form_is_the_dual_on_the_kernel(rng, penalty):
    training, new = make_training(rng), make_training(rng, n=7)
    K = rbf_kernel(training.X, gamma=0.7)
    K_t = rbf_kernel(new.X, training.X, gamma=0.7)
    expected = by_kernel_matrix(training, new, K, K_t, penalty=penalty, alpha=0.1)
    ours = fit_one("krr_frrm", training, penalty=penalty, gamma=0.7, alpha=0.1)
    assert_allclose(ours.predict(with_s(new)), expected, rtol=1e-7)


@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_a_reduced_map_is_the_linear_form_on_its_features(rng, kind):
    training, new = make_training(rng), make_training(rng, n=7)
    approximation = Approximation(kind, 20)
    feature_map = training.feature_map(KernelSettings(gamma=0.5, approximation=approximation))
    linear = Training(feature_map.transform(training.X), training.y, training.S, 0)
    expected = fit_one("frrm", linear, unfairness=0.1)
    common = {"gamma": 0.5, "approximation": approximation}
    ours = fit_one("krr_frrm", training, unfairness=0.1, **common)
    on_features = np.hstack([feature_map.transform(new.X), new.S])
    assert_allclose(ours.predict(with_s(new)), expected.predict(on_features), rtol=1e-7)


@BOTH
@pytest.mark.parametrize("unfairness", [0.05, 0.2])
def test_the_bound_holds_with_equality_over_the_training_rows(rng, name, unfairness):
    training = make_training(rng, n=200)

    def share(f):
        S = training.S - training.S.mean(axis=0)
        return np.var(S @ np.linalg.lstsq(S, f - f.mean(), rcond=None)[0]) / np.var(f)

    fair = fit_one(name, training, unfairness=unfairness).predict(with_s(training))
    assert_allclose(share(fair), unfairness, rtol=0, atol=1e-8)
    assert (
        share(fit_one(name, training).predict(with_s(training))) > 0.4
    )  # the check fails without a bound


@BOTH
def test_a_bound_of_0_in_a_method_leaves_no_correlation(rng, name):
    training = make_training(rng, n=200)
    fair = fit_one(name, training, unfairness=0.0).predict(with_s(training))
    assert worst_correlation(fair, training.S) < 1e-8
    assert worst_correlation(fit_one(name, training).predict(with_s(training)), training.S) > 0.3


def test_no_constraint_is_ridge_regression_beside_free_sensitive_columns(rng):
    training = make_training(rng)
    Z = with_constant(training.S)
    residuals = training.X - Z @ np.linalg.lstsq(Z, training.X, rcond=None)[0]
    on_s = Z @ np.linalg.lstsq(Z, training.y, rcond=None)[0]
    on_u = Ridge(alpha=0.25).fit(residuals, training.y)
    expected = on_s + on_u.predict(residuals) - training.y.mean()
    assert_allclose(fit_one("frrm", training).predict(with_s(training)), expected, rtol=1e-9)


@BOTH
def test_prediction_needs_s(rng, name):
    assert method(name).needs_sensitive
    training = make_training(rng)
    f = fit_one(name, training, unfairness=0.0)
    other = np.hstack([training.X, training.S + 0.5])
    assert np.abs(f.predict(other) - f.predict(with_s(training))).max() > 0.01


@BOTH
def test_an_intercept_is_fitted_by_default(rng, name):
    training = make_training(rng)
    high = Training(training.X, training.y + 50.0, training.S, 0)
    declared = method(name)
    settings = declared.settings("crimes", {}, None)
    for low_f, high_f in zip(
        declared.fit(training, settings), declared.fit(high, settings), strict=True
    ):
        low, moved = low_f.predict(with_s(training)), high_f.predict(with_s(training))
        assert_allclose(moved - low, 50.0, atol=1e-7)
        assert_allclose(low.mean(), training.y.mean(), atol=1e-9)


@BOTH
def test_a_setting_does_not_depend_on_the_others(rng, name):
    training = make_training(rng)
    declared = method(name)
    settings = [
        declared.parameters(penalty=penalty, unfairness=r, alpha=alpha)
        for alpha in (0.1, 1.0)
        for penalty in (0.0, 0.1)
        for r in (1.0, 0.1)
    ]
    together = [f.predict(with_s(training)) for f in declared.fit(training, settings)]
    alone = [next(iter(declared.fit(training, [p]))).predict(with_s(training)) for p in settings]
    assert_array_equal(together, alone)


@BOTH
def test_a_predictor_is_restored_from_its_arrays(rng, name):
    training = make_training(rng)
    f = fit_one(name, training, unfairness=0.1)
    again = SensitiveExpansion.from_arrays(f.arrays())
    assert_array_equal(again.predict(with_s(training)), f.predict(with_s(training)))


@BOTH
def test_a_bound_without_a_penalty_counts_as_removal(name):
    declared = method(name)
    assert declared.removes_nothing(declared.parameters())
    assert not declared.removes_nothing(declared.parameters(unfairness=0.5))
    assert not declared.removes_nothing(declared.parameters(penalty=0.1))


def test_a_setting_without_removal_has_neither_penalty_nor_bound():
    declared = method("krr_frrm")
    setting = declared.parameters(penalty=0.1, unfairness=0.5, gamma=0.7, alpha=2.0)
    expected = declared.parameters(gamma=0.7, alpha=2.0)
    assert declared.without_removal(setting) == expected


def test_sums_over_blocks_of_rows_suffice(rng):
    training, new = make_training(rng), make_training(rng, n=7)
    kernel = KernelSettings(gamma=0.5, approximation=Approximation("nystroem", 20))
    feature_map = training.feature_map(kernel)
    halves = [
        training_moments(feature_map, training.X[part], training.S[part], training.y[part])
        for part in (slice(25), slice(25, None))
    ]
    sums = RunningSums(feature_map, None, np.zeros(1), *[halves[0] + halves[1]] * 2, None)
    summed = Training(np.empty((0, 4)), training.y, training.S, shared=sums)
    common = {"gamma": 0.5, "unfairness": 0.1}
    shared = Approximation("nystroem", 20, shared=True)
    ours = fit_one("krr_frrm", summed, approximation=shared, **common)
    own = fit_one("krr_frrm", training, approximation=Approximation("nystroem", 20), **common)
    assert_allclose(ours.predict(with_s(new)), own.predict(with_s(new)), rtol=1e-9)


def on_crimes():
    columns = read_crimes()
    X = np.column_stack([columns[name] for name in PREDICTORS if name != "racepctblack"])
    return Training(X, columns[CRIMES.target], columns["racepctblack"][:, None], 0)


@BOTH
def test_the_default_grid_ends_with_hardly_any_dependence(name):
    training, declared = on_crimes(), method(name)
    fixed = {"approximation": Approximation("nystroem", 200)} if name == "krr_frrm" else {}
    settings = declared.settings("crimes", fixed, None)
    assert settings[0].penalty == 0
    found = []
    for f in declared.fit(training, settings):
        y = f.predict(with_s(training))
        found.append(np.corrcoef(y, training.S[:, 0])[0, 1] ** 2)
    assert (np.diff(found) < 0).all()
    assert found[0] > 0.4
    assert found[-1] < 1e-4
    # No step is so wide that most of the way lies within it.
    assert np.diff(found).min() > -0.2

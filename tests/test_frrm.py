"""The fair ridge regression model as methods, linear and in the features of a kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from training_sample import fit_one, make_training, worst_correlation

from configs.errors import UserError
from configs.load import load_config, parse_config
from fkd.core.feature_maps import KernelSettings
from fkd.core.moments import training_moments
from fkd.core.predictors import SensitiveExpansion
from fkd.core.training import RunningSums
from fkd.datasets import read_crimes
from fkd.methods import Approximation, Training, method
from fkd.problems.bundle import Bundle
from fkd.problems.crimes import CRIMES, PREDICTORS
from tasks.study.champion import select_champion
from tasks.study.evaluate import run_job
from tasks.study.opening import open_study

BOUNDED = (
    "folds.k=3",
    "select={inner_folds: 2, subject_to: {gdp: 0.03}}",
    "methods=[{name: frrm, grid: {unfairness: [0.05, 1]}}]",
)
BOTH = pytest.mark.parametrize("name", ["frrm", "krr_frrm"])


def rows(training):
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
    assert_allclose(ours.predict(rows(new)), expected, rtol=1e-8)


@pytest.mark.parametrize("penalty", [0.0, 0.1, 10.0])
def test_the_kernel_form_is_the_dual_on_the_kernel(rng, penalty):
    training, new = make_training(rng), make_training(rng, n=7)
    K = rbf_kernel(training.X, gamma=0.7)
    K_t = rbf_kernel(new.X, training.X, gamma=0.7)
    expected = by_kernel_matrix(training, new, K, K_t, penalty=penalty, alpha=0.1)
    ours = fit_one("krr_frrm", training, penalty=penalty, gamma=0.7, alpha=0.1)
    assert_allclose(ours.predict(rows(new)), expected, rtol=1e-7)


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
    assert_allclose(ours.predict(rows(new)), expected.predict(on_features), rtol=1e-7)


@BOTH
@pytest.mark.parametrize("unfairness", [0.05, 0.2])
def test_the_bound_holds_over_the_training_rows_and_is_used_up(rng, name, unfairness):
    training = make_training(rng, n=200)

    def share(f):
        S = training.S - training.S.mean(axis=0)
        return np.var(S @ np.linalg.lstsq(S, f - f.mean(), rcond=None)[0]) / np.var(f)

    fair = fit_one(name, training, unfairness=unfairness).predict(rows(training))
    assert_allclose(share(fair), unfairness, rtol=0, atol=1e-8)
    assert share(fit_one(name, training).predict(rows(training))) > 0.4  # the check would bite


@BOTH
def test_a_bound_of_zero_leaves_no_correlation(rng, name):
    training = make_training(rng, n=200)
    fair = fit_one(name, training, unfairness=0.0).predict(rows(training))
    assert worst_correlation(fair, training.S) < 1e-8
    assert worst_correlation(fit_one(name, training).predict(rows(training)), training.S) > 0.3


def test_no_constraint_is_ridge_regression_beside_free_sensitive_columns(rng):
    training = make_training(rng)
    Z = with_constant(training.S)
    residuals = training.X - Z @ np.linalg.lstsq(Z, training.X, rcond=None)[0]
    on_s = Z @ np.linalg.lstsq(Z, training.y, rcond=None)[0]
    on_u = Ridge(alpha=0.25).fit(residuals, training.y)
    expected = on_s + on_u.predict(residuals) - training.y.mean()
    assert_allclose(fit_one("frrm", training).predict(rows(training)), expected, rtol=1e-9)


@BOTH
def test_it_declares_that_predicting_needs_s_because_it_does(rng, name):
    assert method(name).needs_sensitive
    training = make_training(rng)
    f = fit_one(name, training, unfairness=0.0)
    other = np.hstack([training.X, training.S + 0.5])
    assert np.abs(f.predict(other) - f.predict(rows(training))).max() > 0.01


@BOTH
def test_the_level_of_the_target_is_met_by_a_bare_name_on_the_papers_problems(rng, name):
    training = make_training(rng)
    high = Training(training.X, training.y + 50.0, training.S, 0)
    declared = method(name)
    settings = declared.settings("crimes", {}, None)
    for low_f, high_f in zip(
        declared.fit(training, settings), declared.fit(high, settings), strict=True
    ):
        low, moved = low_f.predict(rows(training)), high_f.predict(rows(training))
        assert_allclose(moved - low, 50.0, atol=1e-7)
        assert_allclose(low.mean(), training.y.mean(), atol=1e-9)


@BOTH
def test_a_setting_does_not_depend_on_its_neighbours(rng, name):
    training = make_training(rng)
    declared = method(name)
    settings = [
        declared.parameters(penalty=penalty, unfairness=r, alpha=alpha)
        for alpha in (0.1, 1.0)
        for penalty in (0.0, 0.1)
        for r in (1.0, 0.1)
    ]
    together = [f.predict(rows(training)) for f in declared.fit(training, settings)]
    alone = [next(iter(declared.fit(training, [p]))).predict(rows(training)) for p in settings]
    assert_array_equal(together, alone)


@BOTH
def test_what_ships_predicts_from_its_arrays(rng, name):
    training = make_training(rng)
    f = fit_one(name, training, unfairness=0.1)
    again = SensitiveExpansion.from_arrays(f.arrays())
    assert_array_equal(again.predict(rows(training)), f.predict(rows(training)))


@BOTH
def test_a_bound_makes_a_model_without_a_price_a_fair_one(name):
    declared = method(name)
    assert declared.removes_nothing(declared.parameters())
    assert not declared.removes_nothing(declared.parameters(unfairness=0.5))
    assert not declared.removes_nothing(declared.parameters(penalty=0.1))


def test_what_removes_nothing_of_a_setting_has_neither_price_nor_bound():
    declared = method("krr_frrm")
    setting = declared.parameters(penalty=0.1, unfairness=0.5, gamma=0.7, alpha=2.0)
    expected = declared.parameters(gamma=0.7, alpha=2.0)
    assert declared.without_removal(setting) == expected


def test_a_champion_under_a_bound_is_compared_with_the_unbound_one_and_asks_for_s(settings):
    study = open_study(load_config("default", BOUNDED), settings)
    for job in study.missing():
        run_job(job)
    champion = select_champion(study)
    fair, plain = (
        next(r for r in study.results() if r.trial.parameters["unfairness"] == bound)
        for bound in (0.05, 1.0)
    )
    assert champion.trial == fair.trial
    reference, held_out = champion.judgement.reference, champion.judgement.held_out
    assert reference.mae[0] == pytest.approx(plain.records[0].measures["racepctblack"]["mae"])
    assert reference.mae[0] < held_out.mae[0] - 0.01
    bundle = champion.bundle
    assert bundle.sensitive == ("racepctblack",)
    frame = champion.example
    again = Bundle.from_arrays(bundle.arrays()).predict(frame)
    assert_array_equal(again, bundle.predict(frame))
    moved = bundle.predict(frame.assign(racepctblack=frame["racepctblack"] + 0.1))
    assert np.abs(moved - again).max() > 0.001


def config(entry):
    return parse_config({"data": {"problem": "crimes"}, "methods": [entry]}, "mine.yaml")


@BOTH
def test_a_configuration_may_name_bounds_instead_of_prices(name):
    grid = config({"name": name, "grid": {"unfairness": [0.0, 0.05, 1.0]}})
    found = grid.methods[0].settings("crimes")
    assert [(p.penalty, p.unfairness) for p in found] == [(0.0, 0.0), (0.0, 0.05), (0.0, 1.0)]


@BOTH
@pytest.mark.parametrize("unfairness", [-0.1, 1.5])
def test_a_bound_outside_its_range_is_refused_before_any_work(name, unfairness):
    with pytest.raises(UserError, match="unfairness"):
        config({"name": name, "unfairness": unfairness})


def test_moments_that_were_summed_over_blocks_are_enough(rng):
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
    assert_allclose(ours.predict(rows(new)), own.predict(rows(new)), rtol=1e-9)


def on_crimes():
    columns = read_crimes()
    X = np.column_stack([columns[name] for name in PREDICTORS if name != "racepctblack"])
    return Training(X, columns[CRIMES.target], columns["racepctblack"][:, None], 0)


@BOTH
def test_the_grid_ends_where_next_to_nothing_of_s_is_left(name):
    training, declared = on_crimes(), method(name)
    fixed = {"approximation": Approximation("nystroem", 200)} if name == "krr_frrm" else {}
    settings = declared.settings("crimes", fixed, None)
    assert settings[0].penalty == 0
    found = []
    for f in declared.fit(training, settings):
        y = f.predict(rows(training))
        found.append(np.corrcoef(y, training.S[:, 0])[0, 1] ** 2)
    assert (np.diff(found) < 0).all()
    assert found[0] > 0.4
    assert found[-1] < 1e-4
    # No step is so wide that most of the way lies within it.
    assert np.diff(found).min() > -0.2

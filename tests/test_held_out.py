"""What a fit says of itself after a trial on rows that it held out."""

import warnings

import numpy as np
import pytest
from estimator_sample import MACHINES, people, target
from numpy.testing import assert_array_equal

from fkd import (
    FairKernelDecomposition,
    FairKernelRidge,
    FairnessWarning,
    FairSVC,
    FairSVR,
    one_hot,
)
from fkd.estimators.held_out import dependence, judge_scores


@pytest.mark.parametrize("machine", [*MACHINES, FairKernelDecomposition])
def test_a_fair_fit_says_nothing(rng, machine):
    X, y, s = people(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = machine().fit(X, target(machine, y), sensitive_features=s)
    assert model.held_out_.rows == 180
    assert model.held_out_.dependence_before > 0.7
    assert model.held_out_.dependence_after < 0.3


@pytest.mark.parametrize("machine", [*MACHINES, FairKernelDecomposition])
def test_an_attribute_that_nothing_leans_on_needs_no_removal(rng, machine):
    X, y, _ = people(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine().fit(X, target(machine, y), sensitive_features=rng.uniform(size=900))


@pytest.mark.parametrize("machine", [*MACHINES, FairKernelDecomposition])
def test_dependence_that_stays_is_told(rng, machine):
    X, y, s = people(rng)
    weak = {"ridge": 1e-3, "iterations": 1}  # one direction, which is mostly noise
    with pytest.warns(FairnessWarning, match="dependence on the sensitive features did not"):
        machine(**weak).fit(X, target(machine, y), sensitive_features=s)


def test_a_model_worse_than_a_constant_is_told(rng):
    X, y, s = people(rng)
    with pytest.warns(FairnessWarning, match="worse than a constant on 180 held-out rows"):
        FairKernelRidge(fit_intercept=False, alpha=100.0).fit(X, 50 + y, sensitive_features=s)


@pytest.mark.parametrize("n", [12, 60, 900])
@pytest.mark.parametrize("machine", [FairKernelRidge, FairSVR, FairSVC])
def test_a_collapse_to_a_constant_is_told(rng, machine, n):
    X, y, s = people(rng, n=n)
    weak = {"alpha": 1e9} if machine is FairKernelRidge else {"C": 1e-9}
    y = y > np.sort(y)[-3] if machine is FairSVC else y
    with pytest.warns(FairnessWarning, match="collapsed to nearly a constant: .* (alpha|C)"):
        machine(**weak).fit(X, y, sensitive_features=s)


@pytest.mark.filterwarnings("ignore:the model has collapsed:fkd.FairnessWarning")
def test_a_path_that_ends_early_is_told(rng):
    X, y, s = people(rng, n=60)
    sentence = "ended after 5 of 9 iterations"
    with pytest.warns(FairnessWarning, match=sentence):
        FairKernelRidge("linear", iterations=9).fit(X, y, sensitive_features=s)


def test_a_column_of_which_more_is_left_than_there_was_is_told(rng):
    a, b = rng.uniform(size=(2, 1000))
    X = np.column_stack(
        [a + 0.05 * rng.normal(size=1000), 2 * np.abs(b - 0.5), rng.normal(size=1000)]
    )
    y = 4 * a + 3 * X[:, 1] + 0.3 * X[:, 2]
    # The removal finds the first column; the second depends on its input by its distance.
    with pytest.warns(FairnessWarning, match="dependence on the sensitive features (rose|did)"):
        FairKernelRidge().fit(X, y, sensitive_features=np.column_stack([a, b]))


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3, 0.5])
@pytest.mark.parametrize("flip", [False, True])
def test_a_group_is_seen_whichever_code_it_has(rng, share, flip):
    s = (rng.uniform(size=400) < share).astype(float)
    X = np.column_stack([s + 0.3 * rng.normal(size=400), rng.normal(size=(400, 2))])
    y = 3 * s + X[:, 1]
    with pytest.warns(FairnessWarning, match="did not fall on 80 held-out rows"):
        FairKernelRidge(ridge=1e-6).fit(X, y, sensitive_features=1 - s if flip else s)


def test_a_removal_that_makes_dependence_is_told(rng):
    t, s = rng.normal(size=(2, 1500))
    X = np.column_stack([s + t, t, rng.normal(size=(1500, 2))])
    with pytest.warns(FairnessWarning, match="dependence on the sensitive features rose"):
        FairKernelRidge("linear", iterations=1).fit(X, t, sensitive_features=s)


def test_advice_is_not_what_was_done_already(rng):
    X, y, s = people(rng)
    with pytest.warns(FairnessWarning, match="a larger ridge$"):
        FairKernelRidge(ridge=1e-3, iterations=1).fit(X, y, sensitive_features=s)


def test_the_warning_points_at_the_user(rng):
    X, y, s = people(rng, n=60)
    with pytest.warns(FairnessWarning) as found:
        FairKernelRidge(alpha=1e9).fit(X, y, sensitive_features=s)
    assert found[0].filename == __file__


def test_the_trial_changes_no_bit_of_the_fit(rng):
    X, y, s = people(rng, n=300)
    seeded = {"approximation": "nystroem", "landmarks": 290}
    models = [
        FairKernelRidge(**seeded, random_state=np.random.RandomState(3), held_out=share)
        for share in (0.0, 0.3)
    ]
    one, other = (m.fit(X, y, sensitive_features=s).predict(X) for m in models)
    assert_array_equal(one, other)
    assert models[0].held_out_ is None


def test_few_rows_are_not_judged(rng):
    X, y, s = people(rng, n=99)
    assert FairKernelRidge().fit(X, y, sensitive_features=s).held_out_ is None


def test_a_precomputed_kernel_is_cut_both_ways(rng):
    X, y, s = people(rng, n=300)
    K = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))
    by_matrix = FairKernelRidge("precomputed").fit(K, y, sensitive_features=s).held_out_
    by_rows = FairKernelRidge(gamma=0.2).fit(X, y, sensitive_features=s).held_out_
    assert by_matrix.dependence_after == pytest.approx(by_rows.dependence_after, abs=1e-6)


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan])
def test_a_share_that_is_none_is_refused(rng, share):
    X, y, s = people(rng, n=300)
    with pytest.raises(ValueError, match="held_out must"):
        FairKernelRidge(held_out=share).fit(X, y, sensitive_features=s)


@pytest.mark.parametrize("ridge", [1.0, 10.0])
def test_a_trial_on_some_rows_tells_of_the_fit_to_all(rng, ridge):
    X, y, s = people(rng, n=9000)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    fit = slice(0, 8000)
    setting = {"approximation": "nystroem", "landmarks": 100, "random_state": 0, "ridge": ridge}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model = FairKernelRidge(**setting).fit(X[fit], y[fit], sensitive_features=s[fit])
    fresh = dependence(model.predict(X[8000:]), s[8000:])[0]
    # A ridge counts against all rows: on a fifth of them it would seem to remove far more.
    assert abs(model.held_out_.dependence_after - fresh) < 0.15


def test_a_second_column_is_told_though_more_is_left_of_the_first(rng):
    a, b = rng.normal(size=(2, 1200))
    X = np.column_stack([a + 0.1 * rng.normal(size=1200), np.abs(b), rng.normal(size=1200)])
    y = 6 * a + 2 * X[:, 1]
    model = FairKernelRidge(iterations=1, ridge=3.0)
    with pytest.warns(FairnessWarning, match="dependence on the sensitive features"):
        model.fit(X, y, sensitive_features=np.column_stack([a, b]))


def test_many_independent_columns_give_no_false_alarm(rng):
    told = 0
    for _ in range(25):
        X, y, _ = people(rng, n=150)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", FairnessWarning)
            FairKernelRidge(iterations=1).fit(X, y, sensitive_features=rng.normal(size=(150, 20)))
        told += any("dependence" in str(w.message) for w in found)
    assert told <= 2


def test_a_rare_level_does_not_silence_the_trial(rng):
    X, y, s = people(rng)
    levels = np.where(s > 0.5, "old", "young").astype(object)
    levels[:2] = "rare"
    model = FairKernelRidge().fit(X, y, sensitive_features=one_hot(levels))
    assert model.held_out_ is not None


def test_a_constant_target_is_not_worse_than_itself(rng):
    X, _, s = people(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FairKernelRidge().fit(X, np.full(900, 0.3), sensitive_features=s)


def test_the_warning_of_a_wrapped_method_points_at_the_user_too(rng):
    X, _, s = people(rng, n=60)
    with pytest.warns(FairnessWarning, match="ended after") as found:
        FairKernelDecomposition("linear", iterations=9).fit_transform(X, sensitive_features=s)
    assert found[0].filename == __file__


def test_a_path_is_not_tried_by_a_ridge_that_nobody_asked_for(rng):
    X, y, s = people(rng, n=300)
    setting = {"sensitive_features": s, "iterations": [3]}
    found = FairKernelRidge(alpha=-1).fit_path(X, y, alphas=[1.0], **setting)
    assert list(found) == [(3, 1.0)]
    with pytest.raises(ValueError, match="alphas must have at least one value"):
        FairKernelRidge().fit_path(X, y, alphas=[], **setting)


def test_the_column_to_be_told_of_goes_before_the_one_of_which_more_is_left(rng):
    a, b, noise = rng.normal(size=(3, 2000))
    S = np.column_stack([a, b])
    before = (6 * a + 2.6 * b + noise)[:, None]
    after = (a + 0.8 * b + 1.85 * noise)[:, None]
    # The first column fell from .91 to .44, more than half; the second from .39 to .35.
    found = judge_scores(before, after, S, (np.zeros(2000), np.zeros(2000)))
    assert (found.dependence_before, found.dependence_after) == pytest.approx(
        (0.39, 0.35), abs=0.05
    )
    with pytest.warns(FairnessWarning, match="fell by less than half on 2000|did not fall"):
        found.warn("after 5 iterations", "more iterations, a larger ridge")
    alone = judge_scores(before, after, S[:, :1], (np.zeros(2000), np.zeros(2000)))
    assert alone.dependence_after > found.dependence_after

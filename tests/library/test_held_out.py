"""The trial on held-out rows: dependence that is left, models worse than a constant."""

import warnings

import mpmath
import numpy as np
import pandas as pd
import pytest
import sklearn
from estimator_sample import MACHINES, REGRESSORS, people, target
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import r2_score
from sklearn.svm import SVC, SVR

from fkd import (
    FairGaussianProcess,
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
    with pytest.warns(FairnessWarning, match="dependence on the sensitive features hardly fell"):
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
    with pytest.warns(FairnessWarning, match="hardly fell on 80 held-out rows"):
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
    fresh = dependence(model.predict(X[8000:]), s[8000:], 1.0)[0]
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
    with pytest.raises(ValueError, match="alphas must be a list or array"):
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
    with pytest.warns(FairnessWarning, match="fell by less than half on 2000|hardly fell"):
        found.warn("after 5 iterations", "more iterations, a larger ridge")
    alone = judge_scores(before, after, S[:, :1], (np.zeros(2000), np.zeros(2000)))
    assert alone.dependence_after > found.dependence_after


# One attribute in five units: a share, an age, a year of birth, with two offsets that cost digits.
UNITS = {
    "share": (1.0, 0.0),
    "age": (80.0, 15.0),
    "year": (-80.0, 2011.0),
    "tiny": (1e-6, 0.0),
    "far": (1.0, 1e6),
}


def score(model, X):
    return model.decision_function(X) if isinstance(model, FairSVC) else model.predict(X)


def leaning(model, X, s):
    """Return |correlation| of what a model says of rows with their s."""
    return abs(np.corrcoef(score(model, X), s)[0, 1])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("machine", MACHINES)
def test_default_flags_remove_in_any_unit_of_the_attribute(rng, machine, unit):
    X, y, s = people(rng)
    y = target(machine, y)
    scale, offset = UNITS[unit]
    train, test = slice(0, 600), slice(600, None)
    plain = machine(iterations=0).fit(X[train], y[train], sensitive_features=s[train])
    fair = machine().fit(X[train], y[train], sensitive_features=offset + scale * s[train])
    assert leaning(plain, X[test], s[test]) > 0.7
    assert leaning(fair, X[test], s[test]) < 0.15


@pytest.mark.parametrize("unit", ["age", "year", "tiny", "far"])
@pytest.mark.parametrize("machine", MACHINES)
def test_unit_and_offset_of_the_attribute_change_nothing(rng, machine, unit):
    X, y, s = people(rng, n=300)
    y = target(machine, y)
    scale, offset = UNITS[unit]
    tight = {"tol": 1e-9} if machine in (FairSVR, FairSVC) else {}
    one, other = (
        score(machine(gamma=0.5, **tight).fit(X, y, sensitive_features=S), X)
        for S in (s, offset + scale * s)
    )
    assert_allclose(other, one, atol=1e-6)  # an offset of a million leaves ten digits of s


def test_the_transformer_sees_neither_unit_nor_offset(rng):
    X, _, s = people(rng, n=200)
    one, other = (
        FairKernelDecomposition(gamma=0.5).fit_transform(X, sensitive_features=S)
        for S in (s, 2011 - 80 * s)
    )
    assert_allclose(other, one, atol=1e-10)


def test_the_published_form_depends_on_the_offset_and_is_told(rng):
    X, y, s = people(rng)
    published = FairKernelRidge(center_sensitive=False, iterations=2)
    with pytest.warns(FairnessWarning, match="dependence .* hardly fell on 180 held-out rows"):
        published.fit(X, y, sensitive_features=2011 - 80 * s)
    assert published.held_out_.dependence_after > 0.6


@pytest.mark.parametrize("machine", REGRESSORS)
@pytest.mark.parametrize("level", [5.0, 5e3])
def test_a_target_far_from_zero_is_met(rng, machine, level):
    X, y, s = people(rng)
    model = machine().fit(X[:600], level + y[:600], sensitive_features=s[:600])
    assert r2_score(level + y[600:], model.predict(X[600:])) > 0.05


@pytest.mark.parametrize("machine", REGRESSORS)
def test_rents_are_predicted_better_than_by_a_constant(rng, machine):
    X, y, s = people(rng)
    rent = 400 + 900 * np.exp(0.3 * y)
    regularised = {"C": 1000.0} if machine is FairSVR else {}
    model = machine(**regularised).fit(X[:600], rent[:600], sensitive_features=s[:600])
    error = np.abs(model.predict(X[600:]) - rent[600:]).mean()
    assert error < 0.97 * np.abs(rent[600:] - np.median(rent[:600])).mean()


@pytest.mark.parametrize("machine", REGRESSORS)
def test_an_offset_of_the_target_costs_no_digits(rng, machine):
    X, y, s = people(rng, n=300)
    # Numbers of this size are 1.5e-8 apart.
    low, high = (machine().fit(X, y + c, sensitive_features=s).predict(X) - c for c in (0.0, 1e8))
    assert_allclose(high, low, atol=2e-3 if machine is FairSVR else 6e-8)


def gaussian(rng, n):
    """Standardised inputs of which three lean on s, a target that leans on all of them."""
    s = rng.normal(size=n)
    X = rng.normal(size=(n, 4))
    X[:, :3] += 0.8 * s[:, None]
    return (X - X.mean(axis=0)) / X.std(axis=0), X.sum(axis=1) + 0.5 * rng.normal(size=n), s


def wide(rng, n):
    """Twenty inputs of which five lean on s."""
    s = rng.normal(size=n)
    X = rng.normal(size=(n, 20))
    X[:, :5] += 0.8 * s[:, None]
    return X, X[:, :10].sum(axis=1) + 0.5 * rng.normal(size=n), s


@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier"])
@pytest.mark.parametrize("n", [400, 1000, 2000])
@pytest.mark.parametrize("rows", [people, gaussian, wide])
def test_the_default_ridge_suits_any_number_and_scale_of_inputs(rng, rows, n, approximation):
    X, y, s = rows(rng, n + 1500)
    setting = {"approximation": approximation, "landmarks": 300, "random_state": 0}
    plain, fair = (
        FairKernelRidge(iterations=m, held_out=0, **setting).fit(
            X[:n], y[:n], sensitive_features=s[:n]
        )
        for m in (0, 10)
    )
    assert leaning(plain, X[n:], s[n:]) > 0.65
    assert leaning(fair, X[n:], s[n:]) < 0.3
    # Fair is not empty: what does not lean on s is still predicted.
    assert r2_score(y[n:], fair.predict(X[n:])) > 0.05


@pytest.mark.parametrize("machine", [*MACHINES, FairKernelDecomposition])
@pytest.mark.parametrize("kind", ["datetime64[D]", "timedelta64[D]"])
def test_dates_are_refused_with_their_missing_ones(rng, machine, kind):
    X, y, _ = people(rng, n=60)
    dates = np.arange(60).astype(kind)
    dates[3] = "NaT"
    with pytest.raises(ValueError, match=r"sensitive_features must hold numbers, got .*days"):
        machine().fit(X, target(machine, y), sensitive_features=dates)
    frame = pd.DataFrame({"a": X[:, 0], "born": dates})
    with pytest.raises(ValueError, match="X column 'born' must hold numbers, got"):
        machine().fit(frame, target(machine, y), sensitive_features=X[:, 1])
    masked = np.ma.masked_less(X[:, 0], np.median(X[:, 0]))
    with pytest.raises(ValueError, match="sensitive_features must not be masked"):
        machine().fit(X, target(machine, y), sensitive_features=masked)


@pytest.mark.parametrize("machine", [*MACHINES, FairKernelDecomposition])
@pytest.mark.parametrize("word", ["False", "no", 0, None])
def test_a_word_for_a_truth_value_is_refused(rng, machine, word):
    X, y, s = people(rng, n=60)
    with pytest.raises(ValueError, match="center_sensitive must be True or False, got"):
        machine(center_sensitive=word).fit(X, target(machine, y), sensitive_features=s)


@pytest.mark.parametrize(
    ("machine", "name"), [(FairKernelRidge, "fit_intercept"), (FairGaussianProcess, "normalize_y")]
)
def test_a_word_for_a_machine_s_truth_value_is_refused(rng, machine, name):
    X, y, s = people(rng, n=60)
    with pytest.raises(ValueError, match=f"{name} must be True or False, got 'False'"):
        machine(**{name: "False"}).fit(X, y, sensitive_features=s)


def test_inputs_as_features_are_refused_for_a_curved_kernel(rng):
    X, y, s = people(rng, n=60)
    with pytest.raises(ValueError, match=r"approximation='identity' .*got kernel='rbf'"):
        FairKernelRidge(approximation="identity").fit(X, y, sensitive_features=s)
    FairKernelRidge("linear", approximation="identity", iterations=1).fit(
        X, y, sensitive_features=s
    )


@pytest.mark.parametrize("machine", [FairSVR, FairSVC])
def test_a_solver_that_cannot_finish_says_so(rng, machine):
    X = rng.normal(size=(120, 3))
    y = 1000 * (X[:, 0] + rng.normal(size=120))
    y = y > 0 if machine is FairSVC else y
    model = machine("polynomial", gamma=10.0, C=1e6, iterations=1, max_iter=2000, held_out=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=2000"):
        model.fit(X, y, sensitive_features=X[:, 1])
    assert model.n_iter_ == 2000
    assert np.isfinite(score(model, X)).all()
    assert 0 < machine().max_iter < 10**7  # never without an end
    loose, tight = (
        machine(tol=tol, iterations=1, held_out=0).fit(X, X[:, 0] > 0, sensitive_features=X[:, 1])
        for tol in (0.5, 1e-6)
    )
    assert loose.n_iter_ < tight.n_iter_


@pytest.mark.parametrize("machine", MACHINES)
def test_a_kernel_matrix_in_single_precision_is_as_good(rng, machine):
    X, y, s = people(rng, n=300)
    y = target(machine, y)
    K = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))
    settings = {"kernel": "precomputed", "iterations": 3}
    double = machine(**settings).fit(K, y, sensitive_features=s)
    single = machine(**settings).fit(K.astype(np.float32), y, sensitive_features=s)
    assert_allclose(score(single, K), score(double, K), atol=0.02)


def test_a_kernel_function_in_single_precision_is_as_good(rng):
    X, y, s = people(rng, n=300)

    def kernel(A, B):
        A, B = A.astype(np.float32), B.astype(np.float32)
        return np.exp(np.float32(-0.2) * ((A[:, None] - B) ** 2).sum(axis=2))

    single = FairKernelRidge(kernel, iterations=3).fit(X, y, sensitive_features=s)
    double = FairKernelRidge(gamma=0.2, iterations=3).fit(X, y, sensitive_features=s)
    assert_allclose(single.predict(X), double.predict(X), atol=0.02)


@pytest.mark.parametrize("distance", [1e6, 1e9])
@pytest.mark.parametrize("machine", MACHINES)
def test_groups_of_rows_far_apart_are_each_fitted(rng, machine, distance):
    X, y, s = people(rng, n=400)
    group = np.arange(400) % 2
    far = X + distance * group[:, None]
    y = target(machine, y)
    model = machine(gamma=0.5, iterations=4).fit(far, y, sensitive_features=s)
    # Within a group nothing but rounding of the inputs has changed.
    alone = [
        machine(gamma=0.5, iterations=4, held_out=0).fit(
            far[group == g], y[group == g], sensitive_features=s[group == g]
        )
        for g in (0, 1)
    ]
    assert np.isfinite(score(model, far)).all()
    for g in (0, 1):
        rows = group == g
        together, apart = score(model, far[rows]), score(alone[g], far[rows])
        assert np.corrcoef(together, apart)[0, 1] > 0.8


@pytest.mark.parametrize("machine", REGRESSORS)
def test_no_prediction_is_ever_nan(rng, machine):
    X, y, s = people(rng, n=60)
    model = machine("polynomial", gamma=1.0, iterations=1).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="must be finite, got NaN or infinity"):
        model.predict(np.full((2, 5), 1e140))


def test_predictions_that_overflow_are_refused(rng):
    X, y, s = people(rng, n=60)
    steep = FairKernelRidge("linear", alpha=1e-125, ridge=1e-125, iterations=1)
    steep.fit(1e-60 * X, 1e100 * y, sensitive_features=s)
    assert np.isfinite(steep.predict(1e-60 * X)).all()
    with pytest.raises(ValueError, match="predictions must be finite, got NaN or infinity"):
        steep.predict(np.full((2, 5), 1e150))


def exact_inlp(X, s, ridge):
    """Return the rows after one step of linear removal, in fifty digits."""
    with mpmath.workdps(50):
        A, b = mpmath.matrix(X.tolist()), mpmath.matrix((s - s.mean()).tolist())
        w = mpmath.lu_solve(A.T * A + ridge * mpmath.eye(X.shape[1]), A.T * b)
        left = A - (A * w) * w.T / (w.T * w)[0]
        return np.array(left.tolist(), dtype=np.float64)


def one_loud_input(rng, size, n=120):
    """Inputs of which the attribute is by far the largest, what is left of them, the removal."""
    s = rng.normal(size=n)
    X = np.column_stack([size * s, rng.normal(size=(n, 2))])
    # So heavy a ridge removes the direction of XᵀS, which is nearly that of the loud input.
    ridge = 100 * n * size**2
    setting = {"kernel": "linear", "iterations": 1, "ridge": ridge, "held_out": 0}
    return X, s, exact_inlp(X, s, ridge), setting


@pytest.mark.parametrize("approximation", ["exact", "identity"])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e5])
def test_what_little_is_left_of_a_kernel_is_exact(rng, size, approximation):
    X, s, X_m, setting = one_loud_input(rng, size)
    fair = FairKernelDecomposition(**setting, approximation=approximation)
    K = fair.fit_transform(X, sensitive_features=s)
    # The exact map factors K itself, whose entries are rounded at size² eps.
    atol = 1e-9 + 1e-14 * size**2 if approximation == "exact" else 1e-9
    assert_allclose(K, X_m @ X_m.T, atol=atol)
    assert_allclose(fair.transform(X), K, atol=atol)
    assert_allclose(fair.diag(X), K.diagonal(), atol=atol)
    assert np.linalg.eigvalsh(K)[0] > -1e-12 * K.trace()


@pytest.mark.parametrize("size", [1.0, 1e5])
def test_support_vector_machines_see_what_little_is_left(rng, size):
    X, s, X_m, setting = one_loud_input(rng, size)
    y = X[:, 1] + s
    machine = FairSVR(**setting).fit(X, y, sensitive_features=s)
    oracle = SVR(kernel="linear").fit(X_m, y)
    assert_allclose(machine.predict(X), oracle.predict(X_m), atol=5e-3)
    classifier = FairSVC(**setting).fit(X, y > 0, sensitive_features=s)
    oracle = SVC(kernel="linear").fit(X_m, y > 0)
    assert_allclose(classifier.decision_function(X), oracle.decision_function(X_m), atol=5e-3)


@pytest.mark.parametrize("size", [1, 10, 100, 300])
def test_the_process_is_ridge_regression_at_any_size_of_the_inputs(rng, size):
    X = size * rng.normal(size=(120, 4))
    y = X[:, 1] / size + np.sin(X[:, 2] / size)
    removal = {"kernel": "polynomial", "gamma": 1.0, "iterations": 3, "held_out": 0}
    ridge = FairKernelRidge(alpha=0.1, fit_intercept=False, **removal)
    expected = ridge.fit(X, y - y.mean(), sensitive_features=X[:, 0]).predict(X) + y.mean()
    process = FairGaussianProcess(alpha=0.1, amplitude=1.0, normalize_y=False, **removal)
    mean, std = process.fit(X, y, sensitive_features=X[:, 0]).predict(X, return_std=True)
    assert_allclose(mean, expected, rtol=1e-12)
    assert np.isfinite(std).all()
    likely = FairGaussianProcess(**removal).fit(X, y, sensitive_features=X[:, 0])
    assert np.isfinite(likely.predict(X)).all()


@pytest.mark.parametrize("machine", [*MACHINES, FairKernelDecomposition])
def test_frames_come_out_where_they_are_asked_for(rng, machine):
    X, y, s = people(rng, n=120)
    frame, y = pd.DataFrame(X, columns=list("abcde")), target(machine, y)
    with sklearn.config_context(transform_output="pandas"):
        model = machine().fit(frame, y, sensitive_features=s)
        if machine is FairKernelDecomposition:
            assert isinstance(model.transform(frame), pd.DataFrame)
        else:
            assert len(model.predict(frame)) == 120


@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_kernel_function_returns_is_not_written_into(rng, machine):
    X, y, s = people(rng, n=120)
    kept = {}

    def remembering(A, B):
        key = (A.tobytes(), B.tobytes())
        if key not in kept:
            kept[key] = np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(axis=2))
        return kept[key]

    y = target(machine, y)
    by_name = machine(gamma=0.5, iterations=4).fit(X, y, sensitive_features=s)
    by_function = machine(remembering, iterations=4).fit(X, y, sensitive_features=s)
    for _ in range(2):
        assert_allclose(score(by_function, X), score(by_name, X), atol=5e-3)
    fair = FairKernelDecomposition(remembering, iterations=4).fit(X, sensitive_features=s)
    assert_array_equal(fair.transform(X), fair.transform(X))


@pytest.mark.parametrize("machine", [FairSVC, FairKernelDecomposition])
def test_a_fit_that_failed_leaves_the_estimator_unfitted(rng, machine):
    X, y, s = people(rng, n=60)
    model = machine(gamma=-1.0)
    with pytest.raises(ValueError, match="gamma must be"):
        model.fit(X, y > 2, sensitive_features=s)
    with pytest.raises(NotFittedError):
        score(model, X) if machine is FairSVC else model.transform(X)


def test_dates_among_objects_and_masked_targets_are_refused(rng):
    X, y, s = people(rng, n=60)
    dates = np.array([np.datetime64("2000-01-01")] * 59 + [np.datetime64("NaT")], dtype=object)
    with pytest.raises(ValueError, match="must hold numbers, got dates"):
        FairKernelRidge().fit(X, y, sensitive_features=dates)
    masked = np.ma.masked_less(y, np.median(y))
    with pytest.raises(ValueError, match="y must not be masked"):
        FairKernelRidge().fit(X, masked, sensitive_features=s)
    with pytest.raises(ValueError, match="labels must not be masked"):
        one_hot(np.ma.masked_less(np.arange(60) % 3, 1))
    with pytest.raises(ValueError, match="must not be missing"):
        one_hot(pd.Series(["a", pd.NA, "b"], dtype="string"))


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 5.1, -2e7])
def test_a_constant_prediction_depends_on_nothing(constant):
    f, s = np.full(30, constant), np.arange(30.0)
    assert dependence(f, s, abs(constant)) == (0.0, 1.0)
    assert dependence(f + 1e-3 * s, s, abs(constant))[1] < 0.01  # a slope is seen


def test_nothing_is_said_of_dependence_if_everything_was_removed():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(150, 4))
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            FairKernelRidge(kernel="linear").fit(X, X[:, 1], sensitive_features=X[:, 0])
        assert not [w for w in heard if "dependence" in str(w.message)]

"""sample_weight: a weight is a number of rows."""

import numpy as np
import pytest
import sklearn
from estimator_sample import MACHINES, people, scores, target
from numpy.testing import assert_allclose, assert_array_equal
from optional import needs
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR

from fkd import (
    FairGaussianProcess,
    FairKernelDecomposition,
    FairKernelRidge,
    FairKernelShrinkage,
    FairSVC,
    FairSVR,
)
from fkd.baselines import HgrNetwork, LinearErasure
from fkd.baselines.base import LEACE, NEURAL
from fkd.baselines.frrm import SensitiveRidge
from fkd.core.feature_maps import IdentityMap
from fkd.core.moments import training_moments

QUIET = {"held_out": 0.0, "gamma": 2.0}
SHRINK = {"removal": "shrinkage", "penalty": 20.0}


def test_with_nothing_removed_it_is_the_weighted_kernel_ridge(rng):
    X, y, s = people(rng, n=150)
    w = rng.uniform(0.2, 4.0, size=150)
    setting = {**QUIET, "iterations": 0, "alpha": 0.5, "fit_intercept": False}
    model = FairKernelRidge(**setting).fit(X, y, sensitive_features=s, sample_weight=w)
    known = KernelRidge(alpha=0.5, kernel="rbf", gamma=2.0).fit(X, y, sample_weight=w)
    assert_allclose(model.predict(X), known.predict(X), rtol=1e-8)


def test_the_constant_is_that_of_the_weighted_regression(rng):
    X, y, s = people(rng, n=150)
    w = rng.uniform(0.2, 4.0, size=150)
    model = FairKernelRidge("linear", iterations=0, alpha=0.5, held_out=0)
    model.fit(X, y + 100.0, sensitive_features=s, sample_weight=w)
    known = Ridge(alpha=0.5).fit(X, y + 100.0, sample_weight=w)
    assert_allclose(model.predict(X), known.predict(X), rtol=1e-9)


def test_with_nothing_removed_it_is_the_weighted_support_vector_regression(rng):
    X, y, s = people(rng, n=120)
    w = rng.uniform(0.2, 4.0, size=120)
    model = FairSVR(C=0.3, epsilon=0.05, tol=1e-9, iterations=0, **QUIET)
    model.fit(X, y, sensitive_features=s, sample_weight=w)
    known = SVR(C=0.3, epsilon=0.05, gamma=2.0, tol=1e-9)
    assert_allclose(model.predict(X), known.fit(X, y, sample_weight=w).predict(X), atol=1e-6)


def test_a_weight_is_the_precision_of_an_observation(rng):
    X, y, s = people(rng, n=80)
    w = rng.uniform(0.2, 4.0, size=80)
    setting = {"alpha": 0.1, "amplitude": 1.0, "normalize_y": False, "iterations": 0, **QUIET}
    model = FairGaussianProcess(**setting).fit(X, y, sensitive_features=s, sample_weight=w)
    level = w @ y / w.sum()
    known = GaussianProcessRegressor(RBF(0.5), alpha=0.1 / w, optimizer=None).fit(X, y - level)
    new = rng.uniform(size=(30, X.shape[1]))
    mean, std = known.predict(new, return_std=True)
    found, spread = model.predict(new, return_std=True, include_noise=False)
    assert_allclose(found, mean + level, rtol=1e-7)
    assert_allclose(spread, std, rtol=1e-6)


@pytest.mark.parametrize("setting", [{"iterations": 3}, SHRINK])
def test_the_likelihood_of_a_process_counts_repeated_rows(rng, setting):
    X, y, s = people(rng, n=60)
    counts = rng.integers(1, 4, size=60)
    again = np.repeat(np.arange(60), counts)
    make = FairGaussianProcess(alpha=None, amplitude=None, **setting, **QUIET)
    weighed = clone(make).fit(X, y, sensitive_features=s, sample_weight=counts)
    repeated = clone(make).fit(X[again], y[again], sensitive_features=s[again])
    assert weighed.alpha_ == pytest.approx(repeated.alpha_, rel=1e-4)
    assert weighed.amplitude_ == pytest.approx(repeated.amplitude_, rel=1e-4)
    found, expected = weighed.log_marginal_likelihood_, repeated.log_marginal_likelihood_
    assert found == pytest.approx(expected, rel=1e-6)
    lesser = weighed.at(1)
    assert_allclose(lesser.predict(X), repeated.at(1).predict(X), atol=1e-4)


@pytest.mark.parametrize("setting", [{"iterations": 3}, SHRINK])
@pytest.mark.parametrize("machine", MACHINES)
def test_twice_the_weights_are_twice_the_rows_beside_a_ridge(rng, machine, setting):
    """Weights are no shares: only with a ridge as much larger does a factor change nothing."""
    X, y, s = people(rng, n=120)
    w = rng.uniform(0.2, 4.0, size=120)
    exact = {"tol": 1e-9} if machine in (FairSVR, FairSVC) else {"alpha": 0.5}
    exact |= {"amplitude": 1.0} if machine is FairGaussianProcess else {}
    model = machine(**exact, **setting, **QUIET)
    scaled = clone(model)
    if hasattr(model, "C"):
        scaled.set_params(C=model.C / 8)
    else:
        scaled.set_params(alpha=8 * model.alpha)
    y = target(machine, y)
    known = scores(clone(model).fit(X, y, sensitive_features=s, sample_weight=w), X)
    same = scores(scaled.fit(X, y, sensitive_features=s, sample_weight=8 * w), X)
    other = scores(clone(model).fit(X, y, sensitive_features=s, sample_weight=8 * w), X)
    assert_allclose(same, known, atol=1e-5)
    assert np.abs(other - known).max() > 1e-3


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
@pytest.mark.parametrize("machine", MACHINES)
def test_ones_change_no_bit(rng, machine):
    X, y, s = people(rng, n=130)
    plain, ones = (
        machine(iterations=3).fit(X, target(machine, y), sensitive_features=s, sample_weight=w)
        for w in (None, np.ones(130))
    )
    assert_array_equal(scores(ones, X), scores(plain, X))


def weighed_away(rng, n=400):
    """Rows of which those of weight 1 do not lean on s in x, y, those of weight 9 do."""
    s = rng.uniform(-1, 1, size=n)
    X = rng.normal(size=(n, 3))
    w = np.where(np.arange(n) % 2, 1.0, 9.0)
    X[:, 0] += np.where(w > 1, 3.0 * s, -3.0 * s)
    y = X[:, 1] + np.where(w > 1, 2.0, 0.0)
    return X, y, s, w


@pytest.mark.parametrize("setting", [{"iterations": 4}, SHRINK])
@pytest.mark.parametrize("machine", [FairKernelRidge, FairSVR, FairGaussianProcess])
def test_weights_count_in_the_removal_the_fit_or_both(rng, machine, setting):
    X, y, s, w = weighed_away(rng)
    setting = {**setting, "held_out": 0, "gamma": 0.1}
    told = {}
    for weigh in ("both", "removal", "fit"):
        model = machine(weigh=weigh, **setting)
        told[weigh] = model.fit(X, y, sensitive_features=s, sample_weight=w).predict(X)
    plain = machine(**setting).fit(X, y, sensitive_features=s).predict(X)
    # The level of the predictions is the machine's alone: 1.8 by the weights, 1.0 without.
    for weigh, f in told.items():
        counts = None if weigh == "removal" else w
        level = np.average(f, weights=counts)
        assert abs(level - np.average(y, weights=counts)) < 0.3
        assert (level > 1.5) == (weigh != "removal")
    assert np.abs(told["removal"] - plain).max() > 0.02  # the removal is another
    assert np.abs(told["fit"] - told["both"]).max() > 0.02


def test_the_removal_is_that_of_the_weights_whatever_the_machine_counts(rng):
    X, y, s, w = weighed_away(rng)
    setting = {"iterations": 4, "held_out": 0, "gamma": 0.1, "ridge": 1.0}
    removed = {}
    for weigh in ("both", "removal", "fit"):
        model = FairGaussianProcess(weigh=weigh, **setting)
        model.fit(X, y, sensitive_features=s, sample_weight=w)
        V = model.processes_[0].removed.V
        removed[weigh] = V @ V.T
    weighed = FairKernelDecomposition(**setting).fit(X, sensitive_features=s, sample_weight=w)
    plain = FairKernelDecomposition(**setting).fit(X, sensitive_features=s)
    for weigh, model in (("both", weighed), ("removal", weighed), ("fit", plain)):
        V = model.removed_.V
        assert_allclose(removed[weigh], V @ V.T, atol=1e-8)
    assert np.abs(removed["both"] - removed["fit"]).max() > 0.1


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier"])
def test_a_path_of_fits_weighs_as_single_fits_do(rng, machine, approximation):
    X, y, s = people(rng, n=150)
    w = rng.uniform(0.0, 3.0, size=150) * (rng.uniform(size=150) > 0.1)
    y = target(machine, y)
    setting = {"approximation": approximation, "landmarks": 40, "random_state": 0, **QUIET}
    beside = {"sensitive_features": s, "sample_weight": w}
    path = machine(**setting).fit_path(X, y, iterations=[0, 2, 5], **beside)
    for m, model in path.items():
        alone = machine(iterations=m, **setting).fit(X, y, **beside)
        assert_allclose(scores(model, X), scores(alone, X), atol=1e-9)


@pytest.mark.parametrize("machine", MACHINES)
def test_another_strength_has_the_same_weights(rng, machine):
    X, y, s = people(rng, n=120)
    w = rng.integers(0, 4, size=120)
    y, beside = target(machine, y), {"sensitive_features": s, "sample_weight": w}
    model = machine(**SHRINK, **QUIET).fit(X, y, **beside)
    direct = machine(**{**SHRINK, "penalty": 2.0}, **QUIET).fit(X, y, **beside)
    assert_allclose(scores(model.at(2.0), X), scores(direct, X), atol=1e-6)


def test_several_targets_are_weighed_alike(rng):
    X, y, s = people(rng, n=140)
    w = rng.uniform(0.1, 3.0, size=140)
    Y = np.column_stack([y, np.cos(3 * X[:, 1])])
    for machine in (FairKernelRidge, FairGaussianProcess):
        both = machine(iterations=3, **QUIET).fit(X, Y, sensitive_features=s, sample_weight=w)
        for j in range(2):
            alone = machine(iterations=3, **QUIET)
            alone.fit(X, Y[:, j], sensitive_features=s, sample_weight=w)
            assert_allclose(both.predict(X)[:, j], alone.predict(X), rtol=1e-7)


@pytest.mark.parametrize("weigh", ["both", "removal", "fit"])
@pytest.mark.parametrize("setting", [{"iterations": 4, "ridge": 0.5}, SHRINK])
def test_rows_that_are_added_later_are_weighed_too(rng, setting, weigh):
    X, y, s = people(rng, n=500)
    w = rng.integers(0, 4, size=500).astype(float)
    w[:200] = np.maximum(w[:200], 1.0)
    setting = {**setting, "weigh": weigh, "approximation": "fourier", "landmarks": 60, **QUIET}
    counts = np.where(w > 0, 1, 0)[200:] if weigh != "both" else w[200:].astype(int)
    weighed, repeated = (FairKernelRidge(random_state=0, **setting) for _ in range(2))
    first = {"sensitive_features": s[:200], "sample_weight": w[:200]}
    for model in (weighed, repeated):
        model.partial_fit(X[:200], y[:200], **first)
    weighed.partial_fit(X[200:], y[200:], sensitive_features=s[200:], sample_weight=w[200:])
    again = np.repeat(np.arange(200, 500), counts)
    more = None if weigh == "both" else w[again]
    repeated.partial_fit(X[again], y[again], sensitive_features=s[again], sample_weight=more)
    assert_allclose(weighed.predict(X), repeated.predict(X), rtol=1e-6)
    assert (weighed._running.fit is weighed._running.removal) is (weigh == "both")


def test_later_rows_may_be_weighed_where_the_first_were_not(rng):
    X, y, s = people(rng, n=300)
    setting = {"iterations": 3, "approximation": "fourier", "landmarks": 50, "random_state": 0}
    models = [FairKernelRidge(weigh=weigh, **setting, **QUIET) for weigh in ("both", "fit")]
    for model in models:
        model.partial_fit(X[:200], y[:200], sensitive_features=s[:200])
        model.partial_fit(
            X[200:], y[200:], sensitive_features=s[200:], sample_weight=np.full(100, 2.0)
        )
    both, fit = (model._running for model in models)
    assert (both.fit.n, both.removal.n) == (400, 400)
    assert (fit.fit.n, fit.removal.n) == (400, 300)
    model.partial_fit(X[:1], y[:1], sensitive_features=s[:1], sample_weight=[3.0])  # one will do
    assert model._running.fit.n == 403


@pytest.mark.parametrize("kind", ["exact", "nystroem", "fourier"])
@pytest.mark.parametrize("make", [FairKernelDecomposition, FairKernelShrinkage])
def test_a_kernel_has_values_against_rows_that_decided_nothing(rng, make, kind):
    X, _, s = people(rng, n=90)
    w = rng.integers(0, 3, size=90)
    there = w > 0
    setting = {"approximation": kind, "landmarks": 30, "random_state": 0, **QUIET}
    beside = {"sensitive_features": s, "sample_weight": w}
    model = make(**setting).fit(X, **beside)
    alone = make(**setting).fit(X[there], sensitive_features=s[there], sample_weight=w[there])
    K = model.transform(X)
    assert K.shape == (90, 90)
    assert_allclose(K[:, there], alone.transform(X), atol=1e-8)
    assert_allclose(K, K.T, atol=1e-8)  # values against the others are those of new rows
    assert_allclose(make(**setting).fit_transform(X, **beside), K, atol=1e-8)
    assert_allclose(model.diag(X), K.diagonal(), atol=1e-7)
    if kind == "exact":
        new = rng.uniform(size=(5, X.shape[1]))
        plain = model.at(0).transform(new)
        assert_allclose(plain @ model.T_, model.transform(new), atol=1e-7)


def test_features_of_all_rows_come_out_of_a_pipeline(rng):
    X, _, s = people(rng, n=90)
    w = rng.integers(0, 3, size=90)
    make = FairKernelDecomposition(output="features", **QUIET)
    F = clone(make).fit_transform(X, sensitive_features=s, sample_weight=w)
    model = make.fit(X, sensitive_features=s, sample_weight=w)
    assert F.shape == (90, np.count_nonzero(w))
    assert_allclose(F, model.transform(X), atol=1e-6)


@pytest.mark.parametrize("make", [FairKernelDecomposition, FairKernelShrinkage])
def test_transformers_weigh_along_a_path(rng, make):
    X, _, s = people(rng, n=80)
    beside = {"sensitive_features": s, "sample_weight": rng.integers(0, 3, size=80)}
    name, values = (
        ("penalties", [0.0, 30.0]) if make is FairKernelShrinkage else ("iterations", [0, 2])
    )
    for value, model in make(**QUIET).fit_path(X, **{name: values}, **beside).items():
        strength = {"penalty" if name == "penalties" else name: value}
        alone = make(**strength, **QUIET).fit(X, **beside)
        assert_allclose(model.transform(X), alone.transform(X), atol=1e-9)


@pytest.mark.filterwarnings("ignore:dependence on the sensitive features")
def test_a_trial_weighs_errors_and_tells_of_nothing_wrong(rng):
    """Rows of next to no weight have another target: a model that counts them would be worse."""
    X, y, s = people(rng, n=600)
    w = np.where(rng.uniform(size=600) < 0.5, 1e-6, 1.0)
    y = np.where(w < 1, y + 50.0 * rng.normal(size=600), y)
    model = FairKernelRidge(iterations=2, gamma=2.0, alpha=1e-2)
    model.fit(X, y, sensitive_features=s, sample_weight=w)
    there = w == 1
    known = FairKernelRidge(iterations=2, gamma=2.0, alpha=1e-2)
    known.fit(X[there], y[there], sensitive_features=s[there])
    assert model.held_out_.error < 0.5 * model.held_out_.dummy_error
    assert model.held_out_.dummy_error == pytest.approx(known.held_out_.dummy_error, rel=0.3)
    assert_allclose(model.predict(X[there]), known.predict(X[there]), atol=0.05)


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
@pytest.mark.parametrize("machine", [FairKernelRidge, FairSVC])
def test_a_bound_is_kept_by_machines_that_weigh(rng, machine):
    X, y, s = people(rng, n=200)
    w = rng.uniform(0.2, 3.0, size=200)
    bounded = {**SHRINK, "penalty": None, "unfairness": {"hgr": 0.8}}
    model = machine(**bounded, **QUIET)
    model.fit(X, target(machine, y), sensitive_features=s, sample_weight=w)
    assert model.unfairness_.values["hgr"].estimate <= 0.8
    direct = machine(**{**SHRINK, "penalty": model.strength_}, **QUIET)
    direct.fit(X, target(machine, y), sensitive_features=s, sample_weight=w)
    assert_allclose(scores(model, X), scores(direct, X), atol=1e-9)


def test_a_search_splits_weights_with_the_rows(rng):
    X, y, s = people(rng, n=90)
    w = rng.integers(1, 4, size=90)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            make_pipeline(FairKernelRidge(**QUIET)), {"fairkernelridge__iterations": [0, 3]}, cv=3
        )
        search.fit(X, y, sensitive_features=s, sample_weight=w)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        steps = make_pipeline(FairKernelDecomposition(**QUIET), SVR(kernel="precomputed"))
        steps[-1].set_fit_request(sample_weight=True)
        steps.fit(X, y, sensitive_features=s, sample_weight=w)
    best = FairKernelRidge(iterations=search.best_params_["fairkernelridge__iterations"], **QUIET)
    best.fit(X, y, sensitive_features=s, sample_weight=w)
    assert_allclose(search.predict(X), best.predict(X))
    fair = FairKernelDecomposition(**QUIET)
    K = fair.fit_transform(X, sensitive_features=s, sample_weight=w)
    known = SVR(kernel="precomputed").fit(K, y, sample_weight=w)
    assert_allclose(steps.predict(X), known.predict(fair.transform(X)), atol=1e-9)


def test_what_is_given_is_weighed(rng):
    X, y, s = people(rng, n=80)
    counts = rng.integers(1, 4, size=80)
    again = np.repeat(np.arange(80), counts)
    for given in ("y", [1]):
        make = FairKernelRidge(given=given, **SHRINK, **QUIET)
        weighed = clone(make).fit(X, y, sensitive_features=s, sample_weight=counts)
        repeated = clone(make).fit(X[again], y[again], sensitive_features=s[again])
        assert_allclose(weighed.predict(X), repeated.predict(X), atol=1e-6)


def test_fair_ridge_regression_weighs(rng):
    X, y, s = people(rng, n=70)
    S = np.column_stack([s, X[:, 1] + 3.0])
    counts = rng.integers(1, 4, size=70)
    again = np.repeat(np.arange(70), counts)
    linear, w = IdentityMap(X.shape[1]), counts.astype(float)
    moments = training_moments(linear, X, S, y, w)
    weighed = SensitiveRidge.from_moments(moments, S, y, w, alpha=0.5)
    same = training_moments(linear, X[again], S[again], y[again])
    repeated = SensitiveRidge.from_moments(same, S[again], y[again], alpha=0.5)
    assert_allclose(weighed.beta, repeated.beta, rtol=1e-8, atol=1e-11)
    assert_allclose(weighed.weights(0.1), repeated.weights(0.1), rtol=1e-8)
    assert weighed.penalty_for(0.05) == pytest.approx(repeated.penalty_for(0.05), rel=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(LinearErasure(), id="LinearErasure", marks=needs(LEACE)),
        pytest.param(HgrNetwork(epochs=1), id="HgrNetwork", marks=needs(NEURAL)),
    ],
)
def test_a_method_that_repeats_rows_takes_whole_weights_alone(rng, model):
    X, y, s = people(rng, n=40)
    w = np.ones(40)
    w[5] = 2.5
    with pytest.raises(ValueError, match=r"sample_weight must be whole.*got 2\.5"):
        model.fit(X, y, sensitive_features=s, sample_weight=w)
    with pytest.raises(ValueError, match=r"sum to at most 8388608 for this method.*got 4e\+09"):
        model.fit(X, y, sensitive_features=s, sample_weight=np.full(40, 1e8))

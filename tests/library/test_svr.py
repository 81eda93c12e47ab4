"""Support vector regression on the fair kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVR

from fkd import FairKernelDecomposition, FairnessWarning, FairSVR
from fkd.core.feature_maps import make_map
from fkd.core.moments import training_moments
from fkd.core.removal import removal_path
from fkd.core.svr import libsvm_models

APPROXIMATIONS = ["exact", "nystroem", "fourier", "identity"]
# Two routes to one optimum agree to what libsvm's stopping rule allows.
SOLVER = 5e-3


def sample(rng, n=120):
    X = rng.normal(size=(n, 4))
    S = X[:, :2] * [1.0, 5.0] + [3.0, -2.0]
    return X, X[:, 0] + X[:, 1] + np.sin(X[:, 2]), S


def setting(approximation, **changes):
    default = {"gamma": 0.1, "iterations": 5, "landmarks": 50, "random_state": 0}
    if approximation == "identity":
        default |= {"kernel": "linear", "iterations": 1}  # two of four directions
    return {"approximation": approximation, **default, **changes}


def leaning(prediction, y, S):
    """Return the largest covariance with a sensitive column, in units of both deviations."""
    covariance = (prediction - prediction.mean()) @ (S - S.mean(axis=0)) / len(S)
    return np.abs(covariance / (y.std() * S.std(axis=0))).max()


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_it_is_support_vector_regression_on_the_transformed_kernel(rng, approximation):
    X, y, S = sample(rng)
    new = rng.normal(size=(9, 4))
    fair = FairKernelDecomposition(**setting(approximation))
    oracle = SVR(kernel="precomputed", C=0.75, epsilon=0.01)
    oracle.fit(fair.fit_transform(X, sensitive_features=S), y)
    model = FairSVR(C=0.75, epsilon=0.01, **setting(approximation))
    found = model.fit(X, y, sensitive_features=S).predict(new)
    assert_allclose(found, oracle.predict(fair.transform(new)), atol=1e-6)


@pytest.mark.parametrize("approximation", ["nystroem", "fourier", "identity"])
def test_features_and_their_kernel_matrix_give_the_same_optimum(rng, approximation):
    X, y, S = sample(rng)
    kernel = "linear" if approximation == "identity" else "rbf"
    fmap = make_map(
        X, gamma=0.1, kernel=kernel, approximation=approximation, landmarks=50, random_state=0
    )
    path = removal_path(training_moments(fmap, X, S, y), ridge=0.05, iterations=2)
    by_kernel, by_features = (
        next(libsvm_models(fmap, X, y, None, path, [(2, 0.75, 0.05)], precomputed_rows=limit))
        for limit in (len(X), len(X) - 1)
    )
    assert_allclose(by_features.scores(X), by_kernel.scores(X), atol=SOLVER)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_predictions_lean_on_the_sensitive_columns_before_but_not_after(rng, approximation):
    X, y, S = sample(rng)
    removal = {"gamma": 0.01, "center_sensitive": True}
    before, after = (
        FairSVR(C=10.0, **setting(approximation, iterations=m, **removal))
        .fit(X, y, sensitive_features=S)
        .predict(X)
        for m in (0, 1 if approximation == "identity" else 4)
    )
    assert leaning(before, y, S) > 0.5
    assert leaning(after, y, S) < 0.1


def test_every_setting_is_the_same_bits_alone_as_in_company(rng):
    X, y, S = sample(rng)
    fmap = make_map(X, gamma=0.1)
    moments = training_moments(fmap, X, S, y)
    long = removal_path(moments, ridge=0.05, iterations=12)
    grid = [(0, 0.5, 0.01), (4, 0.5, 0.01), (4, 1.0, 0.1), (12, 0.5, 0.01)]
    together = list(libsvm_models(fmap, X, y, None, long, grid))
    for one, model in zip(grid, together, strict=True):
        path = removal_path(moments, ridge=0.05, iterations=one[0])
        (alone,) = libsvm_models(fmap, X, y, None, path, [one])
        assert_array_equal(alone.scores(X), model.scores(X))


def test_the_expansion_is_what_predicts(rng):
    X, y, S = sample(rng)
    model = FairSVR(gamma=0.1).fit(X, y, sensitive_features=S)
    f = model.expansion()
    assert_array_equal(type(f).from_arrays(f.arrays()).predict(X), model.predict(X))


def test_the_prediction_is_the_intercept_once_the_rank_is_used_up(rng):
    X, y, S = sample(rng)
    model = FairSVR(kernel="linear", iterations=9, held_out=0)
    with pytest.warns(FairnessWarning, match="ended after 2 of 9 iterations|collapsed"):
        model.fit(X, y, sensitive_features=S)
    assert model.effective_iterations_ == 2
    assert np.ptp(model.predict(X)) < 1e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0}, "C must be a finite number above 0, got 0"),
        ({"epsilon": -0.1}, "epsilon must not be negative, got -0.1"),
        ({"epsilon": np.nan}, "epsilon must be a finite number"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(rng, change, message):
    X, y, S = sample(rng)
    with pytest.raises(ValueError, match=message):
        FairSVR(**change).fit(X, y, sensitive_features=S)


def test_sensitive_features_are_required(rng):
    X, y, _ = sample(rng)
    with pytest.raises(TypeError, match="fit needs sensitive_features"):
        FairSVR().fit(X, y)

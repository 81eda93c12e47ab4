import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import KernelCenterer

from fkd import FairKernelDecomposition, FairKernelRidge, FairnessWarning
from fkd.core.predictors import FourierExpansion, KernelExpansion

APPROXIMATIONS = ["exact", "nystroem", "fourier", "identity"]


def sample(rng, n=120):
    X = rng.normal(size=(n, 4))
    S = X[:, :2] * [1.0, 5.0] + [3.0, -2.0]
    return X, X[:, 0] + X[:, 1] + np.sin(X[:, 2]), S


def model(approximation="exact", **setting):
    default = {"gamma": 0.1, "iterations": 5, "alpha": 0.5, "landmarks": 50, "random_state": 0}
    if approximation == "identity":
        default["kernel"] = "linear"
    return FairKernelRidge(approximation=approximation, **{**default, **setting})


def leaning(prediction, y, S):
    """Return the largest covariance with a sensitive column, in units of both deviations."""
    covariance = (prediction - prediction.mean()) @ (S - S.mean(axis=0)) / len(S)
    return np.abs(covariance / (y.std() * S.std(axis=0))).max()


@pytest.mark.parametrize("m", [0, 5])
def test_it_is_kernel_ridge_on_the_transformed_kernel(rng, m):
    X, y, S = sample(rng)
    fair = FairKernelDecomposition(gamma=0.1, iterations=m)
    K = fair.fit_transform(X, sensitive_features=S)
    new = rng.normal(size=(9, 4))
    K_t = fair.transform(new)
    oracle = KernelRidge(alpha=0.5, kernel="precomputed").fit(K, y)
    plain = model(iterations=m, fit_intercept=False).fit(X, y, sensitive_features=S)
    assert_allclose(plain.predict(new), oracle.predict(K_t), atol=1e-8)
    # With a free constant features and target are centred; so is the kernel.
    center = KernelCenterer().fit(K)
    oracle.fit(center.transform(K), y - y.mean())
    found = model(iterations=m).fit(X, y, sensitive_features=S).predict(new)
    assert_allclose(found, oracle.predict(center.transform(K_t)) + y.mean(), atol=1e-8)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_predictions_lean_on_the_sensitive_columns_before_but_not_after(rng, approximation):
    X, y, S = sample(rng)
    longest = 1 if approximation == "identity" else 3  # two of four directions
    before, after = (
        model(approximation, iterations=m, gamma=0.01).fit(X, y, sensitive_features=S).predict(X)
        for m in (0, longest)
    )
    assert leaning(before, y, S) > 0.5
    assert leaning(after, y, S) < 0.1


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")  # to the end of the path and beyond
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_the_whole_path_holds_each_single_fit_bit_for_bit(rng, approximation, fit_intercept):
    X, y, S = sample(rng)
    estimator = model(approximation, fit_intercept=fit_intercept, held_out=0)
    found = estimator.fit_path(X, y, sensitive_features=S, iterations=[0, 2, 20], alphas=[0.1, 5.0])
    for (m, alpha), predictor in found.items():
        alone = clone(estimator).set_params(iterations=m, alpha=alpha)
        alone.fit(X, y, sensitive_features=S)
        assert_array_equal(alone.predict(X), predictor.predict(X))


def test_a_path_alone_leaves_the_model_unfitted(rng):
    X, y, S = sample(rng)
    estimator = model()
    estimator.fit_path(X, y, sensitive_features=S, iterations=[1], alphas=[1.0])
    with pytest.raises(NotFittedError):
        estimator.predict(X)


@pytest.mark.parametrize(
    ("approximation", "kind"), [("exact", KernelExpansion), ("fourier", FourierExpansion)]
)
def test_the_expansion_is_what_predicts(rng, approximation, kind):
    X, y, S = sample(rng)
    estimator = model(approximation).fit(X, y, sensitive_features=S)
    f = estimator.expansion()
    assert isinstance(f, kind)
    assert_array_equal(kind.from_arrays(f.arrays()).predict(X), estimator.predict(X))


def test_an_intercept_makes_the_level_of_the_target_free(rng):
    X, y, S = sample(rng)
    low, high = (
        model(fit_intercept=True).fit(X, y + c, sensitive_features=S).predict(X) for c in (0, 1000)
    )
    assert_allclose(high - low, 1000, rtol=1e-9)


def test_frames_and_read_only_arrays_come_in(rng):
    X, y, S = sample(rng)
    plain = model().fit(X, y, sensitive_features=S).predict(X)
    for a in (X, y, S):
        a.flags.writeable = False
    frame = pd.DataFrame(X, columns=list("abcd"))
    framed = model().fit(frame, pd.Series(y), sensitive_features=pd.DataFrame(S))
    assert_array_equal(framed.predict(frame), plain)
    assert_array_equal(model().fit(X, y, sensitive_features=S).predict(X), plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0}, "alpha must be a finite number above 0, got 0"),
        ({"ridge": 0}, "ridge must be a finite number above 0, got 0"),
        ({"iterations": -1}, "iterations must be at least 0, got -1"),
        ({"gamma": -1.0}, "gamma must be a finite number above 0"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(rng, change, message):
    X, y, S = sample(rng)
    with pytest.raises(ValueError, match=message):
        model(**change).fit(X, y, sensitive_features=S)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_bad_target_is_refused(rng, bad):
    X, y, S = sample(rng)
    y[3] = bad
    with pytest.raises(ValueError, match="y must"):
        model().fit(X, y, sensitive_features=S)


def test_sensitive_features_are_required(rng):
    X, y, _ = sample(rng)
    with pytest.raises(TypeError, match="fit needs sensitive_features"):
        model().fit(X, y)


def test_a_path_longer_than_the_rank_says_how_far_it_went(rng):
    X, y, S = sample(rng)
    estimator = model(kernel="linear", iterations=50, held_out=0)
    with pytest.warns(FairnessWarning, match="ended after 2 of 50|collapsed") as told:
        estimator.fit(X, y, sensitive_features=S)
    assert ["ended" in str(w.message) for w in told] == [True, False]
    assert estimator.effective_iterations_ == 2
    assert_allclose(estimator.predict(X), y.mean(), atol=1e-10)


@pytest.mark.parametrize("held_out", [0.0, 0.2])
@pytest.mark.parametrize("copies", [0, 50])
def test_a_fit_holds_three_matrices_of_the_size_of_the_kernel(rng, copies, held_out):
    n = 1000
    X = rng.random((n, 50))
    X[:copies] = X[n - copies :]  # duplicate rows take the pivoted factor
    tracemalloc.start()
    model(gamma=0.05, iterations=20, held_out=held_out).fit(X, X[:, 1], sensitive_features=X[:, 0])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Factor, moments, inverse; the paths, weights, inputs are thin.
    assert peak < 3.5 * 8 * n**2

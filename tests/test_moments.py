import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moments_sample import assert_equal_moments, sample
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from fkd.core.feature_maps import make_map
from fkd.core.moments import Moments, training_moments
from fkd.core.predictors import LinearCorrection


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(1, 99))
def test_moments_do_not_depend_on_how_rows_are_split(seed, cut):
    G, S, y = sample(np.random.default_rng(seed))
    parts = Moments.from_rows(G[:cut], S[:cut], y[:cut]) + Moments.from_rows(
        G[cut:], S[cut:], y[cut:]
    )
    assert_equal_moments(parts, Moments.from_rows(G, S, y))


@pytest.mark.parametrize("l", [0, 1])
def test_moments_of_corrected_rows_need_no_row(rng, l):
    G, S, y = sample(rng)
    d = G.shape[1]
    by = LinearCorrection(*(rng.normal(size=size) for size in (d + l, (d + l, 2), (d, 2))))
    if l:
        with pytest.raises(ValueError, match="a correction must return the 5 columns"):
            Moments.from_rows(G, S, y).corrected(by)
        return
    assert_equal_moments(
        Moments.from_rows(G, S, y).corrected(by), Moments.from_rows(by(G), S, y), rtol=1e-9
    )


def test_addition_is_associative(rng):
    a, b, c = (Moments.from_rows(*sample(rng)) for _ in range(3))
    assert_equal_moments((a + b) + c, a + (b + c), rtol=1e-14)


@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier", "identity"])
def test_training_moments_are_those_of_the_features(rng, approximation):
    X, S, y = sample(rng, n=90)
    kernel = "linear" if approximation == "identity" else "rbf"
    setting = {"approximation": approximation, "landmarks": 20, "random_state": 0}
    fmap = make_map(X, kernel=kernel, gamma=0.3, **setting)
    direct = Moments.from_rows(fmap.transform(X), S, y)
    assert_equal_moments(training_moments(fmap, X, S, y), direct, rtol=1e-7)


def test_folds_of_one_shared_map_add_up_to_the_training_rows_of_each(rng):
    X, S, y = sample(rng, n=90)
    fmap = make_map(X[:30], gamma=0.3, approximation="nystroem", landmarks=20, random_state=0)
    folds = [Moments.from_rows(fmap.transform(X[i::3]), S[i::3], y[i::3]) for i in range(3)]
    rest = np.arange(90) % 3 != 1
    whole = Moments.from_rows(fmap.transform(X[rest]), S[rest], y[rest])
    assert_equal_moments(folds[0] + folds[2], whole)


def test_float32_blocks_accumulate_in_float64(rng):
    X, S, y = sample(rng, n=200)
    fmap = make_map(X, gamma=0.1, approximation="nystroem", landmarks=30, random_state=0)
    coarse = training_moments(fmap, X.astype(np.float32), S, y)
    assert coarse.C.dtype == np.float64
    assert_equal_moments(coarse, training_moments(fmap, X, S, y), rtol=1e-3)


def test_centred_sensitive_moments_are_those_of_the_deviations(rng):
    G, S, y = sample(rng)
    moments = Moments.from_rows(G, S, y)
    assert_allclose(moments.sensitive(center=True), G.T @ (S - S.mean(axis=0)), atol=1e-10)
    assert_array_equal(moments.sensitive(center=False), moments.b)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_normal_equations_are_those_of_ridge_regression(rng, fit_intercept):
    G, S, y = sample(rng)
    moments = Moments.from_rows(G, S, y + 10)
    C, c = moments.normal_equations(fit_intercept=fit_intercept)
    beta = np.linalg.solve(C + 0.3 * np.eye(4), c)
    oracle = Ridge(alpha=0.3, fit_intercept=fit_intercept).fit(G, y + 10)
    assert_allclose(beta, oracle.coef_, rtol=1e-9)
    if fit_intercept:
        assert_allclose(moments.intercept(beta), oracle.intercept_, rtol=1e-9)


def test_moments_leave_their_arguments_alone(rng):
    arrays = sample(rng)
    for a in arrays:
        a.flags.writeable = False
    Moments.from_rows(*arrays)

"""Kernel ridge regression on the fair kernel against dense solutions."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.preprocessing import KernelCenterer

from fkd import FairKernelDecomposition, FairKernelRidge, FairnessWarning
from fkd.core.feature_maps import make_map
from fkd.core.linalg import downdate
from fkd.core.moments import training_moments
from fkd.core.predictors import FourierExpansion, KernelExpansion
from fkd.core.removal import Directions, removal_path
from fkd.core.ridge import FairInverse, ridge_coefficients, ridge_expansions


def fitted(rng, n=80, l=2, iterations=6, **setting):
    """Return rows, target, map, moments, path."""
    X = rng.normal(size=(n, 4))
    S = X[:, :l] * [1.0, 5.0][:l] + [3.0, -2.0][:l] + rng.normal(size=(n, l))
    y = np.sin(X[:, 2]) + X[:, 0] + 2.0
    if setting.get("approximation") == "identity":
        setting["kernel"] = "linear"
    fmap = make_map(X, **{"gamma": 0.2, "random_state": 0, **setting})
    moments = training_moments(fmap, X, S, y)
    return X, y, fmap, moments, removal_path(moments, ridge=0.1, iterations=iterations)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(0, 6), alpha=st.floats(0.01, 10))
def test_it_is_kernel_ridge_regression_on_the_fair_kernel(seed, m, alpha):
    X, y, fmap, moments, path = fitted(np.random.default_rng(seed))
    F = fmap.training_product(X, path.at(m).V)
    K_m = downdate(fmap.training_gram(X), F)
    (f,) = ridge_expansions(fmap, moments, path, [(m, alpha)])
    oracle = KernelRidge(alpha=alpha, kernel="precomputed").fit(K_m, y)
    assert_allclose(f.predict(X), oracle.predict(K_m), atol=1e-9)
    new = X[:9] + 0.1
    K_t = fmap.cross(new, X) - fmap.product(new, path.at(m).V) @ F.T
    assert_allclose(f.predict(new), oracle.predict(K_t), atol=1e-8)


@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier", "identity"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_it_is_ridge_regression_on_the_fair_features(rng, approximation, fit_intercept):
    X, y, fmap, moments, path = fitted(rng, approximation=approximation, landmarks=30)
    U = path.at(2).V
    G = fmap.transform(X)
    fair = G - (G @ U) @ U.T
    (f,) = ridge_expansions(fmap, moments, path, [(2, 0.5)], fit_intercept=fit_intercept)
    oracle = Ridge(alpha=0.5, fit_intercept=fit_intercept).fit(fair, y)
    assert_allclose(f.predict(X), oracle.predict(fair), atol=1e-8)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_every_setting_is_the_same_bits_alone_as_in_company(rng, fit_intercept):
    X, _, fmap, moments, long = fitted(rng, n=200, iterations=20)
    grid = [(m, alpha) for m in (0, 3, 20, 1) for alpha in (0.1, 1.0)]
    together = ridge_expansions(fmap, moments, long, grid, fit_intercept=fit_intercept)
    for (m, alpha), f in zip(grid, together, strict=True):
        path = removal_path(moments, ridge=0.1, iterations=m)
        (alone,) = ridge_expansions(fmap, moments, path, [(m, alpha)], fit_intercept=fit_intercept)
        assert_array_equal(alone.predict(X), f.predict(X))


def test_weights_are_orthogonal_to_what_was_removed(rng):
    _, _, _, moments, path = fitted(rng)
    betas = ridge_coefficients(
        moments, path, alpha=0.5, strengths=range(path.effective + 1), fit_intercept=False
    )
    inside = [np.abs(path.at(m).V.T @ beta).max(initial=0) for m, beta in betas.items()]
    assert max(inside) < 1e-13 * np.linalg.norm(betas[0])
    assert np.abs(path.U.T @ betas[0]).max() > 1e-3 * np.linalg.norm(betas[0])  # it was there


def test_a_huge_alpha_predicts_nothing_but_the_intercept(rng):
    X, y, fmap, moments, path = fitted(rng)
    (f,) = ridge_expansions(fmap, moments, path, [(3, 1e12)], fit_intercept=True)
    assert_allclose(f.predict(X), y.mean(), atol=1e-8)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_prediction_is_constant_once_the_rank_is_used_up(rng, fit_intercept):
    X, y, fmap, moments, path = fitted(rng, l=1, kernel="linear", iterations=9)
    assert path.effective == 4
    (f,) = ridge_expansions(fmap, moments, path, [(9, 0.5)], fit_intercept=fit_intercept)
    assert_allclose(f.predict(X), y.mean() if fit_intercept else 0, atol=1e-12)


def test_no_settings_give_no_predictors(rng):
    _, _, fmap, moments, path = fitted(rng)
    assert ridge_expansions(fmap, moments, path, []) == []


@pytest.mark.parametrize("alpha", [0, -1.0, np.nan])
def test_a_bad_alpha_is_refused_by_name(rng, alpha):
    _, _, fmap, moments, path = fitted(rng)
    with pytest.raises(ValueError, match="alpha must be a finite number above 0"):
        ridge_expansions(fmap, moments, path, [(0, alpha)])


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("gamma", [1e-8, 0.1, 1e6])
@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier"])
def test_an_alpha_lost_in_rounding_is_refused_or_finite(rng, approximation, gamma, fit_intercept):
    X, y, fmap, moments, path = fitted(rng, approximation=approximation, gamma=gamma, landmarks=50)
    largest, message = 0.0, "alpha must be larger than"
    try:
        (f,) = ridge_expansions(fmap, moments, path, [(6, 1e-300)], fit_intercept=fit_intercept)
        largest = np.abs(f.predict(X)).max()
    except ValueError as error:
        message = str(error)
    assert "alpha must be larger than" in message
    assert largest < 100 * np.abs(y).max()


def test_more_than_a_cut_path_holds_is_refused(rng):
    _, _, fmap, moments, path = fitted(rng, iterations=5)
    with pytest.raises(ValueError, match="iterations must be at most 5"):
        ridge_expansions(fmap, moments, path, [(10, 0.5)])


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("n", [80, 300])  # within a panel of the solver, across panels
def test_the_fair_inverse_is_that_of_the_weights_left(rng, fit_intercept, n):
    _, _, _, moments, path = fitted(rng, n=n, iterations=4)
    C, c = moments.normal_equations(fit_intercept=fit_intercept)
    U = path.U
    Q, _ = np.linalg.qr(np.hstack([U, rng.normal(size=(len(U), len(U) - U.shape[1]))]))
    V = Q[:, U.shape[1] :]
    inner = V.T @ C @ V + 0.5 * np.eye(V.shape[1])
    D = FairInverse.from_matrix(C, 0.5, Directions.whole(U), name="alpha")
    assert_allclose(D @ c, V @ np.linalg.solve(inner, V.T @ c), atol=1e-9)
    assert_allclose(D.log_determinant, np.linalg.slogdet(inner)[1], rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier"])
def test_strengths_keep_their_bits_on_a_longer_path(rng, approximation, fit_intercept):
    """Two directions an iteration, sixteen a panel: strengths within, at, behind their ends."""
    wanted = (0, 1, 2, 7, 8, 9, 16, 17, 24)
    setting = {"approximation": approximation, "landmarks": 150}
    *_, moments, _ = fitted(rng, n=300, **setting)
    long, *paths = (
        removal_path(moments, ridge=0.1, iterations=m, independent=approximation != "fourier")
        for m in (40, *wanted)
    )
    together = ridge_coefficients(
        moments, long, alpha=0.3, strengths=(*wanted, 40), fit_intercept=fit_intercept
    )
    for m, path in zip(wanted, paths, strict=True):
        alone = ridge_coefficients(
            moments, path, alpha=0.3, strengths=[m], fit_intercept=fit_intercept
        )
        assert_array_equal(alone[m], together[m])
    assert np.abs(together[40] - together[24]).max() > 0


@pytest.mark.parametrize("w", [0, 1, 15, 16, 17, 31, 32, 33, 80])
def test_the_fair_inverse_crosses_its_panels(rng, w):
    """Against the definition (C + a P⁻¹)⁻¹ with some of each direction left."""
    C = (lambda A: A.T @ A)(rng.normal(size=(200, 90)))
    V = np.linalg.qr(rng.normal(size=(90, 90)))[0][:, :w]
    kept = rng.uniform(0.05, 1.0, size=w)
    P = np.eye(90) - (V * (1 - kept)) @ V.T
    inverse = FairInverse.from_matrix(C, 0.7, Directions(V, 1 - kept, kept), name="alpha")
    expected = np.linalg.inv(C + 0.7 * np.linalg.inv(P))
    assert_allclose(inverse @ np.eye(90), expected, atol=1e-12)
    assert len(inverse.pivots) == w
    # det(C + a P⁻¹) = det(C + a I) times what the directions add.
    left = np.linalg.slogdet(C + 0.7 * np.linalg.inv(P))[1] + np.log(kept).sum() - w * np.log(0.7)
    assert inverse.log_determinant == pytest.approx(left, abs=1e-9)


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

"""Moments: sums of blocks add up, streamed sums, functions of s, precision of sums."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moments_sample import assert_equal_moments, sample
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from shrinkage_sample import covariances
from sklearn.linear_model import Ridge

from fkd.core.arrays import BLOCK_ROWS
from fkd.core.feature_maps import SUM_PRECISIONS, make_map
from fkd.core.moments import (
    SINGLE_ROWS,
    TOLERANCE,
    BasisMoments,
    Moments,
    Rounding,
    StreamedSums,
    basis_moments,
    measure_rounding,
    training_moments,
    whitened,
    whitened_products,
)
from fkd.core.predictors import LinearCorrection
from fkd.core.sensitive_basis import SplineBasis


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


def basis_sample(rng, n=300, r=20, p=4, k=3):
    Z = rng.normal(size=(n, k)) - 2.0
    B = rng.normal(size=(n, p)) + 6.0 + Z[:, :1]
    G = rng.normal(size=(n, r)) + 1.0 + B[:, :1] + Z[:, :1]
    return G, B, Z


def residual(B, Z):
    A = np.column_stack([np.ones(len(Z)), Z])
    return B - A @ np.linalg.lstsq(A, B, rcond=None)[0]


def test_the_covariance_is_that_of_centred_columns(rng):
    G, B, _ = basis_sample(rng)
    sums = BasisMoments.from_rows(G, B)
    assert_allclose(sums.covariance(), covariances(G, B), atol=1e-12)
    assert_allclose(sums.products(), len(G) * covariances(G, B), atol=1e-9)
    assert_allclose(
        BasisMoments.from_rows(G + 5.0, B - 7.0).covariance(), covariances(G, B), atol=1e-11
    )
    # Without the centring it is another number altogether.
    assert np.abs(G.T @ B / len(G) - covariances(G, B)).max() > 1


def test_what_is_given_is_taken_out_of_the_basis(rng):
    G, B, Z = basis_sample(rng)
    T = BasisMoments.from_rows(G, B, Z).covariance()
    assert_allclose(T, covariances(G, residual(B, Z)), atol=1e-12)
    assert np.abs(T - covariances(G, B)).max() > 0.5


@pytest.mark.parametrize("given", [False, True])
def test_sums_of_parts_are_those_of_the_whole(rng, given):
    G, B, Z = basis_sample(rng)
    whole = BasisMoments.from_rows(G, B, Z if given else None)
    rows = np.array_split(np.arange(len(G)), 7)
    added = reduce(add, [BasisMoments.from_rows(G[i], B[i], Z[i] if given else None) for i in rows])
    assert (added.n, added.p) == (300, 4)
    for name in ("GW", "WW", "g", "w", "gg", "scale"):
        assert_allclose(getattr(added, name), getattr(whole, name), rtol=1e-12)
    assert_allclose(added.covariance(), whole.covariance(), atol=1e-12)


def test_given_columns_may_repeat_each_other(rng):
    G, B, Z = basis_sample(rng)
    splines = SplineBasis.from_rows(Z)(Z)  # those of a column add up to one
    repeated = np.hstack([splines, splines[:, :12], np.ones((300, 1))])
    T = BasisMoments.from_rows(G, B, repeated).covariance()
    assert_allclose(T, covariances(G, residual(B, splines)), atol=1e-10)


def test_given_columns_that_say_nothing_change_nothing(rng):
    G, B, _ = basis_sample(rng)
    constant = BasisMoments.from_rows(G, B, np.ones((300, 2)))
    assert_allclose(constant.covariance(), covariances(G, B), atol=1e-12)


def test_given_columns_that_determine_the_basis_are_refused(rng):
    G, B, Z = basis_sample(rng)
    with pytest.raises(ValueError, match="given must leave something"):
        BasisMoments.from_rows(G, B, np.hstack([Z, B @ rng.normal(size=(4, 4)) - 3.0])).covariance()


def test_no_covariance_is_larger_than_the_scale(rng):
    G, B, _ = basis_sample(rng)
    sums = BasisMoments.from_rows(G, B)
    assert np.linalg.norm(sums.covariance(), 2) <= sums.scale
    same = BasisMoments.from_rows(
        B[:, :1] - B[:, :1].mean(axis=0), B[:, :1] - B[:, :1].mean(axis=0)
    )
    assert np.linalg.norm(same.covariance(), 2) == pytest.approx(same.scale)  # nor smaller


@pytest.mark.parametrize("approximation", ["nystroem", "exact"])
def test_blocks_of_rows_meet_their_own_functions(rng, approximation):
    n = 300 if approximation == "exact" else BLOCK_ROWS + 300
    X = rng.normal(size=(n, 2))
    B, Z = np.column_stack([X[:, 0] ** 2, X[:, 1]]), X[:, :1] + rng.normal(size=(n, 1))
    feature_map = make_map(X, gamma=0.3, approximation=approximation, landmarks=12, random_state=0)
    T = basis_moments(feature_map, X, B, Z).covariance()
    expected = covariances(feature_map.transform(X), residual(B, Z))
    assert_allclose(T, expected, atol=1e-6 if approximation == "exact" else 1e-11)
    assert np.abs(expected).max() > 0.01


# Below one block of rows, across one, across two.
SIZES = [1, 300, 4096, 4097, 9000]


def rows(rng, n, l=2):
    X = rng.normal(size=(n, 3))
    S = X[:, :l] * [1.0, 5.0][:l] + [3.0, -2.0][:l] + rng.normal(size=(n, l))
    return X, S, np.sin(X[:, 2]) + 2.0


def feature_map(rng, kind="nystroem", q=40):
    return make_map(
        rng.normal(size=(400, 3)), gamma=0.5, approximation=kind, landmarks=q, random_state=0
    )


def summed(fmap, way, X, S, y, W=()):
    sums = StreamedSums(fmap, way, [S.shape[1], *(w.shape[1] for w in W)])
    sums.add(X, S, y, W)
    return sums


def assert_equal(found, expected, **tolerance):
    for name, value in vars(expected).items():
        if tolerance:
            assert_allclose(getattr(found, name), value, err_msg=name, **tolerance)
        else:
            assert_array_equal(getattr(found, name), value, err_msg=name)


def scale(expected, digits):
    """A tolerance relative to the largest sum."""
    return {"rtol": 0.0, "atol": digits * max(np.abs(v).max() for v in vars(expected).values())}


# The landmarks' condition number (1e8 here) is what whitening a sum costs.
DIGITS = {"rows": 1e-12, "float64": 1e-7}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("way", ["rows", "float64"])
def test_sums_are_those_of_the_features(rng, way, n):
    fmap, (X, S, y) = feature_map(rng), rows(rng, n)
    W = [rng.normal(size=(n, 3)), rng.normal(size=(n, 5)) + 7.0]
    sums = summed(fmap, way, X, S, y, W)
    G = fmap.transform(X)
    expected = Moments.from_rows(G, S, y)
    found = whitened(fmap, way, sums.moments())
    assert found.n == n
    assert_array_equal(found.C, found.C.T)
    assert_equal(found, expected, **scale(expected, DIGITS[way]))
    for i, (columns, p) in enumerate(zip(W, (3, 2), strict=True)):
        products = whitened_products(fmap, way, sums.basis_moments(i, p), float(found.C.trace()))
        by_hand = BasisMoments.from_rows(G, columns[:, :p], columns[:, p:])
        assert_equal(products, by_hand, **scale(by_hand, DIGITS[way]))
        assert products.p == p


@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_sums_in_single_precision_differ_by_single_precision(rng, kind):
    fmap, (X, S, y) = feature_map(rng, kind), rows(rng, 5000)
    exact, found = (summed(fmap, way, X, S, y).moments() for way in ("float64", "float32"))
    assert_equal(found, exact, **scale(exact, 1e-5))
    same = np.array_equal(found.C, exact.C)
    assert same is (kind == "fourier")  # whose features have no cheaper form


@pytest.mark.parametrize("way", SUM_PRECISIONS)
def test_features_that_are_not_whitened_are_summed_as_they_are(rng, way):
    fmap, (X, S, y) = feature_map(rng, "fourier"), rows(rng, 4500)
    expected = Moments.from_rows(fmap.transform(X), S, y)
    sums = summed(fmap, way, X, S, y)
    assert_equal(whitened(fmap, way, sums.moments()), expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("cut", [1, 4095, 4096, 5000])
@pytest.mark.parametrize("way", SUM_PRECISIONS)
def test_sums_of_parts_add_up(rng, way, cut):
    fmap, (X, S, y) = feature_map(rng), rows(rng, 6000)
    W = [rng.normal(size=(6000, 4))]
    whole = summed(fmap, way, X, S, y, W)
    parts = [
        summed(fmap, way, X[part], S[part], y[part], [W[0][part]])
        for part in (slice(None, cut), slice(cut, None))
    ]
    # In single precision a kernel value is rounded as the BLAS rounds blocks of that many rows.
    digits = np.finfo(np.float32).eps if way == "float32" else 1e-14
    moments, coupled = whole.moments(), whole.basis_moments(0, 4)
    assert_equal(parts[0].moments() + parts[1].moments(), moments, **scale(moments, digits))
    couples = [part.basis_moments(0, 4) for part in parts]
    assert_equal(couples[0] + couples[1], coupled, **scale(coupled, digits))


def test_rows_may_come_in_several_pieces(rng):
    """Reading the sums meanwhile does not disturb them."""
    fmap, (X, S, y) = feature_map(rng), rows(rng, 5000)
    sums = StreamedSums(fmap, "float64", [2])
    for part in (slice(0, 700), slice(700, 5000)):
        sums.add(X[part], S[part], y[part])
        sums.moments()
    expected = summed(fmap, "float64", X, S, y).moments()
    assert_equal(sums.moments(), expected, **scale(expected, 1e-14))


@pytest.mark.parametrize("q", [61, 257])  # no multiple of what a product is tiled by
@pytest.mark.parametrize("width", [1, 3, 8, 31, 64])
def test_what_else_is_summed_changes_no_bit(rng, q, width):
    fmap, (X, S, y) = feature_map(rng, q=q), rows(rng, 5000)
    wide, W = rng.normal(size=(5000, width)), rng.normal(size=(5000, 13))
    alone, both = (summed(fmap, "float64", X, S, y, columns) for columns in ([W], [wide, W]))
    assert_equal(both.moments(), summed(fmap, "float64", X, S, y).moments())
    assert_equal(both.basis_moments(1, 13), alone.basis_moments(0, 13))


@pytest.mark.parametrize("way", SUM_PRECISIONS)
def test_sparse_rows_have_the_sums_of_dense_ones(rng, way):
    X = np.where(rng.random((5000, 30)) < 0.1, 1.0, 0.0)
    S, y = rng.normal(size=(5000, 2)), rng.normal(size=5000)
    fmap = make_map(X, gamma=0.2, approximation="nystroem", landmarks=30, random_state=0)
    dense, sparse = (summed(fmap, way, rows, S, y).moments() for rows in (X, csr_array(X)))
    assert_equal(sparse, dense, **scale(dense, 1e-5 if way == "float32" else 1e-11))


def test_arguments_are_not_written_to(rng):
    fmap, (X, S, y) = feature_map(rng), rows(rng, 4200)
    W = rng.normal(size=(4200, 3))
    for array in (X, S, y, W):
        array.flags.writeable = False
    sums = summed(fmap, "float64", X, S, y, [W])
    first = sums.moments()
    first.C[:] = np.nan  # what was handed out is nobody else's
    sums.basis_moments(0, 3).GW[:] = np.nan
    assert np.isfinite(sums.moments().C).all()
    assert np.isfinite(sums.basis_moments(0, 3).GW).all()


def landmark_map(X, q=60, gamma=0.5):
    return make_map(X, gamma=gamma, approximation="nystroem", landmarks=q, random_state=0)


def lost(fmap, X, way):
    """What sums over X lose against features that are whitened row by row."""
    nothing = np.zeros((X.shape[0], 1))
    sums = StreamedSums(fmap, way, [1])
    sums.add(X, nothing, nothing[:, 0])
    exact = Moments.from_rows(fmap.transform(X), nothing, nothing[:, 0]).C
    return np.linalg.norm(whitened(fmap, way, sums.moments()).C - exact, 2)


@pytest.mark.parametrize("n", [200, BLOCK_ROWS, 3 * BLOCK_ROWS + 5])
def test_the_error_of_all_rows_is_what_was_measured_on_some(rng, n):
    X = rng.normal(size=(n, 3))
    fmap = landmark_map(X)
    found = measure_rounding(fmap, X)
    assert found.single > 1e5 * found.double > 0
    # More rows average what is not the same for each, hence a bound with room below.
    for way, a_row in (("float32", found.single), ("float64", found.double)):
        assert 0.05 * a_row * n < lost(fmap, X, way) < 2 * a_row * n
    assert found.condition == pytest.approx(np.linalg.cond(fmap.L @ fmap.L.T), rel=0.2)


def test_sorted_rows_are_looked_at_from_all_over(rng):
    """Rows that lose most may stand last."""
    X = np.vstack([rng.normal(size=(BLOCK_ROWS, 3)) + 30.0, rng.normal(size=(BLOCK_ROWS, 3))])
    fmap = landmark_map(X[BLOCK_ROWS:])  # of which the first rows are far away: values of zero
    found, first = measure_rounding(fmap, X), measure_rounding(fmap, X[:BLOCK_ROWS])
    assert first.single < 1e-3 * found.single
    assert lost(fmap, X, "float32") < 4 * found.single * len(X)


def test_sparse_rows_are_measured_too(rng):
    X = np.where(rng.random((6000, 30)) < 0.1, 1.0, 0.0)
    fmap = landmark_map(X, 30, 0.2)
    dense, sparse = measure_rounding(fmap, X), measure_rounding(fmap, csr_array(X))
    assert sparse.condition == dense.condition
    assert 0.05 < sparse.single / dense.single < 20


def test_features_that_are_not_whitened_lose_nothing(rng):
    X = rng.normal(size=(50, 3))
    fmap = make_map(X, gamma=0.5, approximation="fourier", landmarks=20, random_state=0)
    assert measure_rounding(fmap, X) == Rounding(0.0, 0.0, 1.0)


def test_the_fastest_way_whose_error_the_ridge_hides():
    rounding, n = Rounding(1e-6, 1e-12, 1e6), SINGLE_ROWS
    needed = {"single": 1e-6 * n / TOLERANCE, "double": 1e-12 * n / TOLERANCE}
    assert rounding.fastest(n, needed["single"] * 1.01) == "float32"
    assert rounding.fastest(n, needed["single"] * 0.99) == "float64"
    assert rounding.fastest(n, needed["double"] * 1.01) == "float64"
    assert rounding.fastest(n, needed["double"] * 0.99) == "rows"
    # Few rows are not worth a digit.
    assert rounding.fastest(n - 1, 1e9) == "float64"


@pytest.mark.parametrize("ridge", [1e-9, 1e-3, 1e3])
@pytest.mark.parametrize("n", [10**3, 10**6, 10**9])
def test_a_ridge_per_row_lets_the_way_be_the_same_for_any_rows(n, ridge):
    rounding = Rounding(1e-7, 1e-13, 1e6)
    expected = rounding.fastest(10**6, ridge * 10**6)
    assert rounding.fastest(max(n, SINGLE_ROWS), ridge * max(n, SINGLE_ROWS)) == expected


def test_what_could_not_be_measured_is_taken_for_lost():
    assert Rounding(np.nan, np.nan, np.inf).fastest(10**6, 1e9) == "rows"

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from fkd.core.feature_maps import SUM_PRECISIONS, make_map
from fkd.core.moments import (
    BasisMoments,
    Moments,
    StreamedSums,
    whitened,
    whitened_products,
)

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

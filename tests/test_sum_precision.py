import numpy as np
import pytest
from scipy.sparse import csr_array

from fkd.core.arrays import BLOCK_ROWS
from fkd.core.feature_maps import make_map
from fkd.core.moments import (
    SINGLE_ROWS,
    TOLERANCE,
    Moments,
    Rounding,
    StreamedSums,
    measure_rounding,
    whitened,
)


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

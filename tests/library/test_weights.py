"""Sample weights: valid values, present rows, weighted sums."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moments_sample import assert_equal_moments, sample
from numpy.testing import assert_allclose, assert_array_equal

from fkd import FairKernelDecomposition, FairKernelRidge, FairSVR
from fkd.baselines import FairKernelLearning
from fkd.core.arrays import BLOCK_ROWS
from fkd.core.feature_maps import SUM_PRECISIONS, make_map
from fkd.core.moments import (
    BasisMoments,
    Moments,
    StreamedSums,
    basis_moments,
    training_moments,
    weighted_moments,
)
from fkd.core.sensitive_basis import RBF_SIZE, BasisSettings, centred
from fkd.core.weights import (
    PresentRows,
    RowWeights,
    row_count,
    times_weights,
    weighted_mean,
    weighted_median,
    weighted_std,
    weighted_sum,
)

BAD = {
    "NaN": ([1.0, np.nan, 1.0], r"sample_weight must be 0 or lie between.*got nan in row 1"),
    "infinity": ([1.0, 1.0, np.inf], r"sample_weight must be 0 or lie between.*got inf in row 2"),
    "negative": ([1.0, 2.0, -3.0], r"sample_weight must be 0 or lie between.*got -3 in row 2"),
    "too few": ([1.0, 1.0], r"one number per row \(3\), got shape \(2,\)"),
    "a table": (np.ones((3, 2)), r"one number per row \(3\), got shape \(3, 2\)"),
    "words": (["a", "b", "c"], "sample_weight must hold numbers"),
    "nothing": ([0.0, 0.0, 0.0], "sample_weight must have a sum above zero"),
    "one row": ([0.0, 4.0, 0.0], "above 0 for at least 2 rows, got 1 of 3"),
    "next to nothing": ([1e-300, 2e-300, 0.0], "must be 0 or lie between 1e-100.*got 1e-300"),
    "one number": (2.0, r"one number per row \(3\), got shape \(\)"),
}


@pytest.mark.parametrize(("weights", "told"), BAD.values(), ids=BAD)
def test_bad_weights_are_refused_in_a_sentence(weights, told):
    with pytest.raises(ValueError, match=told):
        PresentRows.from_weights(weights, 3)


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
@pytest.mark.parametrize("scale", [1e-90, 1e-6, 1e6])
def test_weights_of_any_size_are_counted(rng, scale):
    """All of them times a number: so many times the rows, beside a ridge as many times larger."""
    X = rng.normal(size=(40, 3))
    w = rng.uniform(1, 2, size=40)
    models = [FairKernelRidge(alpha=alpha, gamma=0.3) for alpha in (0.1, 0.1 * scale)]
    for model, c in zip(models, (1.0, scale), strict=True):
        model.fit(X, X[:, 1], sensitive_features=X[:, 0], sample_weight=c * w)
    assert_allclose(models[1].predict(X), models[0].predict(X), atol=1e-8)


def test_one_row_will_do_where_no_spread_is_needed():
    assert len(PresentRows.from_weights([0.0, 4.0, 0.0], 3, least=1)) == 1


@pytest.mark.parametrize("weights", [None, [1, 1, 1], np.ones(3)])
def test_ones_are_no_weights(weights):
    there = PresentRows.from_weights(weights, 3)
    assert there.rows is None
    assert there.w is None
    X = np.eye(3)
    assert there.inputs(X) is X


def test_rows_of_weight_zero_are_left_out_of_everything():
    there = PresentRows.from_weights([2, 0, 1, 0], 4)
    assert_array_equal(there.inputs(np.arange(8).reshape(4, 2)), [[0, 1], [4, 5]])
    assert_array_equal(there.w, [2.0, 1.0])
    assert there.select("y", ["a", "b", "c", "d"]) == ["a", "c"]
    frame = pd.DataFrame({"age": [1, 2, 3, 4]}, index=[9, 8, 7, 6])
    assert there.select("sensitive_features", frame)["age"].tolist() == [1, 3]
    assert there.select("y", None) is None


@pytest.mark.parametrize("n", [2, 3, 5])
def test_what_stands_beside_must_be_as_long_as_all_rows(n):
    """Two would otherwise be taken for the two that are left."""
    there = PresentRows.from_weights([2, 0, 1, 0], 4)
    with pytest.raises(ValueError, match=rf"y must have one row per sample \(4\), got {n}"):
        there.select("y", np.ones(n))


@pytest.mark.parametrize("model", [FairKernelRidge, FairSVR, FairKernelLearning])
def test_columns_of_a_precomputed_kernel_cannot_be_left_out(rng, model):
    X = rng.normal(size=(20, 3))
    w = np.ones(20)
    w[3] = 0
    told = "above 0 if kernel='precomputed'.*got 0 for 1 of 20"
    with pytest.raises(ValueError, match=told):
        model("precomputed").fit(X @ X.T, X[:, 1], sensitive_features=X[:, 0], sample_weight=w)


def test_a_sensitive_column_that_varies_only_in_absent_rows_is_constant(rng):
    X, s = rng.normal(size=(30, 3)), np.r_[np.ones(28), 2.0, 3.0]
    w = np.r_[np.ones(28), 0.0, 0.0]
    with pytest.raises(ValueError, match="must vary, got a constant over the 28 samples"):
        FairKernelRidge().fit(X, X[:, 1], sensitive_features=s, sample_weight=w)


def test_names_of_columns_survive(rng):
    X = rng.normal(size=(30, 3))
    frame = pd.DataFrame({"age": np.ones(30)})
    w = np.r_[np.zeros(5), np.ones(25)]
    with pytest.raises(ValueError, match="column 'age' must vary"):
        FairKernelDecomposition().fit(X, sensitive_features=frame, sample_weight=w)


def counted(rng, n, most=3):
    """Whole weights of n rows, with the rows in which each stands as often as it weighs."""
    w = rng.integers(1, most + 1, size=n)
    return w.astype(np.float64), np.repeat(np.arange(n), w)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 9), ties=st.booleans())
def test_statistics_are_those_of_repeated_rows(seed, n, ties):
    rng = np.random.default_rng(seed)
    A = rng.normal(loc=7.0, size=(n, 2))
    A = np.round(A) if ties else A
    w, repeated = counted(rng, n)
    B = A[repeated]
    assert row_count(n, w) == len(B)
    assert_allclose(weighted_sum(A, w), B.sum(axis=0))
    assert_allclose(times_weights(A, w).sum(axis=0), B.sum(axis=0))
    assert_allclose(weighted_mean(A, w), B.mean(axis=0))
    assert_allclose(weighted_std(A, w), B.std(axis=0), atol=1e-12)
    assert_allclose(weighted_median(A, w), np.median(B, axis=0))


def test_without_weights_nothing_is_copied_and_no_bit_differs(rng):
    A = rng.normal(size=(1001, 3))
    assert times_weights(A, None) is A
    assert_array_equal(weighted_mean(A, None), A.mean(axis=0))
    assert_array_equal(weighted_std(A, None), A.std(axis=0))
    assert_array_equal(weighted_median(A, None), np.median(A, axis=0))
    assert isinstance(row_count(7, None), int)


@pytest.mark.parametrize(
    ("weigh", "removal", "fit"), [("both", 1, 1), ("removal", 1, 0), ("fit", 0, 1)]
)
def test_a_word_says_where_weights_count(weigh, removal, fit):
    w = np.array([1.0, 2.0, 5.0])
    weights = RowWeights.from_weights(w, weigh)
    assert (weights.removal is not None, weights.fit is not None) == (removal, fit)
    assert weights.alike is (weigh == "both")
    part = weights.part(np.array([0, 2]))
    assert part.alike is weights.alike  # so that one sum serves both in a part too
    for found, counts in ((part.removal, removal), (part.fit, fit)):
        assert_array_equal(found, np.array([1.0, 5.0]) if counts else None)
    assert weights.share(np.array([0, 2]), 3) == pytest.approx(6 / 8 if fit else 2 / 3)


def test_another_word_is_refused():
    with pytest.raises(ValueError, match=r"weigh must be .*both.*removal.*fit.*got 'all'"):
        RowWeights.from_weights(None, "all")


def test_moments_are_those_of_repeated_rows(rng):
    G, S, y = sample(rng)
    w, repeated = counted(rng, len(G))
    assert_equal_moments(
        Moments.from_rows(G, S, y, w), Moments.from_rows(G[repeated], S[repeated], y[repeated])
    )


@pytest.mark.parametrize("given", [False, True])
def test_products_with_functions_are_those_of_repeated_rows(rng, given):
    G, B, _ = sample(rng)
    Z = rng.normal(size=(len(G), 3)) + B[:, :1] if given else None
    w, repeated = counted(rng, len(G))
    found = BasisMoments.from_rows(G, B, Z, w)
    expected = BasisMoments.from_rows(G[repeated], B[repeated], None if Z is None else Z[repeated])
    for name, value in vars(expected).items():
        assert_allclose(getattr(found, name), value, rtol=1e-10, err_msg=name)
    assert_allclose(found.covariance(), expected.covariance(), atol=1e-12)
    assert found.remaining_share == pytest.approx(expected.remaining_share)


@pytest.mark.parametrize("kind", ["exact", "nystroem", "fourier"])
def test_every_block_of_rows_finds_its_own_weights(rng, monkeypatch, kind):
    monkeypatch.setattr("fkd.core.feature_maps.BLOCK_ROWS", 16)
    X, S, y = sample(rng, n=70)
    w = rng.uniform(0.1, 3.0, size=70)
    fmap = make_map(X, gamma=0.3, approximation=kind, landmarks=20, random_state=0)
    G = np.concatenate(list(fmap.training_blocks(X)))
    assert_equal_moments(
        training_moments(fmap, X, S, y, w), Moments.from_rows(G, S, y, w), rtol=1e-8
    )
    found, expected = basis_moments(fmap, X, S, None, w), BasisMoments.from_rows(G, S, None, w)
    for name, value in vars(expected).items():
        assert_allclose(getattr(found, name), value, rtol=1e-8, atol=1e-10, err_msg=name)


def test_removal_and_machine_have_moments_of_their_own(rng):
    X, S, y = sample(rng, n=40)
    w = rng.uniform(0.5, 2.0, size=40)
    fmap = make_map(X, gamma=0.3)
    plain, weighed = training_moments(fmap, X, S, y), training_moments(fmap, X, S, y, w)
    fit, removing = weighted_moments(fmap, X, S, y, RowWeights.from_weights(w, "removal"))
    assert_equal_moments(fit, plain, rtol=0)
    assert_equal_moments(removing, weighed, rtol=0)
    fit, removing = weighted_moments(fmap, X, S, y, RowWeights.from_weights(w, "both"))
    assert fit is removing


@pytest.mark.parametrize("n", [5, BLOCK_ROWS, 2 * BLOCK_ROWS + 7])
@pytest.mark.parametrize("way", SUM_PRECISIONS)
def test_streamed_sums_are_those_of_repeated_rows(rng, way, n):
    X = rng.normal(size=(n, 3))
    S, y, W = X[:, :2] + 3.0, np.sin(X[:, 2]) + 2.0, rng.normal(size=(n, 4)) + 1.0
    kind = "fourier" if way == "float32" else "nystroem"  # single precision rounds each row anew
    fmap = make_map(
        rng.normal(size=(300, 3)), gamma=0.5, approximation=kind, landmarks=30, random_state=0
    )
    w, repeated = counted(rng, n)
    weighed, expected = (StreamedSums(fmap, way, [2, 4]) for _ in range(2))
    half = n // 2
    for part in (slice(0, half), slice(half, n)):  # rows come in several pieces
        weighed.add(X[part], S[part], y[part], [W[part]], weights=w[part])
    expected.add(X[repeated], S[repeated], y[repeated], [W[repeated]])
    assert weighed.moments().n == len(repeated)
    for a, b in (
        (weighed.moments(), expected.moments()),
        (weighed.basis_moments(0, 4), expected.basis_moments(0, 4)),
    ):
        for name, value in vars(b).items():
            top = np.abs(value).max()
            assert_allclose(getattr(a, name), value, rtol=0, atol=1e-11 * top, err_msg=name)


def test_rows_that_are_not_weighed_are_counted_in_whole_numbers(rng):
    fmap = make_map(rng.normal(size=(50, 3)), gamma=0.5, approximation="fourier", landmarks=8)
    sums = StreamedSums(fmap, "rows", [1])
    sums.add(rng.normal(size=(9, 3)), np.ones((9, 1)), np.ones(9))
    assert isinstance(sums.moments().n, int)


@pytest.mark.parametrize("kind", ["columns", "rbf", "splines", "levels"])
def test_functions_of_s_are_those_of_repeated_rows(rng, kind):
    S = np.round(rng.normal(size=(60, 2)), 1)
    w, repeated = counted(rng, 60)
    weighed = centred(BasisSettings(kind).fit(S, w=w), S, w)
    expected = centred(BasisSettings(kind).fit(S[repeated]), S[repeated])
    assert_allclose(weighed(S), expected(S), atol=1e-10)
    plain = centred(BasisSettings(kind).fit(S), S)
    if kind != "rbf":  # whose landmarks are more with more rows
        assert np.abs(weighed(S) - plain(S)).max() > 1e-3  # weights do count


def test_weights_below_one_leave_as_many_functions_as_rows_do(rng):
    S = rng.normal(size=(4 * RBF_SIZE, 2))
    few = BasisSettings("rbf").fit(S, w=np.full(len(S), 1e-6))
    assert few(S).shape == BasisSettings("rbf").fit(S)(S).shape

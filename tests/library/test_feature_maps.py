"""Feature maps: exact, Nystroem, Fourier, identity, and how many landmarks suffice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core import feature_maps as make
from fkd.core.feature_maps import (
    ExactMap,
    FourierMap,
    IdentityMap,
    NystroemMap,
    adequate_landmarks,
    make_map,
    map_arrays,
    map_from_arrays,
)
from fkd.core.kernels import Kernel
from fkd.core.landmarks import rp_cholesky


@pytest.mark.parametrize(
    ("approximation", "kind"),
    [
        ("exact", ExactMap),
        ("nystroem", NystroemMap),
        ("fourier", FourierMap),
        ("identity", IdentityMap),
        ("auto", ExactMap),
    ],
)
def test_the_approximation_decides_the_map(rng, approximation, kind):
    X = rng.normal(size=(30, 3))
    X.flags.writeable = False
    kernel = "linear" if kind is IdentityMap else "rbf"
    setting = {"approximation": approximation, "landmarks": 10, "random_state": 0}
    fmap = make_map(X, kernel=kernel, gamma=0.5, **setting)
    assert isinstance(fmap, kind)
    assert np.isfinite(fmap.transform(X)).all()


def test_auto_turns_to_landmarks_beyond_what_the_exact_map_is_for(rng, monkeypatch):
    monkeypatch.setattr(make, "EXACT_ROWS", 20)
    fmap = make_map(rng.normal(size=(30, 3)), approximation="auto", random_state=0)
    assert isinstance(fmap, NystroemMap)


def test_gamma_defaults_to_one_over_the_number_of_inputs(rng):
    X = rng.normal(size=(30, 4))
    assert make_map(X).kernel == Kernel("rbf", 0.25, 3, 1.0)


@pytest.mark.parametrize("approximation", ["exact", "nystroem"])
def test_a_precomputed_kernel_is_as_good_as_its_rows(rng, approximation):
    X, new = rng.normal(size=(30, 4)), rng.normal(size=(5, 4))
    k = Kernel("rbf", 0.25)
    setting = {"approximation": approximation, "landmarks": 12, "random_state": 3}
    by_rows = make_map(X, kernel="rbf", gamma=0.25, **setting)
    by_matrix = make_map(k.gram(X), kernel="precomputed", **setting)
    assert_allclose(by_matrix.transform(k(new, X)), by_rows.transform(new), atol=1e-8)


@pytest.mark.parametrize("seed", [np.random.RandomState(1), np.random.default_rng(1), 1, None])
def test_every_way_to_name_a_seed_works(rng, seed):
    fmap = make_map(
        rng.normal(size=(9, 2)), approximation="fourier", landmarks=4, random_state=seed
    )
    assert fmap.rank == 4


def test_equal_seeds_give_equal_maps(rng):
    X = rng.normal(size=(50, 2))
    maps = [make_map(X, approximation="nystroem", landmarks=7, random_state=1) for _ in range(2)]
    assert_array_equal(maps[0].centers, maps[1].centers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "rfb"}, "kernel must be one of rbf.*got 'rfb'"),
        ({"gamma": 0}, "gamma must be a finite number above 0, got 0"),
        ({"gamma": np.inf}, "gamma must be a finite number above 0"),
        ({"degree": 0}, "degree must be at least 1, got 0"),
        ({"coef0": -1.0}, "coef0 must not be negative"),
        ({"approximation": "nystrom"}, "approximation must be one of exact.*got 'nystrom'"),
        ({"landmark_method": "kmeans"}, "landmark_method must be one of rpcholesky"),
        ({"approximation": "nystroem", "landmarks": 10}, r"landmarks must be in \[1, 9\], got 10"),
        ({"approximation": "nystroem", "landmarks": 0}, r"landmarks must be in \[1, 9\], got 0"),
        ({"approximation": "fourier", "landmarks": 0}, "landmarks must be at least 1, got 0"),
        ({"kernel": "precomputed"}, r"X must be a symmetric matrix.*\(9, 2\)"),
    ],
)
def test_a_bad_setting_is_refused_by_name(rng, change, message):
    with pytest.raises(ValueError, match=message):
        make_map(rng.normal(size=(9, 2)), **change)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
@pytest.mark.parametrize("approximation", ["exact", "nystroem"])
def test_one_row_has_one_feature(kernel, approximation):
    fmap = make_map(np.ones((1, 2)), kernel=kernel, approximation=approximation)
    assert fmap.rank == 1


KERNELS = [
    Kernel("rbf", 0.2),
    Kernel("laplacian", 0.2),
    Kernel("polynomial", 1.0, 2),
    Kernel("linear"),
]


def rows(rng, n=60, d=4):
    return rng.normal(size=(n, d))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_exact_features_give_the_kernel_back(rng, kernel):
    X = rows(rng)
    fmap = ExactMap.from_rows(kernel, X)
    (G,) = fmap.training_blocks(X)
    K = kernel.gram(X)
    scale = np.trace(K)
    assert_allclose(G @ G.T, K, rtol=0, atol=1e-12 * scale)
    assert_allclose(fmap.transform(X), G, rtol=0, atol=1e-7 * np.sqrt(scale))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), copies=st.integers(0, 10))
def test_duplicate_rows_change_neither_rank_nor_features(seed, copies):
    X = rows(np.random.default_rng(seed), n=20)
    fmap = ExactMap.from_rows(Kernel("rbf", 0.2), np.vstack([X, X[:copies]]))
    assert fmap.rank == 20
    assert_allclose(fmap.G[20:], fmap.G[:copies], atol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "rank"), [(Kernel("linear"), 4), (Kernel("polynomial", 1.0, 2), 15)]
)
def test_a_singular_kernel_has_the_rank_of_its_feature_space(rng, kernel, rank):
    assert ExactMap.from_rows(kernel, rows(rng)).rank == rank


@pytest.mark.parametrize(
    "method", [ExactMap.from_rows, lambda k, X: NystroemMap.from_landmarks(k, X, np.arange(len(X)))]
)
def test_products_agree_with_features(rng, method):
    X, new, B = rows(rng), rows(rng, n=9), rng.normal(size=(60, 3))
    fmap = method(Kernel("rbf", 0.5), X)
    assert_allclose(fmap.product(new, B), fmap.transform(new) @ B, atol=1e-9)
    assert_allclose(fmap.training_product(X, B), fmap.product(X, B), atol=1e-9)
    a = rng.normal(size=60)
    assert_allclose(fmap.training_adjoint(X, a), fmap.transform(X).T @ a, atol=1e-8)
    assert_allclose(fmap.cross(new, X), fmap.kernel(new, X), atol=1e-9)


def test_all_rows_as_landmarks_give_the_exact_map(rng):
    X, kernel = rows(rng), Kernel("rbf", 0.5)
    exact, full = (
        ExactMap.from_rows(kernel, X),
        NystroemMap.from_landmarks(kernel, X, np.arange(60)),
    )
    assert_array_equal(exact.centers, full.centers)
    assert_allclose(exact.G, full.transform(X), atol=1e-9)


def test_landmarks_that_repeat_are_left_out(rng):
    X = rows(rng)
    fmap = NystroemMap.from_landmarks(Kernel("rbf", 0.5), np.vstack([X, X]), np.r_[0:20, 60:70])
    assert fmap.rank == 20


def test_a_nystroem_map_reproduces_its_landmarks_and_underestimates_the_rest(rng):
    X, kernel = rows(rng), Kernel("rbf", 0.5)
    fmap = NystroemMap.from_landmarks(kernel, X, np.arange(20))
    K, approximate = kernel.gram(X), fmap.training_gram(X)
    assert_allclose(approximate[:20], K[:20], atol=1e-10)
    assert np.linalg.eigvalsh(K - approximate)[0] > -1e-12
    assert (approximate.diagonal()[20:] < 1 - 1e-3).all()
    assert_array_equal(fmap.unrepresented(X, fmap.transform(X)), np.zeros(60))


def test_the_exact_diagonal_holds_what_lies_outside_the_training_span(rng):
    fmap = ExactMap.from_rows(Kernel("rbf", 0.5), rows(rng))
    far = rows(rng, n=3) + 100
    assert_allclose(fmap.transform(far), 0, atol=1e-12)
    assert_array_equal(fmap.unrepresented(far, fmap.transform(far)), np.ones(3))


def test_an_exact_map_refuses_rows_it_was_not_made_from(rng):
    fmap = ExactMap.from_rows(Kernel("rbf", 0.5), rows(rng))
    with pytest.raises(ValueError, match="X must be the 60 training rows"):
        list(fmap.training_blocks(rows(rng, n=9)))


@pytest.mark.parametrize("copies", [0, 5])
def test_an_expansion_predicts_what_features_times_weights_do(rng, copies):
    X = rows(rng)
    fmap = ExactMap.from_rows(Kernel("rbf", 0.2), np.vstack([X, X[:copies]]))
    beta, new = rng.normal(size=fmap.rank), rows(rng, n=9)
    f = fmap.expansion(beta, 0.5)
    assert_allclose(f.predict(new), fmap.transform(new) @ beta + 0.5, atol=1e-8)


def test_float32_rows_give_float64_features(rng):
    X = rows(rng)
    fmap = NystroemMap.from_landmarks(Kernel("rbf", 0.5), X, np.arange(20))
    G = fmap.transform(X.astype(np.float32))
    assert G.dtype == np.float64
    assert_allclose(G, fmap.transform(X), atol=1e-4)


def worst_error(kernel, X, q, seed):
    G = FourierMap.from_kernel(kernel, X.shape[1], q, rng=np.random.default_rng(seed)).transform(X)
    return np.abs(G @ G.T - kernel.gram(X)).max(axis=None)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_inner_products_approach_the_kernel_as_features_are_added(rng, name):
    X, kernel = rng.normal(size=(20, 3)), Kernel(name, 0.4)
    # The error is about 1/sqrt(q) per entry; 190 entries make the worst some four times that.
    assert worst_error(kernel, X, 40_000, seed=0) < 6 / np.sqrt(40_000)
    assert worst_error(kernel, X, 40, seed=0) > 0.1


def test_the_expansion_predicts_what_features_times_weights_do(rng):
    X, beta = rng.normal(size=(20, 3)), rng.normal(size=50)
    fmap = FourierMap.from_kernel(Kernel("rbf", 0.4), 3, 50, rng=rng)
    assert fmap.rank == 50
    assert_allclose(fmap.expansion(beta, 2.0).predict(X), fmap.transform(X) @ beta + 2.0)


def test_fourier_features_of_float32_rows_are_float64(rng):
    X = rng.normal(size=(20, 3))
    fmap = FourierMap.from_kernel(Kernel("rbf", 0.4), 3, 50, rng=rng)
    G = fmap.transform(X.astype(np.float32))
    assert G.dtype == np.float64
    assert_allclose(G, fmap.transform(X), atol=1e-5)


@pytest.mark.parametrize("name", ["linear", "polynomial", "precomputed"])
def test_kernels_without_a_spectrum_are_refused(rng, name):
    with pytest.raises(ValueError, match=f"shift-invariant.*{name}.*nystroem"):
        FourierMap.from_kernel(Kernel(name), 3, 5, rng=rng)


def test_the_features_are_the_inputs(rng):
    X = rng.normal(size=(9, 4))
    fmap = IdentityMap(4)
    assert fmap.rank == 4
    assert_array_equal(fmap.transform(X), X)
    assert_allclose(fmap.cross(X[:3], X), X[:3] @ X.T)
    assert_array_equal(fmap.unrepresented(X, X), np.zeros(9))


def test_the_expansion_is_one_centre_of_a_linear_kernel(rng):
    X, beta = rng.normal(size=(9, 4)), rng.normal(size=4)
    f = IdentityMap(4).expansion(beta, 0.5)
    assert f.kernel == "linear"
    assert_allclose(f.predict(X), X @ beta + 0.5)
    assert np.shape(f.centers) == (1, 4)


KERNEL = Kernel("rbf", 0.3)


@pytest.fixture
def offered(rng):
    X = rng.normal(size=(1200, 4))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=1200)


def adequate(offered, rng, accuracy, most=900):
    return adequate_landmarks(KERNEL, *offered, accuracy=accuracy, most=most, alpha=0.1, rng=rng)


def unexplained(X, q, fresh, rng):
    """Share of k(x, x) of new rows that so many landmarks of X leave."""
    landmarks = rp_cholesky(KERNEL, X, np.arange(len(X)), q, rng=rng)
    G = NystroemMap.from_landmarks(KERNEL, X, landmarks).transform(fresh)
    return 1 - np.einsum("ij,ij->", G, G) / len(fresh)


@pytest.mark.parametrize("accuracy", [0.3, 0.1, 0.03])
def test_what_is_asked_for_holds_of_rows_that_were_never_seen(offered, rng, accuracy):
    found = adequate(offered, rng, accuracy)
    assert found.unexplained <= accuracy
    fresh = rng.normal(size=(4000, 4))
    # Of rows that were never offered, as of 150 that were set apart.
    assert abs(unexplained(offered[0], found.landmarks, fresh, rng) - accuracy) < 0.25 * accuracy


def test_fewer_landmarks_would_not_be_enough(offered, rng):
    found = adequate(offered, rng, 0.05)
    fresh = rng.normal(size=(4000, 4))
    assert unexplained(offered[0], found.landmarks // 2, fresh, rng) > 1.3 * 0.05


def test_no_more_are_taken_than_are_affordable(offered, rng):
    found = adequate(offered, rng, 1e-4, most=40)
    assert found.landmarks == 40
    assert found.unexplained > 1e-2


def test_half_of_the_landmarks_change_predictions_the_more_the_fewer_there_are(offered, rng):
    coarse, fine = (adequate(offered, rng, accuracy).halved for accuracy in (0.5, 0.02))
    assert fine < coarse / 2


def test_rows_of_few_kinds_need_as_many_landmarks(rng):
    kinds = rng.normal(size=(7, 4))
    X = kinds[rng.integers(7, size=400)]
    found = adequate((X, X[:, 0]), rng, 1e-6)
    assert found.landmarks == 7
    assert found.unexplained < 1e-12


# Stored maps.


@pytest.mark.parametrize(
    ("kernel", "approximation"),
    [
        ("rbf", "nystroem"),
        ("polynomial", "nystroem"),
        ("rbf", "fourier"),
        ("laplacian", "fourier"),
    ],
)
def test_a_stored_map_gives_the_same_bits(rng, kernel, approximation):
    X = rng.normal(size=(80, 3))
    # Repeated rows force the pivoted factor.
    made = make_map(
        np.concatenate([X, X]),
        kernel=kernel,
        gamma=0.3,
        approximation=approximation,
        landmarks=120,
        landmark_method="uniform",
        random_state=0,
    )
    arrays = map_arrays(made)
    assert not any(array.dtype.hasobject for array in arrays.values())
    assert_array_equal(map_from_arrays(arrays).transform(X), made.transform(X))


@pytest.mark.parametrize(
    ("kernel", "approximation"), [("rbf", "exact"), (lambda X, Z: X @ Z.T, "nystroem")]
)
def test_maps_that_cannot_be_stored_are_refused(rng, kernel, approximation):
    made = make_map(
        rng.normal(size=(20, 3)), kernel=kernel, approximation=approximation, landmarks=3
    )
    with pytest.raises(ValueError, match="only Nystroem maps of named kernels"):
        map_arrays(made)

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core import feature_maps as make
from fkd.core.feature_maps import ExactMap, FourierMap, IdentityMap, NystroemMap, make_map
from fkd.core.kernels import Kernel


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

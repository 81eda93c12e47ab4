"""The methods of the paper's algorithms against `krr_fkd` and `svr_fkd`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.kernels import Kernel
from fkd.methods import Training, method
from fkd.methods.paper_methods import (
    WHOLE_ROWS,
    NystroemRidge,
    NystroemSVR,
    Printed,
    kernel_passes,
)
from fkd.paper.algorithm2 import KernelRows


@pytest.fixture
def training(rng):
    X = rng.uniform(size=(80, 4))
    S = X[:, :1] ** 2 + 0.1 * rng.uniform(size=(80, 1))
    return Training(X, X[:, 0] + np.sin(4 * X[:, 1]), S, seed=0)


def predict(name, training, settings, X):
    return [f.predict(X) for f in method(name).fit(training, settings)]


def test_the_printed_recursion_predicts_as_the_path_for_small_m(training, rng):
    X = rng.uniform(size=(30, 4))
    lengths = [0, 1, 4, 8]
    ours = method("krr_fkd").parameters
    path = predict("krr_fkd", training, [ours(iterations=m, gamma=2.0) for m in lengths], X)
    printed = [Printed(iterations=m, gamma=2.0) for m in lengths]
    assert_allclose(predict("krr_fkd_printed", training, printed, X), path, rtol=1e-7, atol=1e-9)


def test_a_printed_setting_does_not_depend_on_others(training):
    alone = predict("krr_fkd_printed", training, [Printed(iterations=3)], training.X)
    settings = [Printed(iterations=5, alpha=1.0), Printed(iterations=3), Printed(ridge=0.5)]
    together = predict("krr_fkd_printed", training, settings, training.X)
    assert_array_equal(together[1], alone[0])


def test_svr_with_all_rows_as_landmarks_is_the_exact_method(training, rng):
    X = rng.uniform(size=(30, 4))
    exact = method("svr_fkd").parameters
    common = {"gamma": 2.0, "ridge": 0.5}
    path = predict("svr_fkd", training, [exact(iterations=m, **common) for m in (1, 3)], X)
    all_rows = [NystroemSVR(iterations=m, fraction=1.0, **common) for m in (1, 3)]
    # libsvm stops within its own tolerance.
    assert_allclose(predict("svr_fkd_nystroem", training, all_rows, X), path, atol=5e-3)


def test_fewer_landmarks_give_another_path(training):
    few = [NystroemSVR(iterations=3, fraction=f, gamma=2.0) for f in (0.05, 1.0)]
    one, other = predict("svr_fkd_nystroem", training, few, training.X)
    assert np.abs(one - other).max() > 1e-3


def test_without_iterations_it_is_the_plain_svr(training):
    plain = predict("svr", training, [method("svr").parameters(gamma=0.05)], training.X)
    none = predict("svr_fkd_nystroem", training, [NystroemSVR(iterations=0)], training.X)
    assert_array_equal(none[0], plain[0])


@pytest.fixture
def census(rng):
    """300 rows with two sensitive columns."""
    X = rng.normal(size=(300, 4))
    S = X[:, :2] ** 2 * [1.0, 5.0] + [3.0, -2.0] + 0.1 * rng.normal(size=(300, 2))
    return Training(X, np.sin(X[:, 0]) + X[:, 1] + 5.0, S, seed=0)


@pytest.mark.parametrize("form", [{}, {"center_sensitive": True, "fit_intercept": True}])
def test_ridge_with_all_rows_as_landmarks_is_the_exact_method(census, form):
    common = {"gamma": 0.2, "ridge": 0.5, **form}
    exact = [method("krr_fkd").parameters(iterations=m, **common) for m in (0, 1, 3)]
    passes = [NystroemRidge(iterations=m, fraction=1.0, **common) for m in (0, 1, 3)]
    X = census.X[:50]
    assert_allclose(
        predict("krr_fkd_nystroem", census, passes, X),
        predict("krr_fkd", census, exact, X),
        atol=1e-6,
    )


def test_tiles_and_the_whole_matrix_predict_the_same(census):
    settings = [NystroemRidge(m, 0.1, 0.2, fit_intercept=m > 0) for m in (0, 2, 5)]
    X = census.X

    def in_tiles(gamma, landmarks):
        return KernelRows(Kernel("rbf", gamma), X, landmarks, 64)

    tiled = Training(X, census.y, census.S, seed=0, passes=in_tiles)
    assert_allclose(
        predict("krr_fkd_nystroem", tiled, settings, X),
        predict("krr_fkd_nystroem", census, settings, X),
        atol=1e-7,
    )


def test_the_matrix_of_many_rows_is_not_kept(rng):
    for n, name in ((WHOLE_ROWS + 1, "rbf"), (50, "precomputed")):
        X = rng.normal(size=(n, 1))
        training = Training(X, X[:, 0], X, seed=0)
        assert kernel_passes(training, 0.2, np.arange(3)).kernel.name == name


def test_settings_of_several_paths_keep_their_order(census):
    settings = [NystroemRidge(2, f, g) for f in (0.1, 0.5) for g in (0.2, 0.4)]
    mixed = [settings[i] for i in (2, 0, 3, 1)]
    alone = [predict("krr_fkd_nystroem", census, [p], census.X)[0] for p in mixed]
    assert_array_equal(predict("krr_fkd_nystroem", census, mixed, census.X), alone)

"""The paper's own algorithms as methods: what they share with ours, where they part."""

import numpy as np
import pytest

from fkd.methods import Training, method
from fkd.methods.krr_fkd_printed import Parameters as Printed
from fkd.methods.svr_fkd_nystroem import Parameters as Nystroem


@pytest.fixture
def training(rng):
    X = rng.uniform(size=(80, 4))
    S = X[:, :1] ** 2 + 0.1 * rng.uniform(size=(80, 1))
    return Training(X, X[:, 0] + np.sin(4 * X[:, 1]), S, seed=0)


def _predict(name, training, settings, X):
    return [f.predict(X) for f in method(name).fit(training, settings)]


def test_the_printed_recursion_predicts_what_the_path_predicts_at_small_m(training, rng):
    X = rng.uniform(size=(30, 4))
    lengths = [0, 1, 4, 8]
    ours = method("krr_fkd").parameters
    path = _predict("krr_fkd", training, [ours(iterations=m, gamma=2.0) for m in lengths], X)
    printed = [Printed(iterations=m, gamma=2.0) for m in lengths]
    np.testing.assert_allclose(
        _predict("krr_fkd_printed", training, printed, X), path, rtol=1e-7, atol=1e-9
    )


def test_a_printed_trial_does_not_depend_on_its_neighbours(training):
    alone = _predict("krr_fkd_printed", training, [Printed(iterations=3)], training.X)
    settings = [Printed(iterations=5, alpha=1.0), Printed(iterations=3), Printed(ridge=0.5)]
    together = _predict("krr_fkd_printed", training, settings, training.X)
    np.testing.assert_array_equal(together[1], alone[0])


def test_every_row_a_landmark_is_the_exact_inverse(training, rng):
    X = rng.uniform(size=(30, 4))
    exact = method("svr_fkd").parameters
    common = {"gamma": 2.0, "ridge": 0.5}
    path = _predict("svr_fkd", training, [exact(iterations=m, **common) for m in (1, 3)], X)
    all_rows = [Nystroem(iterations=m, fraction=1.0, **common) for m in (1, 3)]
    # Support vectors stop within libsvm's own tolerance.
    np.testing.assert_allclose(_predict("svr_fkd_nystroem", training, all_rows, X), path, atol=5e-3)


def test_fewer_landmarks_are_another_path(training):
    few = [Nystroem(iterations=3, fraction=f, gamma=2.0) for f in (0.05, 1.0)]
    one, other = _predict("svr_fkd_nystroem", training, few, training.X)
    assert np.abs(one - other).max() > 1e-3


def test_nothing_removed_is_the_plain_machine(training):
    plain = _predict("svr", training, [method("svr").parameters(gamma=0.05)], training.X)
    none = _predict("svr_fkd_nystroem", training, [Nystroem(iterations=0)], training.X)
    np.testing.assert_array_equal(none[0], plain[0])

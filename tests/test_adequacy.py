"""How many landmarks are enough is told by rows that could not become any."""

import numpy as np
import pytest

from fkd.core.feature_maps import NystroemMap, adequate_landmarks
from fkd.core.kernels import Kernel
from fkd.core.landmarks import rp_cholesky

KERNEL = Kernel("rbf", 0.3)


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(1200, 4))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=1200)


def adequate(rows, rng, accuracy, most=900):
    return adequate_landmarks(KERNEL, *rows, accuracy=accuracy, most=most, alpha=0.1, rng=rng)


def unexplained(X, q, fresh, rng):
    """Share of k(x, x) of new rows that so many landmarks of X leave."""
    landmarks = rp_cholesky(KERNEL, X, np.arange(len(X)), q, rng=rng)
    G = NystroemMap.from_landmarks(KERNEL, X, landmarks).transform(fresh)
    return 1 - np.einsum("ij,ij->", G, G) / len(fresh)


@pytest.mark.parametrize("accuracy", [0.3, 0.1, 0.03])
def test_what_is_asked_for_holds_of_rows_that_were_never_seen(rows, rng, accuracy):
    found = adequate(rows, rng, accuracy)
    assert found.unexplained <= accuracy
    fresh = rng.normal(size=(4000, 4))
    # Of rows that were never offered, as of 150 that were set apart.
    assert abs(unexplained(rows[0], found.landmarks, fresh, rng) - accuracy) < 0.25 * accuracy


def test_fewer_landmarks_would_not_be_enough(rows, rng):
    found = adequate(rows, rng, 0.05)
    fresh = rng.normal(size=(4000, 4))
    assert unexplained(rows[0], found.landmarks // 2, fresh, rng) > 1.3 * 0.05


def test_no_more_are_taken_than_are_affordable(rows, rng):
    found = adequate(rows, rng, 1e-4, most=40)
    assert found.landmarks == 40
    assert found.unexplained > 1e-2


def test_half_of_the_landmarks_change_predictions_the_more_the_fewer_there_are(rows, rng):
    coarse, fine = (adequate(rows, rng, accuracy).halved for accuracy in (0.5, 0.02))
    assert fine < coarse / 2


def test_rows_of_few_kinds_need_as_many_landmarks(rng):
    kinds = rng.normal(size=(7, 4))
    X = kinds[rng.integers(7, size=400)]
    found = adequate((X, X[:, 0]), rng, 1e-6)
    assert found.landmarks == 7
    assert found.unexplained < 1e-12

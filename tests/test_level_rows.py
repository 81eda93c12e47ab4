"""Sums over rows that share their place are those over the rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.measures import profiles as level_rows
from fkd.measures.profiles import LevelRows, SmoothingPoints


@pytest.mark.parametrize("levels", [6, 40, 10**6])
@pytest.mark.parametrize("weighed", [False, True])
def test_sums_are_those_of_the_rows_one_by_one(rng, monkeypatch, levels, weighed):
    monkeypatch.setattr(level_rows, "BLOCK_ROWS", 16)
    n = 500
    s = rng.integers(levels, size=n) / levels
    # Far from zero, where squares less squares would lose what is looked for.
    V = np.column_stack([1e6 + s + rng.normal(size=n), s])
    w = rng.uniform(0.5, 3.0, size=n) if weighed else None
    places = SmoothingPoints.from_column(s, 41, w)
    rows = LevelRows.from_rows(V, places)
    B = places.weights(slice(None)) * (1.0 if w is None else w)
    assert_allclose(rows.weight, B.sum(axis=1))
    assert_allclose(rows.squares, (B**2).sum(axis=1))
    means = (B @ V).T / B.sum(axis=1)
    assert_allclose(rows.means, means)
    for v, mean, H in zip(V.T, means, rows.spreads(), strict=True):
        A = B * (v - mean[:, None])
        # A column that is constant at every level has rounding alone.
        assert_allclose(H, A @ A.T, atol=1e-8 * np.abs(A @ A.T).max() + 1e-20)


def test_some_of_the_points_have_their_own_sums(rng):
    s = rng.normal(size=300)
    rows = LevelRows.from_rows(s[:, None], SmoothingPoints.from_column(s, 41))
    some = np.arange(41) % 3 == 1
    assert_allclose(rows.at_points(some).weight, rows.weight[some])
    (whole,), (part,) = rows.spreads(), rows.at_points(some).spreads()
    assert_allclose(part, whole[np.ix_(some, some)])

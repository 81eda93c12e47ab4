"""Pairwise fairness of many quarters at once: the numbers of each one alone."""

import numpy as np
import pytest

from fkd.measures import pairwise as pair_resampling
from fkd.measures import pairwise_fairness
from fkd.measures.pairwise import draw_counts, resampled_pairwise_fairness


@pytest.fixture
def rows(rng):
    # Rounded, so that truth, prediction and attribute have ties.
    s = np.round(rng.uniform(size=150), 1)
    y = np.round(s + rng.uniform(size=150), 1)
    return y, np.round(y + 0.5 * s + 0.3 * rng.normal(size=150), 1), s


@pytest.mark.parametrize("cells", [1, 700, 1 << 21])
def test_every_resample_has_the_number_it_has_alone(rows, cells, monkeypatch):
    monkeypatch.setattr(pair_resampling, "TILE_CELLS", cells)
    found = resampled_pairwise_fairness(*rows, draw_counts(150, 20, np.random.default_rng(3)))
    rng = np.random.default_rng(3)
    for value in found:
        drawn = rng.permutation(150)[:37]
        y, f, s = (column[drawn] for column in rows)
        assert value == pytest.approx(pairwise_fairness(y, f, s), rel=1e-14)


def test_a_row_may_count_more_than_once(rows):
    drawn = np.random.default_rng(0).integers(150, size=150)
    counts = np.bincount(drawn, minlength=150).astype(np.float32)[:, None]
    y, f, s = (column[drawn] for column in rows)
    expected = pytest.approx(pairwise_fairness(y, f, s), rel=1e-14)
    assert resampled_pairwise_fairness(*rows, counts) == [expected]


def test_each_row_once_is_the_measure_itself(rows):
    once = np.ones((150, 1), dtype=np.float32)
    y, f, s = rows
    found = resampled_pairwise_fairness(y, f, s, once)
    assert found == pytest.approx([pairwise_fairness(y, f, s)], rel=1e-14)


def test_a_constant_prediction_is_fair(rows):
    y, _, s = rows
    counts = draw_counts(150, 3, np.random.default_rng(0))
    for noise in (0.0, 1e-16):  # rounding is no ranking
        f = 0.3 + noise * y
        assert resampled_pairwise_fairness(y, f, s, counts).tolist() == [0, 0, 0]


def test_resamples_without_pairs_have_no_number(rows):
    y, f, s = rows
    counts = draw_counts(150, 3, np.random.default_rng(0))
    counts[s != s[0], 1] = 0
    found = resampled_pairwise_fairness(y, f, s, counts)
    assert np.isnan(found).tolist() == [False, True, False]
    with pytest.raises(ValueError, match="sensitive"):
        resampled_pairwise_fairness(y, f, np.zeros(9), counts)


@pytest.mark.parametrize("levels", [2, 9, 10**6])
def test_quarter_by_quarter_gives_the_bits_of_all_pairs_at_once(rng, monkeypatch, levels):
    y, f, g, s = rng.integers(levels, size=(4, 160)).astype(float)
    s[:150] = s[0] if levels == 2 else s[:150]  # some quarters have nothing to compare
    predictions = [f, g, np.full(160, 0.1)]

    def values():
        source = np.random.default_rng(5)
        return pair_resampling.pairwise_on_quarters(y, predictions, s, 60, source)

    together = values()
    monkeypatch.setattr(pair_resampling, "QUARTERS_FROM", 160)
    assert np.array_equal(values(), together, equal_nan=True)
    assert np.isnan(together[0]).any() == (levels == 2)
    assert not together[2].any()

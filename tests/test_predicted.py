"""Predictions told in a few numbers, by which two of them are compared."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from fkd.core.arrays import BLOCK_ROWS
from tasks.storage.records import PredictedRows, _scattered


def rms(x):
    return np.sqrt(np.mean(np.square(x)))


@pytest.mark.parametrize("rows", [1, 7, 400, BLOCK_ROWS + 1, 3 * BLOCK_ROWS + 5])
def test_equal_predictions_have_no_distance(rng, rows):
    f = rng.normal(size=rows)
    assert PredictedRows.of(f).distance(PredictedRows.of(f.copy())) == 0


@pytest.mark.parametrize("rows", [7, 400, BLOCK_ROWS + 1, 3 * BLOCK_ROWS + 5])
def test_one_row_that_differs_is_seen_exactly_wherever_it_stands(rng, rows):
    f = rng.normal(size=rows)
    told = PredictedRows.of(f)
    for row in (0, rows // 2, rows - 1):
        g = f.copy()
        g[row] += 1e-3
        assert told.distance(PredictedRows.of(g)) == pytest.approx(rms(f - g), rel=1e-9)


@pytest.mark.parametrize("shift", ["constant", "sloping", "random"])
def test_a_difference_of_many_rows_is_estimated_without_bias(rng, shift):
    """The mean of the squared ratio is one, its spread that of 32 sums: a quarter."""
    ratios = []
    for rows in range(BLOCK_ROWS - 100, BLOCK_ROWS + 100):
        f = rng.uniform(size=rows)
        gap = {
            "constant": np.full(rows, 1e-3),
            "sloping": np.linspace(-1e-3, 2e-3, rows),
            "random": 1e-3 * rng.normal(size=rows),
        }[shift]
        ratios.append(PredictedRows.of(f).distance(PredictedRows.of(f + gap)) / rms(gap))
    # Positions scatter alike whatever the rows, so that the first two gaps are one draw each.
    assert np.square(ratios).mean() == pytest.approx(1.0, abs=0.05 if shift == "random" else 0.75)
    assert min(ratios) > 0.5
    assert max(ratios) < 1.6


def test_rows_are_scattered_evenly_by_arithmetic_alone():
    place, sign = _scattered(100_000)
    assert np.bincount(place).min() > 2800
    assert len(np.bincount(place)) == 32
    assert abs(sign.mean()) < 0.02
    assert set(sign) == {-1.0, 1.0}
    # Stored sketches are compared with those of every later version.
    assert place[:6].tolist() == [_splitmix(i) % 32 for i in range(1, 7)]
    assert sign[:6].tolist() == [1.0 if _splitmix(i) >> 63 else -1.0 for i in range(1, 7)]


def _splitmix(i):
    """The mixed bits of a position, in Python's own whole numbers."""
    mask = 2**64 - 1
    z = i * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


def test_moments_are_those_of_the_rows_and_survive_json(rng):
    f = rng.normal(loc=0.4, scale=0.1, size=BLOCK_ROWS + 3)
    told = PredictedRows.of(f)
    assert (told.rows, told.mean, told.std) == (len(f), f.mean(), f.std())
    assert told.size == pytest.approx(rms(f), rel=1e-12)
    assert PredictedRows.from_plain(json.loads(json.dumps(asdict(told)))) == told


def test_predictions_of_other_rows_are_not_compared(rng):
    one, other = (PredictedRows.of(rng.normal(size=n)) for n in (5, 6))
    with pytest.raises(ValueError, match="the same rows to be compared, got 5 and 6"):
        one.distance(other)

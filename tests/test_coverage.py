"""Intervals cover the mean of their measure over fresh samples about as often as they promise."""

import numpy as np
import pytest
from coverage_sample import MEASURES, coverage, dependent, independent

LEAST, MOST = 0.90, 0.98  # of intervals whose level is .95


def _limits(repetitions):
    """What so many repetitions can tell from the limits: two standard deviations of a share."""
    slack = 2 * np.sqrt([LEAST * (1 - LEAST), MOST * (1 - MOST)]) / np.sqrt(repetitions)
    return LEAST - slack[0], MOST + slack[1]


@pytest.mark.parametrize("law", [independent, dependent])
def test_hgr_is_covered_at_200_rows(law):
    low, high = _limits(120)
    (share,) = coverage(law, 200, ["hgr"], repetitions=120, draws=100).values()
    assert low <= share <= high


@pytest.mark.parametrize("law", [independent, dependent])
def test_pairwise_fairness_and_error_are_covered_at_200_rows(law):
    low, high = _limits(300)
    found = coverage(law, 200, ["pf", "mae"], repetitions=300, draws=100)
    assert all(low <= share <= high for share in found.values()), found


def test_the_difference_of_two_predictions_is_covered_at_200_rows():
    low, high = _limits(50)
    found = coverage(dependent, 200, ["hgr", "mae"], repetitions=50, draws=80, paired=True)
    assert all(low <= share <= high for share in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize(("n", "repetitions"), [(200, 400), (1000, 150), (5000, 80)])
@pytest.mark.parametrize("law", [independent, dependent])
def test_every_measure_is_covered(law, n, repetitions):
    low, high = _limits(repetitions)
    found = coverage(law, n, list(MEASURES), repetitions=repetitions, draws=150, seed=1)
    assert all(low <= share <= high for share in found.values()), found

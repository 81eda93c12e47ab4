"""Generalised disparate impact: hand examples with exact properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd.measures import gedi

seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=20, deadline=None)


def test_three_rows_by_hand():
    assert_allclose(gedi([0, 1, 2], [0, 1, 2]), 1)


@some
@given(seed=seeds)
def test_the_first_degree_is_covariance_over_variance(seed):
    f, s = np.random.default_rng(seed).normal(loc=3, size=(2, 40))
    assert_allclose(gedi(f, s), abs(np.cov(f, s)[0, 1] / s.var(ddof=1)), rtol=1e-9)


@some
@given(seed=seeds, scale=st.floats(-50, 50).filter(lambda c: abs(c) > 0.1))
def test_gedi_scales_with_the_prediction_while_it_ignores_its_level(seed, scale):
    f, s = np.random.default_rng(seed).normal(size=(2, 40))
    assert_allclose(gedi(scale * f + 9, s), abs(scale) * gedi(f, s), rtol=1e-8)
    assert_allclose(gedi(f, scale * s), gedi(f, s) / abs(scale), rtol=1e-8)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_polynomial_of_the_attribute_gives_its_coefficients_back(rng, degree):
    s = rng.uniform(-2, 2, size=60)
    coefficients = np.array([1.5, -0.7, 0.2])[:degree]
    f = 4 + sum(c * s ** (k + 1) for k, c in enumerate(coefficients))
    assert_allclose(gedi(f, s, degree=degree), np.abs(coefficients).sum(), rtol=1e-9)


def test_the_second_degree_sees_what_the_first_does_not():
    s = np.linspace(-1, 1, 41)
    assert gedi(s**2, s) < 1e-14
    assert_allclose(gedi(s**2, s, degree=2), 1)


def test_a_constant_attribute_has_no_impact(rng):
    assert gedi(rng.normal(size=20), np.ones(20)) == 0.0


def test_the_degree_must_be_positive():
    with pytest.raises(ValueError, match="degree must be at least 1, got 0"):
        gedi([0, 1], [0, 1], degree=0)


@pytest.mark.parametrize("unit", [1e-13, 1e-60, 1e60])
def test_it_is_in_the_unit_of_the_prediction(rng, unit):
    s = rng.uniform(size=100)
    assert_allclose(gedi(unit * s, s), unit, rtol=1e-9)

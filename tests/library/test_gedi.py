"""Generalised disparate impact: regression coefficients of the prediction on powers of s."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fkd.measures import gedi

some = settings(max_examples=20, deadline=None)


@some
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(-50, 50).filter(lambda c: abs(c) > 0.1))
def test_first_degree_is_covariance_over_variance(seed, scale):
    f, s = np.random.default_rng(seed).normal(loc=3, size=(2, 40))
    value = gedi(f, s)
    assert_allclose(value, abs(np.cov(f, s)[0, 1] / s.var(ddof=1)), rtol=1e-9)
    assert_allclose(gedi(scale * f + 9, s), abs(scale) * value, rtol=1e-8)
    assert_allclose(gedi(f, scale * s), value / abs(scale), rtol=1e-8)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_polynomial_of_the_attribute_gives_its_coefficients(rng, degree):
    s = rng.uniform(-2, 2, size=60)
    coefficients = np.array([1.5, -0.7, 0.2])[:degree]
    f = 4 + sum(c * s ** (k + 1) for k, c in enumerate(coefficients))
    assert_allclose(gedi(f, s, degree=degree), np.abs(coefficients).sum(), rtol=1e-9)


def test_second_degree_detects_symmetric_dependence():
    s = np.linspace(-1, 1, 41)
    assert gedi(s**2, s) < 1e-14
    assert_allclose(gedi(s**2, s, degree=2), 1)


@pytest.mark.parametrize("unit", [1e-13, 1e-60, 1e60])
def test_extreme_units_of_the_prediction(rng, unit):
    s = rng.uniform(size=100)
    assert_allclose(gedi(unit * s, s), unit, rtol=1e-9)


def test_degree_must_be_positive():
    with pytest.raises(ValueError, match=r"^degree must .*got 0"):
        gedi([0, 1], [0, 1], degree=0)

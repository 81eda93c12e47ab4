import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.predictors import LinearCorrection


def make_correction(rng, d=4, l=0, w=2):
    return LinearCorrection(
        rng.normal(size=d + l), rng.normal(size=(d + l, w)), rng.normal(size=(d, w))
    )


@pytest.mark.parametrize("l", [0, 2])
def test_it_is_its_formula_on_read_only_rows(rng, l):
    correction = make_correction(rng, l=l)
    X = rng.normal(size=(5, 4 + l))
    X.flags.writeable = False
    A = np.eye(4 + l)[:, :4] - correction.R @ correction.L.T
    expected = X @ A + correction.mean @ correction.R @ correction.L.T
    assert_allclose(correction(X), expected, rtol=1e-12)


def test_weights_can_be_pulled_back_to_plain_rows(rng):
    correction, beta = make_correction(rng), rng.normal(size=4)
    X = rng.normal(size=(5, 4))
    plain, constant = correction.pulled_back(beta)
    assert_allclose(X @ plain + constant, correction(X) @ beta, rtol=1e-12)


def test_weights_cannot_be_pulled_back_to_rows_with_more_columns(rng):
    with pytest.raises(ValueError, match=r"6 columns .*got 4"):
        make_correction(rng, l=2).pulled_back(np.ones(4))


def test_it_survives_its_arrays(rng):
    correction = make_correction(rng, l=1)
    X = rng.normal(size=(5, 5))
    assert_array_equal(LinearCorrection.from_arrays(correction.arrays())(X), correction(X))

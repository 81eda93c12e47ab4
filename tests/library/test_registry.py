"""The border of the measures: what is accepted, what is refused by name."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from fkd.measures import chi2, gdp, gedi, hgr, pairwise_fairness


def pf(y_pred, sensitive_features, **options):
    """Pairwise fairness against a truth that falls once, so that both conditions are met."""
    y = np.roll(np.arange(len(y_pred), dtype=float), 1)
    return pairwise_fairness(y, y_pred, sensitive_features, **options)


every_measure = pytest.mark.parametrize(
    "measure",
    [hgr, chi2, gdp, partial(gdp, estimator="plugin"), gedi, pf, partial(pf, criterion="dp")],
    ids=["hgr", "chi2", "gdp", "gdp plugin", "gedi", "pf eo", "pf dp"],
)


@pytest.fixture
def f(rng):
    return rng.normal(size=60)


@pytest.fixture
def S(rng):
    return rng.uniform(size=(60, 2)) * [1.0, 0.3] + [0.0, 0.6]


@every_measure
def test_several_columns_give_an_array_that_agrees_with_each_column_alone(measure, f, S):
    values = measure(f, S)
    assert values.shape == (2,)
    assert_allclose(values, [measure(f, S[:, 0]), measure(f, S[:, 1])], rtol=0, atol=0)


@every_measure
@pytest.mark.parametrize("shape", [(60,), (60, 1)])
def test_one_column_gives_a_float(measure, f, S, shape):
    value = measure(f, S[:, 0].reshape(shape))
    assert type(value) is float
    assert value > 0


@every_measure
@pytest.mark.parametrize("level", [0.0, 0.1, -3.7, 1e9])
def test_a_constant_prediction_is_exactly_fair(measure, S, level):
    values = measure(np.full(60, level), S)
    assert (values == 0.0).all()
    assert measure(np.full(60, level), S[:, 0]) == 0.0


@every_measure
def test_a_prediction_constant_up_to_rounding_is_exactly_fair(measure, rng, S):
    assert (measure(0.3 + 1e-16 * rng.normal(size=60), S) == 0.0).all()


@every_measure
def test_lists_frames_integers_and_read_only_arrays_give_the_same_value(measure, f, S):
    # Whole numbers survive every type.
    f, S = np.round(f * 10), (np.median(S, axis=0) < S).astype(float)
    expected = measure(f, S)
    f.flags.writeable = S.flags.writeable = False
    kept = f.copy(), S.copy()
    assert_allclose(measure(f, S), expected, rtol=0, atol=0)
    assert_allclose(measure(f.tolist(), S.tolist()), expected, rtol=0, atol=0)
    assert_allclose(measure(pd.Series(f), pd.DataFrame(S)), expected, rtol=0, atol=0)
    assert_allclose(measure(f.astype(np.float32), S.astype(int)), expected, rtol=0, atol=0)
    assert_allclose(measure(f[:, None], S), expected, rtol=0, atol=0)
    assert (f == kept[0]).all()
    assert (kept[1] == S).all()


@every_measure
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_a_number_that_is_none_is_refused_with_its_place(measure, f, S, bad):
    broken = S.copy()
    broken[7, 1] = bad
    with pytest.raises(ValueError, match=r"sensitive_features must be finite.*\(7, 1\)"):
        measure(f, broken)
    f[3] = bad
    with pytest.raises(ValueError, match=r"y_pred must be finite.*\(3,\)"):
        measure(f, S)


@every_measure
def test_rows_must_match(measure, f, S):
    with pytest.raises(ValueError, match=r"sensitive_features must have one row.*\(60\), got 59"):
        measure(f, S[:-1])


@every_measure
@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (np.array(["a"] * 60, dtype=object), "real numbers, got dtype object"),
        (["young"] * 60, "real numbers, got dtype <U5"),
        (np.ones(60, dtype=complex), "real numbers, got dtype complex128"),
        ([[1.0], [1.0, 2.0]], "rectangular"),
        (np.ones((60, 2, 2)), "table of columns"),
        (np.ones((60, 0)), "table of columns"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(measure, f, values, rule):
    with pytest.raises(ValueError, match=f"sensitive_features must .*{rule}"):
        measure(f, values)


@every_measure
def test_a_prediction_must_be_one_column_of_at_least_two_rows(measure, S):
    with pytest.raises(ValueError, match=r"y_pred must be one column, got shape \(60, 2\)"):
        measure(S, S)
    with pytest.raises(ValueError, match="y_pred must have at least two rows, got 1"):
        measure([1.0], [1.0])

"""A bundle of every kind of predictor: storage, damaged arrays, missing values."""

from dataclasses import replace

import numpy as np
import pytest
from bundle_sample import CASES, make_bundle, make_rows, through_file
from optional import needs

from fkd.core.predictors import PREDICTORS
from fkd.methods import method
from fkd.problems.bundle import Bundle, NonFinitePredictionError

# concept_erasure compiles a function with it when it is first imported.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


@pytest.mark.parametrize(
    "case",
    [pytest.param(name, marks=needs(method(CASES[name][0]).extra)) for name in CASES],
)
def test_a_bundle_read_back_predicts_the_same(case):
    bundle, rows = make_bundle(case), make_rows()
    arrays = through_file(bundle.arrays())
    assert arrays["kind"] == (case if case in PREDICTORS else "kernel")
    again = Bundle.from_arrays(arrays)
    np.testing.assert_array_equal(again.predict(rows), bundle.predict(rows))
    assert again.arrays().keys() == arrays.keys()
    if case != "constant":
        assert np.ptp(bundle.predict(rows)) > 1.0  # the rows would show a changed model


def test_the_cases_cover_every_kind_of_predictor():
    assert set(PREDICTORS) <= set(CASES)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["predictor.coef", "encoder.span", "target_range"])
def test_an_array_that_is_not_finite_is_refused(name, value):
    arrays = make_bundle("kernel").arrays()
    arrays[name] = np.where(np.arange(arrays[name].size) == 0, value, arrays[name])
    with pytest.raises(ValueError, match=name):
        Bundle.from_arrays(arrays)


def test_nan_is_kept_in_arrays_where_it_has_a_meaning():
    arrays = make_bundle("kernel").arrays()
    assert np.isnan(arrays["encoder.fill"]).any()
    arrays["ranges"] = np.full_like(arrays["ranges"], np.nan)
    Bundle.from_arrays(arrays)
    arrays["ranges"] = np.full_like(arrays["ranges"], np.inf)
    with pytest.raises(ValueError, match="ranges"):
        Bundle.from_arrays(arrays)


def overflowing():
    """A bundle whose numbers are finite, while most of its predictions are not."""
    bundle = make_bundle("kernel")
    inner = replace(bundle.predictor, kernel="linear", coef=bundle.predictor.coef * 1e200)
    return replace(bundle, predictor=replace(inner, centers=inner.centers * 1e200))


def test_predictions_that_are_not_finite_are_refused():
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(NonFinitePredictionError) as caught,
    ):
        overflowing().predict(make_rows())
    assert 0 < len(caught.value.rows) <= len(make_rows())


def test_a_row_without_a_sensitive_value_has_no_prediction():
    bundle, rows = make_bundle("sensitive"), make_rows()
    rows.loc[3, "age"] = np.nan
    assert np.flatnonzero(np.isnan(bundle.predict(rows))).tolist() == [3]

"""Every bundle that was ever released loads, and predicts what it did."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bundle_sample import CASES, FOLDER, WITHOUT_RANGES, keep_bundle, make_bundle, make_rows
from numpy.testing import assert_allclose

from fkd import __version__
from fkd.catalog.bundle import Bundle, NonFinitePredictionError
from fkd.core.predictors import PREDICTORS

KEPT = sorted(path.parent for path in FOLDER.glob("*/*/bundle.npz"))
EXACT = 1e-12


def load(folder):
    with np.load(folder / "bundle.npz", allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return arrays, json.loads((folder / "expected.json").read_text())


@pytest.mark.parametrize("folder", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_kept_bundle_predicts_what_it_did(folder):
    arrays, expected = load(folder)
    found = Bundle.from_arrays(arrays).predict(pd.DataFrame(expected["rows"]))
    assert_allclose(found, expected["predictions"], rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("folder", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_kept_bundle_is_written_as_it_was_read(folder):
    arrays, _ = load(folder)
    again = Bundle.from_arrays(arrays).arrays()
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)


def test_this_version_has_kept_a_bundle_of_every_kind():
    own = [folder for folder in KEPT if folder.parent.name == __version__]
    assert {folder.name for folder in own} == {*CASES, WITHOUT_RANGES}
    assert {str(load(folder)[0]["kind"]) for folder in own} == set(PREDICTORS)


def test_the_rows_would_show_a_changed_model():
    for folder in KEPT:
        _, expected = load(folder)
        if folder.name != "constant":
            assert np.ptp(expected["predictions"]) > 1.0, folder


def test_a_bundle_without_ranges_says_so():
    arrays, _ = load(FOLDER / "0.2.0" / WITHOUT_RANGES)
    assert Bundle.from_arrays(arrays).ranges is None
    arrays, _ = load(FOLDER / "0.2.0" / "kernel")
    assert Bundle.from_arrays(arrays).ranges.shape == (3, 2)


def test_what_is_kept_is_what_is_read(tmp_path):
    bundle, rows = make_bundle("kernel"), make_rows()
    keep_bundle(tmp_path / "new", bundle, rows)
    arrays, expected = load(tmp_path / "new")
    assert_allclose(expected["predictions"], bundle.predict(rows), rtol=EXACT)
    assert arrays.keys() == bundle.arrays().keys()
    with pytest.raises(FileExistsError):
        keep_bundle(tmp_path / "new", bundle, rows)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["predictor.coef", "encoder.span", "target_range"])
def test_an_array_that_is_not_finite_is_refused(name, value):
    arrays = make_bundle("kernel").arrays()
    arrays[name] = np.where(np.arange(arrays[name].size) == 0, value, arrays[name])
    with pytest.raises(ValueError, match=name):
        Bundle.from_arrays(arrays)


def test_nan_stays_where_it_has_a_meaning():
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

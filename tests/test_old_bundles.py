"""Every bundle that was ever released loads, and predicts what it did."""

import json

import numpy as np
import pandas as pd
import pytest
from bundle_sample import CASES, FOLDER, WITHOUT_RANGES, keep_bundle, make_bundle, make_rows
from numpy.testing import assert_allclose

from fkd import __version__
from fkd.catalog.bundle import Bundle
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

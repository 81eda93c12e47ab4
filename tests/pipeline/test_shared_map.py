from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from stored_files import map_file

from configs.load import load_config
from fkd.methods import Approximation
from tasks.kernels.shared_map import SharedMap, load_map, shared_encoder, store_map
from tasks.select.study import open_study


@pytest.fixture
def inputs(settings):
    return open_study(load_config("default", ["folds.reserve=0.2"]), settings).inputs


@pytest.fixture
def shared(inputs):
    return SharedMap(inputs, 0.05, Approximation("nystroem", 60, shared=True))


@pytest.mark.parametrize("scale", ["minmax", "zscore"])
def test_map_and_encoder_do_not_depend_on_test_rows(shared, monkeypatch, scale):
    inputs = replace(shared.inputs, scale=scale)
    shared = replace(shared, inputs=inputs)
    before = load_map(store_map(shared)), shared_encoder(inputs)
    table = inputs.table
    numeric = table.numeric.copy()
    tested = np.setdiff1d(np.arange(table.n), inputs.splits.reserved(table))
    numeric[tested] = 1e6
    monkeypatch.setattr(
        "tasks.plan.trials.cached_table", lambda *_: replace(table, numeric=numeric)
    )
    shared_encoder.cache_clear()
    map_file(shared).unlink()
    after = load_map(store_map(shared)), shared_encoder(inputs)
    shared_encoder.cache_clear()
    assert_array_equal(after[0].centers, before[0].centers)
    assert_array_equal(after[1].span, before[1].span)
    assert_array_equal(after[1].offset, before[1].offset)
    assert after[1].feature_names == before[1].feature_names


def test_landmarks_are_reserved_rows(shared):
    table = shared.inputs.table
    reserved = table.take(shared.inputs.splits.reserved(table))
    known = {row.tobytes() for row in shared_encoder(shared.inputs).transform(reserved)}
    centers = load_map(store_map(shared)).centers
    assert len(centers) == 60
    assert all(row.tobytes() in known for row in centers)


def test_scale_on_all_fits_the_encoder_to_all_rows(settings):
    config = load_config("default", ["folds.reserve=0.2", "data.scale_on=all"])
    inputs = open_study(config, settings).inputs
    table = inputs.table
    assert_array_equal(shared_encoder(inputs).offset, table.numeric.min(axis=0) * 0)


def test_a_map_is_computed_once(shared):
    first = store_map(shared)
    written = map_file(shared).stat().st_mtime_ns
    assert store_map(shared) == first
    assert map_file(shared).stat().st_mtime_ns == written


def test_a_damaged_map_is_computed_again(shared):
    first = store_map(shared)
    content = bytearray(map_file(shared).read_bytes())
    content[5000] ^= 1
    map_file(shared).write_bytes(content)
    assert store_map(shared) == first


def test_a_replaced_map_is_an_error(shared):
    stored = store_map(shared)
    with pytest.raises(FileNotFoundError, match="absent or has another content"):
        load_map(replace(stored, checksum="0" * 64))


@pytest.mark.parametrize(
    "change",
    [
        {"gamma": 0.1},
        {"approximation": Approximation("nystroem", 61, shared=True)},
        {"approximation": Approximation("fourier", 60, shared=True)},
    ],
)
def test_other_settings_have_other_files(shared, change):
    assert replace(shared, **change).name != shared.name

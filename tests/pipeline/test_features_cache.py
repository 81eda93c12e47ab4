import json
import random
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_disk import fill, small_disk

from configs.errors import UserError
from configs.load import load_config
from fkd.methods import methods
from tasks.fit.job import fitted_models, run_job
from tasks.kernels import auto_options as settling
from tasks.kernels import shared_training as spilled_features
from tasks.kernels import streaming as leaves
from tasks.kernels.shared_map import load_map, shared_encoder, store_map
from tasks.kernels.shared_training import (
    DISK_SHARE,
    Spill,
    feature_source,
    features_name,
    planned_spill,
    shared_training,
    spill_features,
    streamed_maps,
    write_features,
)
from tasks.kernels.streaming import Sums, cell_leaves
from tasks.select.study import open_study
from tasks.storage.environment import blas_threads
from tasks.storage.store import machine_store

SIZE = 90  # rows of a task here: cells of the table have several


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch):
    monkeypatch.setattr(leaves, "TASK_ROWS", SIZE)
    monkeypatch.setattr("tasks.kernels.shared_training.BLOCK_ROWS", 40)
    monkeypatch.setattr("fkd.core.svm.CHUNK_ROWS", 32)


def make_study(settings, name="svr_fkd", **changes):
    approximation = {"kind": "nystroem", "landmarks": 60, "shared": True}
    grid = {"penalty": [0.0, 5.0]} if name == "svr_fks" else {"iterations": [0, 5]}
    entry = {"name": name, "approximation": approximation, "grid": {**grid, "C": [0.1, 0.75]}}
    overrides = ["folds.reserve=0.3", f"methods={json.dumps([entry | changes])}"]
    return open_study(load_config("default", overrides), settings)


def stored_map(study):
    (shared,) = streamed_maps(study.missing())
    return store_map(shared)


def here(function, jobs, keep):
    for job in random.Random(len(jobs)).sample(jobs, len(jobs)):
        keep(job, function(job))


def predicted(study, label="1"):
    """What every trial says of a fold's test rows."""
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.all(table)[label]
    training, encoder = shared_training(table, fold, inputs)
    X = encoder.transform(table.take(fold.test))
    with blas_threads(inputs.blas_threads):
        found = fitted_models(training, study.trials[0].method, study.trials)
        return np.array([f.predict(X) for f in found]), training


@pytest.mark.parametrize("name", ["svr_fkd", "svr_fks"])
def test_streamed_machines_are_those_of_libsvm(settings, name):
    found, training = predicted(make_study(settings, name, solver="batched"))
    expected, _ = predicted(make_study(settings, name, solver="libsvm"))
    assert "X" not in vars(training)  # rows were never encoded as one matrix
    assert len(found) == 4
    # A relative gap of 1e-3 on 900 rows, targets within [0, 1].
    assert_allclose(found, expected, atol=0.02)
    assert np.abs(found[0] - found[-1]).max() > 0.05


@pytest.mark.parametrize("label", ["0", "3", "0.2"])
def test_blocks_are_the_features_of_the_training_rows(settings, label):
    study = make_study(settings, solver="batched")
    stored, table, inputs = stored_map(study), study.loaded.table, study.inputs
    fold = inputs.splits.all(table)[label]
    blocks = list(feature_source(stored, fold.train)())
    assert len(blocks) > 5
    assert max(len(block.y) for block in blocks) == SIZE
    train = table.take(fold.train)
    G = load_map(stored).transform(shared_encoder(inputs).transform(train))

    def ordered(G, y):
        rows = np.column_stack([y, G])
        return rows[np.lexsort(rows.T[::-1])]

    found = ordered(
        np.concatenate([block.G for block in blocks]), np.concatenate([b.y for b in blocks])
    )
    assert_allclose(found, ordered(G, train.y), atol=1e-5)


def test_cached_features_have_the_bits_of_computed_ones(settings, monkeypatch):
    study = make_study(settings, solver="batched", grid={"iterations": [5]})
    kept, _ = predicted(study)
    assert list(settings.features.glob("*.features.arrays"))
    for path in settings.features.glob("*.features.arrays"):
        path.unlink()
    monkeypatch.setattr(spilled_features, "DISK_SHARE", 0.0)
    made, _ = predicted(study)
    assert not list(settings.features.glob("*.features.arrays"))
    assert_array_equal(made, kept)


def test_a_damaged_or_removed_block_is_computed_again(settings):
    study = make_study(settings, solver="batched")
    spill_features(here, streamed_maps(study.missing()))
    first, second, third, *_ = sorted(settings.features.glob("*.features.arrays"))
    whole = {path: path.read_bytes() for path in (first, second, third)}
    expected, _ = predicted(study, "0.1")
    first.write_bytes(whole[first][:-100] + bytes(100))
    second.unlink()
    zeros = {"G": np.zeros((3, 3), dtype=np.float32)}
    machine_store(settings).write_arrays(third.name, zeros)
    third.write_bytes(third.read_bytes()[:-1])
    stored = stored_map(study)
    for fold in study.inputs.splits.all(study.loaded.table).values():
        feature_source(stored, fold.train)
    assert {path: path.read_bytes() for path in whole} == whole
    assert_array_equal(predicted(study, "0.1")[0], expected)


def test_a_block_removed_between_two_passes_is_computed_again(settings):
    study = make_study(settings, solver="batched")
    stored, table = stored_map(study), study.loaded.table
    source = feature_source(stored, study.inputs.splits.all(table)["0"].train)
    before = [np.array(block.G) for block in source()]
    for path in settings.features.glob("*.features.arrays"):
        path.unlink()
    for one, other in zip(source(), before, strict=True):
        assert_array_equal(one.G, other)


def test_fits_write_no_features_after_a_pass_on_the_cluster(settings, monkeypatch):
    study = make_study(settings, solver="batched")
    maps = streamed_maps(study.missing())
    spill_features(here, maps)
    spill_features(lambda *_: pytest.fail("computed again"), maps)
    monkeypatch.setattr(spilled_features, "_features", lambda _: pytest.fail("made again"))
    assert len(run_job(study.missing()[0])) == 4


def test_other_features_have_another_file(settings):
    stored = stored_map(make_study(settings, solver="batched"))
    leaf = cell_leaves(Sums(stored, "rows"), (), 0)[0]
    others = [
        replace(leaf, sums=Sums(replace(stored, checksum="0" * 64), "rows")),
        replace(leaf, cell=1),
        replace(leaf, position=1),
        replace(leaf, size=SIZE + 1),
    ]
    assert len({features_name(one) for one in (leaf, *others)}) == 5


def test_libsvm_and_ridge_regression_cache_no_features(settings):
    assert streamed_maps(make_study(settings, solver="libsvm").missing()) == []
    assert len(streamed_maps(make_study(settings, solver="batched").missing())) == 1


def test_a_full_disk_is_an_error_that_names_the_folder(settings):
    with small_disk(settings.home, size="32m"):
        study = make_study(settings, solver="batched")
        stored = stored_map(study)
        (leaf, *_) = cell_leaves(Sums(stored, "rows"), (), 0)
        fill(settings.home, leave=2**12)
        with pytest.raises(UserError, match=r"features must be writable.*No space left.*FKD_HOME"):
            write_features(leaf)
        assert not (settings.features / features_name(leaf)).exists()


def test_features_take_at_most_their_share_of_the_disk(settings):
    assert Spill(50, 100).fits
    assert not Spill(51, 100).fits
    assert DISK_SHARE == 0.5
    study = make_study(settings, solver="batched")
    stored = stored_map(study)
    rows = sum(len(cell.rows) for cell in leaves.study_cells(study.inputs))
    before = planned_spill(stored)
    assert before.needed == 4 * rows * load_map(stored).rank
    spill_features(here, [stored.shared])
    # What lies there is room too: a repeat decides as the first run did.
    on_disk = sum(path.stat().st_size for path in settings.features.glob("*.features.arrays"))
    assert on_disk > before.needed
    assert planned_spill(stored).free >= on_disk


def test_the_number_of_rows_decides_the_solver(settings, monkeypatch):
    plain = make_study(settings)
    assert {trial.parameters["solver"] for trial in plain.trials} == {"auto"}
    table = plain.loaded.table
    n = max(len(fold.train) for fold in plain.inputs.splits.all(table).values())
    monkeypatch.setattr(settling, "LIBSVM_ROWS", n)
    assert [t.key for t in make_study(settings).trials] == [t.key for t in plain.trials]
    monkeypatch.setattr(settling, "LIBSVM_ROWS", n - 1)
    settled = make_study(settings).trials
    assert {trial.parameters["solver"] for trial in settled} == {"batched"}
    asked = make_study(settings, solver="libsvm").trials
    assert {trial.parameters["solver"] for trial in asked} == {"libsvm"}
    assert len({t.key for t in (*settled, *asked, *plain.trials)}) == 3 * len(settled)
    exact = make_study(settings, approximation={"kind": "exact"}).trials
    assert {trial.parameters["solver"] for trial in exact} == {"auto"}


def test_a_solver_that_does_not_converge_fails_the_job(settings, monkeypatch):
    monkeypatch.setattr("fkd.core.svr.ITERATIONS", 10)
    study = make_study(settings, solver="batched", grid={"iterations": [0, 5], "C": [1000.0]})
    with pytest.raises(ValueError, match=r"gap of strength \d with C 1000, .* 10 iter.*lower C"):
        run_job(study.missing()[0])
    assert study.results() == []


@pytest.mark.parametrize("name", ["svr", "svr_fkd", "svr_fks"])
def test_an_unknown_solver_is_refused_by_the_configuration(settings, name):
    assert "solver" in methods()[name].parameters.__dataclass_fields__
    with pytest.raises(UserError, match="solver"):
        make_study(settings, name, solver="admm")

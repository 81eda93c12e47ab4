import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from configs.load import load_config
from fkd.core.conditioning import FittedFunctions, Functions
from fkd.core.feature_maps import FeatureMap, KernelSettings
from fkd.core.moments import basis_moments, training_moments
from fkd.core.sensitive_basis import BasisSettings
from fkd.methods import Approximation, Training
from tasks.fit.job import fitted_models, run_job, training_for
from tasks.kernels.shared_map import SharedMap, load_map, shared_encoder, store_map
from tasks.kernels.shared_training import shared_sums, shared_training, sums_of
from tasks.kernels.streaming import MapSums
from tasks.plan.training import make_training
from tasks.select.study import open_study
from tasks.storage.environment import blas_threads


def make_study(
    settings, landmarks=150, *, shared=True, name="krr_fkd", iterations=(0, 5, 18), sums="auto"
):
    approximation = {"kind": "nystroem", "landmarks": landmarks, "shared": shared, "sums": sums}
    entry = {"name": name, "approximation": approximation, "grid": {"iterations": [*iterations]}}
    overrides = ["folds.reserve=0.3", f"methods={json.dumps([entry])}"]
    return open_study(load_config("default", overrides), settings)


@dataclass(frozen=True)
class SumsOfRows:
    """Sums under a map that was computed from other rows, over the training rows alone."""

    map: FeatureMap
    train: Training
    columns: FittedFunctions | None = None

    def feature_map(self, kernel):
        return self.map

    def moments(self, kernel, part):
        return training_moments(self.map, self.train.X, self.train.S, self.train.y)

    def basis_moments(self, kernel, functions, squares):
        return basis_moments(self.map, self.train.X, *self.columns(self.train.S, self.train.y))


def predictions(study, training, encoder, fold):
    X = encoder.transform(study.loaded.table.take(fold.test))
    with blas_threads(study.inputs.blas_threads):
        return [p.predict(X) for p in fitted_models(training, "krr_fkd", study.trials)]


@pytest.mark.parametrize("label", ["0", "3", "0.2"])
def test_summed_moments_predict_like_moments_of_the_training_rows(settings, label):
    study = make_study(settings, sums="rows")
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.all(table)[label]
    summed = predictions(study, *shared_training(table, fold, inputs), fold)
    # The same map, its moments taken over this fold's rows alone.
    train, encoder = table.take(fold.train), shared_encoder(inputs)
    X, S = encoder.transform(train), train.S(inputs.sensitive)
    feature_map = load_map(store_map(next(iter(shared_sums(study.missing()))).shared))
    rows = Training(X, train.y, S)
    alone = replace(rows, shared=SumsOfRows(feature_map, rows))
    expected = predictions(study, alone, encoder, fold)
    assert_allclose(summed, expected, rtol=1e-10, atol=1e-10)
    assert np.abs(summed[0] - summed[2]).max(axis=0) > 0.01  # removal changed something


def test_ridges_on_summed_moments_take_no_training_rows(settings):
    study = make_study(settings)
    table, inputs = study.loaded.table, study.inputs
    training, _ = shared_training(table, inputs.splits.all(table)["0"], inputs)
    assert len(list(fitted_models(training, "krr_fkd", study.trials))) == 3
    assert not {"table", "X", "y", "S"} & set(vars(training))
    taken = table.take(inputs.splits.all(table)["0"].train)
    assert_array_equal(training.y, taken.y)
    assert_array_equal(training.S, taken.S(inputs.sensitive))


def test_a_shared_map_predicts_like_maps_of_single_folds(settings):
    # So many landmarks that either kind spans nearly all that the kernel sees.
    shared, own = make_study(settings, 550), make_study(settings, 550, shared=False)
    table = shared.loaded.table
    fold = shared.inputs.splits.outer(table)["1"]
    left = predictions(shared, *training_for(shared.trials, table, fold, shared.inputs), fold)
    right = predictions(own, *make_training(table, fold, own.inputs), fold)
    y = table.take(fold.test).y
    for a, b in zip(left, right, strict=True):
        assert np.abs(a - b).mean(axis=0) < 0.1 * np.abs(a - y).mean(axis=0)
        assert np.abs(a - y).mean(axis=0) == pytest.approx(np.abs(b - y).mean(axis=0), rel=0.03)


def test_shared_trials_have_keys_of_their_own(settings):
    shared, own = make_study(settings), make_study(settings, shared=False)
    assert not {t.key for t in shared.trials} & {t.key for t in own.trials}
    keys = {key for study in (shared, own) for job in study.missing() for key in job.record_keys}
    assert len(keys) == 2 * 3 * 9
    assert shared_sums(own.missing()) == {}
    of = SharedMap(shared.inputs, 0.05, Approximation("nystroem", 150, shared=True))
    expected = MapSums(of, "float64")
    assert shared_sums(shared.missing()) == {expected: []}
    assert sums_of(shared.trials[0], shared.inputs) == expected


def test_rows_are_encoded_on_first_use(settings):
    study = make_study(settings)
    table = study.loaded.table
    fold = study.inputs.splits.outer(table)["2"]
    training, encoder = shared_training(table, fold, study.inputs)
    list(fitted_models(training, "krr_fkd", study.trials))
    assert "X" not in vars(training)
    assert_array_equal(training.X, encoder.transform(table.take(fold.train)))
    assert training.X is training.X
    with pytest.raises(AttributeError, match="Z"):
        _ = training.Z


def test_a_job_with_a_shared_map_writes_its_records(settings):
    study = make_study(settings)
    job = study.missing()[0]
    assert len(run_job(job)) == 3
    record = study.store.read(job.record_keys[1])
    table = study.loaded.table
    fold = study.inputs.splits.all(table)[job.split]
    assert record.predicted.rows == len(fold.test)
    assert not set(fold.test) & set(study.inputs.splits.reserved(table))
    expected = predictions(study, *shared_training(table, fold, study.inputs), fold)
    assert_array_equal(study.store.predictions(record.key), expected[1])


def test_support_vector_machines_use_the_shared_map(settings):
    study = make_study(settings, 60, name="svr_fkd", iterations=[5])
    assert len(run_job(study.missing()[0])) == 1


def make_functions_study(settings, name, *, grid, **fixed):
    approximation = {"kind": "nystroem", "landmarks": 60, "shared": True}
    entry = {"name": name, "approximation": approximation, "grid": grid, **fixed}
    overrides = ["folds.reserve=0.3", f"methods={json.dumps([entry])}"]
    return open_study(load_config("default", overrides), settings)


@pytest.mark.parametrize(
    ("name", "grid", "fixed"),
    [
        ("krr_fks", {"penalty": [0.0, 30.0]}, {"given": "y"}),
        ("krr_fks", {"penalty": [0.0, 30.0]}, {"calibrate": "median"}),
        ("krr_fkd", {"iterations": [0, 5]}, {"basis": "splines"}),
        ("svr_fks", {"penalty": [0.0, 30.0]}, {}),
    ],
)
def test_summed_products_predict_like_products_of_the_training_rows(settings, name, grid, fixed):
    study = make_functions_study(settings, name, grid=grid, **fixed)
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.all(table)["1"]
    train, encoder = table.take(fold.train), shared_encoder(inputs)
    X, S, Z = encoder.transform(train), train.S(inputs.sensitive), table.take(fold.test)
    ((sums, functions),) = shared_sums(study.missing()).items()
    feature_map, reserved = (
        load_map(store_map(sums.shared)),
        table.take(inputs.splits.reserved(table)),
    )
    assert len(functions) == 1
    columns = functions[0].columns(reserved.S(inputs.sensitive), reserved.y)
    rows = Training(X, train.y, S)
    alone = replace(rows, shared=SumsOfRows(feature_map, rows, columns))
    summed, _ = shared_training(table, fold, inputs)
    left, right = (
        [p.predict(encoder.transform(Z)) for p in fitted_models(training, name, study.trials)]
        for training in (summed, alone)
    )
    # libsvm stops at a tolerance of its own.
    assert_allclose(left, right, atol=1e-8 if name != "svr_fks" else 1e-3)
    assert np.abs(left[0] - left[1]).max(axis=0) > 0.01


def test_functions_shared_by_jobs_are_listed_once(settings):
    grid = {"penalty": [0.0, 1.0], "gamma_s": [3.0, 10.0], "given": ["none", "y"]}
    study = make_functions_study(settings, "krr_fks", grid=grid)
    (functions,) = shared_sums(study.missing()).values()
    expected = {
        Functions(BasisSettings("rbf", gamma_s), given)
        for gamma_s in (3.0, 10.0)
        for given in ("none", "y")
    }
    assert set(functions) == expected
    assert len(functions) == 4
    columns = make_functions_study(settings, "krr_fkd", grid={"iterations": [0, 5]})
    assert list(shared_sums(columns.missing()).values()) == [[]]


def test_rows_are_not_encoded_for_sums(settings):
    study = make_functions_study(settings, "krr_fks", grid={"penalty": [1.0]})
    table = study.loaded.table
    training, _ = shared_training(table, study.inputs.splits.outer(table)["2"], study.inputs)
    list(fitted_models(training, "krr_fks", study.trials))
    assert "X" not in vars(training)


def test_without_reserved_rows_nothing_is_shared(rng):
    training = Training(X=rng.normal(size=(9, 2)), y=np.zeros(9), S=np.ones((9, 1)), seed=0)
    shared = Approximation("nystroem", 5, shared=True)
    with pytest.raises(ValueError, match=r"approximation\.shared must be False.*folds\.reserve"):
        training.feature_map(KernelSettings(approximation=shared))

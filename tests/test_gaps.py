"""Missing inputs: filled by what training rows teach, told of in columns of their own."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from own_sample import write_rents
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from configs.data import DataConfig
from configs.load import load_config
from fkd.core.predictors import KernelExpansion
from fkd.problems.bundle import Bundle
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.adapters.files import pack_arrays, unpack_arrays
from tasks.planned.training import make_training
from tasks.study.opening import open_study

TRAIN, TEST = slice(0, 40), slice(40, 60)


@pytest.fixture
def table():
    rng = np.random.default_rng(2)
    numeric = rng.normal(loc=[3.0, -40.0, 7.0], scale=[1.0, 30.0, 2.0], size=(60, 3))
    numeric[::5, 0] = np.nan
    numeric[50, 1] = np.nan  # in a test row alone
    return Table(
        numeric_names=("a", "b", "c"),
        numeric=numeric,
        categorical_names=("k",),
        codes=rng.integers(-1, 2, size=(60, 1)).astype(np.int32),
        levels=(("u", "v"),),
        target_name="y",
        target=np.linspace(0.0, 1.0, 60),
        sensitive_names=("s",),
        sensitive=rng.random((60, 1)),
        target_range=(0.0, 1.0),
        sensitive_range=np.array([[0.0, 1.0]]),
        gaps=("a", "b", "c"),
    )


def frame_of(table):
    frame = pd.DataFrame(table.numeric, columns=list(table.numeric_names))
    frame["k"] = [None if code < 0 else table.levels[0][code] for code in table.codes[:, 0]]
    return frame


@pytest.mark.parametrize(
    ("scale", "scaler"), [("minmax", MinMaxScaler), ("zscore", StandardScaler)]
)
def test_filling_agrees_with_scikit_learn(table, scale, scaler):
    train, test = table.take(TRAIN), table.take(TEST)
    X = Encoder.fit(train, scale=scale).transform(test)
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(train.numeric)
    learnt = scaler().fit(imputer.transform(train.numeric)[:, :3])
    theirs = imputer.transform(test.numeric)
    assert_allclose(X[:, :3], learnt.transform(theirs[:, :3]), rtol=1e-12)
    assert_array_equal(X[:, 3:4], theirs[:, 3:])


def test_columns_say_which_inputs_had_gaps_in_training(table):
    encoder = Encoder.fit(table.take(TRAIN), scale="none")
    assert encoder.feature_names == ("a", "b", "c", "a=missing", "k=u", "k=v", "k=missing")
    assert_array_equal(encoder.fill, np.nanmedian(table.numeric[:40], axis=0))


def test_a_column_that_is_constant_but_for_its_gaps_is_told_by_them(table):
    numeric = table.numeric.copy()
    numeric[:, 0] = np.where(np.isnan(numeric[:, 0]), np.nan, 5.0)
    for scale in ("minmax", "zscore", "none"):
        changed = replace(table, numeric=numeric)
        encoder = Encoder.fit(changed, scale=scale)
        X = encoder.transform(changed)
        assert np.isfinite(X).all()
        assert_array_equal(X[:, 3], np.isnan(numeric[:, 0]))


def test_a_column_without_a_number_in_training_is_no_input(table):
    numeric = table.numeric.copy()
    numeric[:40, 1] = np.nan
    encoder = Encoder.fit(replace(table, numeric=numeric).take(TRAIN), scale="minmax")
    assert encoder.numeric_names == ("a", "c")


def test_a_served_row_may_lack_any_number(table):
    encoder = Encoder.fit(table, scale="zscore")
    again = Encoder.from_arrays(unpack_arrays(pack_arrays(encoder.arrays())))
    assert_array_equal(again.transform_frame(frame_of(table)), encoder.transform(table))
    lacking = frame_of(table).assign(c=None)
    assert_array_equal(
        encoder.transform_frame(lacking)[:, 2],
        np.full(60, (np.median(table.numeric[:, 2]) - encoder.offset[2]) / encoder.span[2]),
    )
    d = len(encoder.feature_names)
    predictor = KernelExpansion("linear", 1.0, 1, 0.0, np.eye(d), np.ones(d))
    ranges = np.full((len(encoder.numeric_names), 2), np.nan)
    bundle = Bundle(encoder, predictor, (0.0, 10.0), ranges)
    kept = Bundle.from_arrays(unpack_arrays(pack_arrays(bundle.arrays())))
    assert np.isfinite(kept.predict(lacking)).all()


def test_infinity_is_no_gap(table):
    numeric = table.numeric.copy()
    numeric[3, 0] = np.inf
    with pytest.raises(ValueError, match="column a must hold finite numbers, got 1"):
        replace(table, numeric=numeric)


def test_gaps_outside_the_declared_columns_are_refused(table):
    with pytest.raises(ValueError, match="column a must hold finite numbers, got 12"):
        replace(table, gaps=("b", "c"))


def test_a_table_without_gaps_is_encoded_into_the_file_it_always_was(table):
    plain = replace(table, numeric=np.nan_to_num(table.numeric), gaps=())
    assert "marked" not in Encoder.fit(plain, scale="minmax").arrays()


@pytest.fixture
def study(tmp_path, settings):
    return open_study(load_config(write_rents(tmp_path)), settings)


def test_values_and_gaps_of_test_rows_change_no_median(study):
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.outer(table)["1"]
    numeric = table.numeric.copy()
    numeric[fold.test] = 1e6
    numeric[fold.test[::2]] = np.nan
    before, encoder = make_training(table, fold, inputs)
    after, same = make_training(replace(table, numeric=numeric), fold, inputs)
    assert_array_equal(same.fill, encoder.fill)
    assert_array_equal(encoder.fill, np.nanmedian(table.numeric[fold.train], axis=0))
    assert same.feature_names == encoder.feature_names
    assert_array_equal(after.X, before.X)
    assert np.isnan(table.numeric[fold.train]).any()


def test_filling_with_a_scaler_that_sees_test_rows_is_refused():
    keys = {"path": "a.csv", "target": "y", "sensitive": "s", "numeric": "x", "problem": "table"}
    with pytest.raises(ValueError, match="impute takes medians of training rows alone"):
        DataConfig.model_validate({**keys, "missing": "impute", "scale_on": "all"})

"""Encoding: scales, levels, missing values, spellings of labels, sparse rows, storage."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bundle_sample import through_file
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from fkd.core.feature_maps import make_map
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table, canonical_label, encode_labels, factorize_labels

TRAIN, TEST = slice(0, 40), slice(40, 60)


def make_table(numeric, codes, *, levels=(("1", "2", "7"), ("a", "b")), fills=None) -> Table:
    n = len(numeric)
    return Table(
        numeric_names=tuple(f"x{i}" for i in range(numeric.shape[1])),
        numeric=numeric,
        categorical_names=tuple(f"c{i}" for i in range(codes.shape[1])),
        codes=codes.astype(np.int32),
        levels=levels,
        target_name="y",
        target=np.linspace(0.0, 1.0, n),
        sensitive_names=("s",),
        sensitive=np.linspace(0.0, 9.0, n)[:, None],
        target_range=(0.0, 1.0),
        sensitive_range=np.array([[0.0, 9.0]]),
        fills=fills or {},
    )


@pytest.fixture
def table() -> Table:
    rng = np.random.default_rng(5)
    numeric = rng.normal(loc=[3.0, -40.0], scale=[1.0, 30.0], size=(60, 2))
    codes = np.column_stack([rng.integers(-1, 3, size=60), rng.integers(0, 2, size=60)])
    return make_table(numeric, codes)


def frame_of(table: Table) -> pd.DataFrame:
    """Raw values as a caller would send them."""
    frame = pd.DataFrame(table.numeric, columns=list(table.numeric_names))
    for name, codes, labels in zip(
        table.categorical_names, table.codes.T, table.levels, strict=True
    ):
        frame[name] = pd.Series([None if c < 0 else labels[c] for c in codes], dtype=object)
    return frame


@pytest.mark.parametrize(
    ("scale", "scaler"), [("minmax", MinMaxScaler), ("zscore", StandardScaler)]
)
def test_numeric_columns_agree_with_scikit_learn(table, scale, scaler):
    train, test = table.take(TRAIN), table.take(TEST)
    X = Encoder.fit(train, scale=scale).transform(test)
    assert_allclose(X[:, :2], scaler().fit(train.numeric).transform(test.numeric), rtol=1e-12)


def test_levels_agree_with_scikit_learn(table):
    train, test = table.take(TRAIN), table.take(TEST)
    X = Encoder.fit(train, scale="none").transform(test)
    # Code -1 sorts first there but last here: a missing value is the last level.
    peer = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    expected = peer.fit(np.where(train.codes < 0, 9, train.codes)).transform(
        np.where(test.codes < 0, 9, test.codes)
    )
    assert_array_equal(X[:, 2:], expected)
    assert_array_equal(X[:, :2], test.numeric)


def test_a_level_unseen_in_training_is_a_row_of_zeros(table):
    train = table.take(table.codes[:, 0] != 2)
    encoder = Encoder.fit(train, scale="minmax")
    unseen = table.codes[:, 0] == 2
    X = encoder.transform(table)
    block = [i for i, name in enumerate(encoder.feature_names) if name.startswith("c0=")]
    assert_array_equal(X[np.ix_(unseen, block)], 0.0)
    assert_array_equal(X[np.ix_(~unseen, block)].sum(axis=1), 1.0)


def test_a_missing_value_is_a_level_of_its_own(table):
    encoder = Encoder.fit(table, scale="minmax")
    column = encoder.feature_names.index("c0=missing")
    assert_array_equal(encoder.transform(table)[:, column] == 1.0, table.codes[:, 0] < 0)


def test_constant_columns_are_left_out(table):
    codes = table.codes.copy()
    codes[:, 1] = 1
    numeric = np.column_stack([table.numeric[:, 0], np.full(table.n, 4.0)])
    encoder = Encoder.fit(make_table(numeric, codes), scale="minmax")
    assert encoder.input_columns == ("x0", "c0")
    assert encoder.feature_names == ("x0", "c0=1", "c0=2", "c0=7", "c0=missing")


def test_a_table_without_any_varying_input_is_refused():
    table = make_table(np.ones((5, 1)), np.empty((5, 0)), levels=())
    with pytest.raises(ValueError, match="constant"):
        Encoder.fit(table, scale="none")


@pytest.mark.parametrize("scale", ["minmax", "zscore", "none"])
def test_huge_numbers_stay_finite(table, scale):
    numeric = table.numeric.copy()
    numeric[0, 0] = 1e300
    X = Encoder.fit(make_table(numeric, table.codes), scale=scale).transform(table)
    assert np.isfinite(X).all()


def test_a_range_that_overflows_is_refused(table):
    numeric = table.numeric.copy()
    numeric[:2, 1] = [-1.7e308, 1.7e308]
    with pytest.raises(ValueError, match=r"x1.*overflow"):
        Encoder.fit(make_table(numeric, table.codes), scale="minmax")


def test_an_unknown_scale_is_refused(table):
    with pytest.raises(ValueError, match="got 'robust'"):
        Encoder.fit(table, scale="robust")


def test_a_frame_of_raw_values_gives_the_same_matrix(table):
    encoder = Encoder.fit(table, scale="minmax")
    assert_array_equal(encoder.transform_frame(frame_of(table)), encoder.transform(table))


@pytest.mark.parametrize("spell", [int, float, str, lambda v: f"{v:02d}", lambda v: f" {v}.0"])
def test_a_label_may_be_written_as_integer_float_or_text(spell):
    rng = np.random.default_rng(8)
    table = make_table(
        rng.normal(size=(30, 1)), rng.integers(0, 3, (30, 1)), levels=(("1", "2", "7"),)
    )
    encoder = Encoder.fit(table, scale="none")
    frame = pd.DataFrame({"x0": table.numeric[:, 0]})
    frame["c0"] = [spell((1, 2, 7)[code]) for code in table.codes[:, 0]]
    assert_array_equal(encoder.transform_frame(frame), encoder.transform(table))


def test_a_table_with_other_codes_for_the_same_labels_gives_the_same_matrix(table):
    encoder = Encoder.fit(table, scale="minmax")
    turned = replace(
        table,
        codes=np.column_stack([np.array([2, 1, 0, -1])[table.codes[:, 0]], table.codes[:, 1]]),
        levels=(table.levels[0][::-1], table.levels[1]),
    )
    assert_array_equal(encoder.transform(turned), encoder.transform(table))


def test_a_missing_number_counts_as_its_declared_fill(table):
    filled = replace(table, fills={"x1": 0.0})
    encoder = Encoder.fit(filled, scale="minmax")
    frame = frame_of(table)
    zeroed = frame.assign(x1=0.0)
    assert_array_equal(
        encoder.transform_frame(frame.assign(x1=np.nan)), encoder.transform_frame(zeroed)
    )


def test_numbers_may_be_text(table):
    encoder = Encoder.fit(table, scale="minmax")
    frame = frame_of(table)
    assert_array_equal(
        encoder.transform_frame(frame.assign(x1=frame["x1"].map(repr))), encoder.transform(table)
    )


@pytest.mark.parametrize("value", [None, np.nan, np.inf, "many", pd.Timestamp(2020, 1, 1)])
def test_a_value_that_is_no_number_is_refused_with_its_column(table, value):
    encoder = Encoder.fit(table, scale="minmax")
    with pytest.raises(ValueError, match="column x1 must hold"):
        encoder.transform_frame(frame_of(table).assign(x1=pd.Series([value] * 60, dtype=object)))


def test_missing_columns_are_named(table):
    encoder = Encoder.fit(table, scale="minmax")
    with pytest.raises(ValueError, match=r"missing are \['x1', 'c0'\]"):
        encoder.transform_frame(frame_of(table).drop(columns=["x1", "c0"]))
    with pytest.raises(ValueError, match=r"missing are \['x1'\]"):
        encoder.transform(replace(table, numeric_names=("x0", "z")))


@pytest.mark.parametrize("name", ["table", "gaps"])
def test_an_encoder_is_stored_without_pickle(name, request):
    table = request.getfixturevalue(name)
    encoder = Encoder.fit(table, scale="minmax")
    again = Encoder.from_arrays(through_file(encoder.arrays()))
    assert again.feature_names == encoder.feature_names
    assert_array_equal(again.transform(table), encoder.transform(table))
    assert_array_equal(again.transform_frame(frame_of(table)), encoder.transform(table))


def test_arguments_are_not_written_to(table):
    for array in (table.numeric, table.codes, table.sensitive, table.target):
        array.flags.writeable = False
    encoder = Encoder.fit(table, scale="zscore")
    frame = frame_of(table)
    before = frame.copy()
    encoder.transform_frame(frame)
    pd.testing.assert_frame_equal(frame, before)


# Missing numbers: filled by medians of the training rows, with an indicator.


@pytest.fixture
def gaps() -> Table:
    """Three numbers: missing in some rows, missing in a test row alone, never missing."""
    rng = np.random.default_rng(2)
    numeric = rng.normal(loc=[3.0, -40.0, 7.0], scale=[1.0, 30.0, 2.0], size=(60, 3))
    numeric[::5, 0] = np.nan
    numeric[50, 1] = np.nan
    complete = make_table(
        np.nan_to_num(numeric), rng.integers(-1, 2, (60, 1)), levels=(("u", "v"),)
    )
    return replace(complete, numeric=numeric, gaps=complete.numeric_names)


@pytest.mark.parametrize(
    ("scale", "scaler"), [("minmax", MinMaxScaler), ("zscore", StandardScaler)]
)
def test_filling_agrees_with_scikit_learn(gaps, scale, scaler):
    train, test = gaps.take(TRAIN), gaps.take(TEST)
    X = Encoder.fit(train, scale=scale).transform(test)
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(train.numeric)
    fitted = scaler().fit(imputer.transform(train.numeric)[:, :3])
    theirs = imputer.transform(test.numeric)
    assert_allclose(X[:, :3], fitted.transform(theirs[:, :3]), rtol=1e-12)
    assert_array_equal(X[:, 3:4], theirs[:, 3:])


def test_columns_with_missing_values_in_training_have_an_indicator(gaps):
    encoder = Encoder.fit(gaps.take(TRAIN), scale="none")
    levels = ("c0=u", "c0=v", "c0=missing")
    assert encoder.feature_names == ("x0", "x1", "x2", "x0=missing", *levels)
    assert_array_equal(encoder.fill, np.nanmedian(gaps.numeric[TRAIN], axis=0))


@pytest.mark.parametrize("scale", ["minmax", "zscore", "none"])
def test_a_column_that_is_constant_apart_from_missing_values_has_an_indicator(gaps, scale):
    numeric = gaps.numeric.copy()
    numeric[:, 0] = np.where(np.isnan(numeric[:, 0]), np.nan, 5.0)
    changed = replace(gaps, numeric=numeric)
    X = Encoder.fit(changed, scale=scale).transform(changed)
    assert np.isfinite(X).all()
    assert_array_equal(X[:, 3], np.isnan(numeric[:, 0]))


def test_a_column_without_a_number_in_training_is_no_input(gaps):
    numeric = gaps.numeric.copy()
    numeric[TRAIN, 1] = np.nan
    encoder = Encoder.fit(replace(gaps, numeric=numeric).take(TRAIN), scale="minmax")
    assert encoder.numeric_names == ("x0", "x2")


def test_any_number_of_a_row_to_predict_may_be_missing(gaps):
    encoder = Encoder.fit(gaps, scale="zscore")
    X = encoder.transform_frame(frame_of(gaps).assign(x2=None))
    assert np.isfinite(X).all()
    scaled = (np.median(gaps.numeric[:, 2]) - encoder.offset[2]) / encoder.span[2]
    assert_array_equal(X[:, 2], np.full(60, scaled))


# Labels: one spelling, sorted codes.


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (1, "1"),
        (1.0, "1"),
        ("1", "1"),
        ("01", "1"),
        (" 1.0 ", "1"),
        ("+1", "1"),
        (np.int32(1), "1"),
        (np.float64(1.0), "1"),
        ("00100", "100"),
        ("000", "0"),
        ("-0", "0"),
        (-9, "-9"),
        ("-0009", "-9"),
        ("1.5", "1.5"),
        (1.5, "1.5"),
        ("1e3", "1e3"),
        ("561M", "561M"),
        (True, "true"),
        ("False", "false"),
        ("Not in", "Not in"),
        (None, ""),
        (np.nan, ""),
        ("", ""),
        ("  ", ""),
    ],
)
def test_a_label_does_not_depend_on_its_spelling(value, label):
    assert canonical_label(value) == label


def test_labels_are_sorted_by_number_then_by_text():
    _, labels = factorize_labels(pd.Series(["b", "10", "9", "a", "-1"]))
    assert labels == ("-1", "9", "10", "a", "b")


def test_two_spellings_of_a_label_share_a_code():
    codes, labels = factorize_labels(pd.Series(["01", "1", 1, 1.0, None, "2"], dtype=object))
    assert labels == ("1", "2")
    assert_array_equal(codes, [0, 0, 0, 0, -1, 1])
    codes, labels = encode_labels(np.array([0, 1, -1, 2]), ["b", "", "a"])
    assert labels == ("a", "b")
    assert_array_equal(codes, [1, -1, -1, 0])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1.0, np.nan, 2.0]),
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["1", None, "2"], dtype="string"),
        pd.Series(["1", None, "2"], dtype="category"),
        pd.Series([1, pd.NA, 2], dtype=object),
    ],
)
def test_every_kind_of_missing_value_is_missing(column):
    codes, labels = factorize_labels(column)
    assert labels == ("1", "2")
    assert_array_equal(codes, [0, -1, 1])


# Sparse rows.


def wide_table(n, *, seed=0, gaps=False):
    """Many levels, of which the first half of the rows has not seen all; two numbers."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(-1, 30, size=n), rng.integers(0, 25, size=n)])
    codes[: n // 2] %= 23
    numeric = rng.normal(loc=[3.0, -40.0], scale=[1.0, 30.0], size=(n, 2))
    levels = tuple(tuple(f"l{i}" for i in range(k)) for k in (30, 25))
    table = make_table(numeric, codes, levels=levels)
    if not gaps:
        return table
    numeric[rng.random(n) < 0.2, 1] = np.nan
    return replace(table, numeric=numeric, gaps=("x1",))


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("scale", ["minmax", "zscore", "none"])
def test_sparse_rows_are_the_same_matrix(scale, gaps):
    table = wide_table(5000, gaps=gaps)
    encoder = Encoder.fit(table.take(slice(0, 2500)), scale=scale)
    rows, X = encoder.rows(table), encoder.transform(table)
    assert isinstance(rows, csr_array)
    assert_array_equal(rows.toarray(), X)
    p = 2 + gaps
    assert (X[2500:, p:].sum(axis=1) < 2).any()  # unseen levels
    assert rows.nnz == 5000 * (p + 2)  # no indicator more than there are columns
    for part in (slice(0, 0), slice(7, 8), slice(100, 4400)):
        assert_array_equal(rows[part].toarray(), X[part])


def test_rows_that_are_mostly_numbers_stay_dense(table):
    encoder = Encoder.fit(table, scale="minmax")
    assert_array_equal(encoder.rows(table), encoder.transform(table))
    assert isinstance(encoder.rows(table), np.ndarray)


@pytest.mark.parametrize("scale", ["minmax", "none"])
def test_features_and_predictions_of_sparse_rows_are_those_of_dense_ones(scale):
    table = wide_table(5000, gaps=True)
    # A number so large that a product of uncentred rows would lose its differences.
    table = replace(table, numeric=table.numeric + np.array([1e6 if scale == "none" else 0.0, 0]))
    encoder = Encoder.fit(table.take(slice(0, 2500)), scale=scale)
    rows, X = encoder.rows(table), encoder.transform(table)
    fmap = make_map(X[:2500], gamma=0.05, approximation="nystroem", landmarks=60, random_state=0)
    assert_allclose(fmap.transform(rows), fmap.transform(X), atol=1e-8)
    f = fmap.expansion(np.linspace(-1.0, 1.0, fmap.rank), 0.5)
    assert_allclose(f.predict(rows), f.predict(X), atol=1e-8)
    assert f.predict(X).std() > 1e-3

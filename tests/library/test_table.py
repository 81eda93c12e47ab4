"""Tables: units, selected rows, refused values, storage."""

from dataclasses import replace

import numpy as np
import pytest
from bundle_sample import through_file
from numpy.testing import assert_allclose, assert_array_equal

from fkd.problems.table import MappedTable, Table


@pytest.fixture
def table() -> Table:
    rng = np.random.default_rng(3)
    n = 40
    sensitive = rng.normal(loc=[5.0, -3.0], scale=[1.0, 20.0], size=(n, 2))
    target = rng.gamma(2.0, 1e4, size=n)
    return Table(
        numeric_names=("hours", "ratio"),
        numeric=rng.normal(size=(n, 2)),
        categorical_names=("job", "state"),
        codes=rng.integers(-1, 3, size=(n, 2)).astype(np.int32),
        levels=(("1", "2", "7"), ("MT", "ID", "ü")),
        target_name="income",
        target=target,
        sensitive_names=("age", "share"),
        sensitive=sensitive,
        target_range=(float(target.min()), float(target.max())),
        sensitive_range=np.stack([sensitive.min(axis=0), sensitive.max(axis=0)], axis=1),
        extra={"PWGTP": np.arange(n)},
        fills={"ratio": 0.0},
    )


def test_target_and_sensitive_columns_are_scaled_to_the_unit_interval(table):
    assert_allclose([table.y.min(), table.y.max()], [0.0, 1.0])
    assert_allclose(table.S().min(axis=0), 0.0)
    assert_allclose(table.S().max(axis=0), 1.0)


def test_a_subset_keeps_the_units_of_the_whole(table):
    rows = np.array([3, 1, 5])
    part = table.take(rows)
    assert_array_equal(part.y, table.y[rows])
    assert_array_equal(part.S(), table.S()[rows])
    assert_array_equal(part.extra["PWGTP"], rows)


def test_sensitive_columns_come_in_the_order_asked_for(table):
    assert_array_equal(table.S(["share", "age"]), table.S()[:, ::-1])
    assert_array_equal(table.S(["share"]), table.S()[:, 1:])


def test_an_unknown_sensitive_column_is_named(table):
    with pytest.raises(ValueError, match=r"age.*share.*got 'sex'"):
        table.S(["sex"])


def test_a_table_is_stored_without_pickle(table):
    again = Table.from_arrays(through_file(table.arrays()))
    for name, value in vars(table).items():
        if isinstance(value, np.ndarray):
            assert_array_equal(getattr(again, name), value)
        elif name != "extra":
            assert getattr(again, name) == value
    assert_array_equal(again.extra["PWGTP"], table.extra["PWGTP"])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("part", "name"), [("numeric", "ratio"), ("sensitive", "share")])
def test_a_value_that_is_not_finite_is_refused_with_its_column(table, value, part, name):
    columns = getattr(table, part).copy()
    columns[7, 1] = value
    with pytest.raises(ValueError, match=name):
        replace(table, **{part: columns})


def test_missing_numbers_are_allowed_in_declared_columns_alone(table):
    numeric = table.numeric.copy()
    numeric[[3, 9], 1] = np.nan
    assert replace(table, numeric=numeric, gaps=("ratio",)).n == 40
    with pytest.raises(ValueError, match="column ratio must hold finite numbers, got 2"):
        replace(table, numeric=numeric, gaps=("hours",))
    numeric[5, 1] = np.inf
    with pytest.raises(ValueError, match="column ratio must hold finite numbers, got 1"):
        replace(table, numeric=numeric, gaps=("ratio",))


def test_a_missing_target_is_refused(table):
    with pytest.raises(ValueError, match="income"):
        replace(table, target=np.full(table.n, np.nan))


@pytest.mark.parametrize(
    ("limits", "words"), [((2.0, 2.0), "constant"), ((-1.7e308, 1.7e308), "finite range")]
)
def test_an_unusable_range_is_refused(table, limits, words):
    with pytest.raises(ValueError, match=f"income.*{words}"):
        replace(table, target_range=limits)


def test_an_empty_table_is_refused(table):
    with pytest.raises(ValueError, match="must have rows"):
        table.take(np.array([], dtype=np.int64))


def test_one_row_of_a_table_is_a_table(table):
    assert table.take(slice(0, 1)).n == 1


def test_columns_of_the_wrong_shape_are_refused(table):
    with pytest.raises(ValueError, match=r"numeric must have shape \(40, 2\), got \(40, 1\)"):
        replace(table, numeric=table.numeric[:, :1])
    with pytest.raises(ValueError, match=r"levels.*got 1"):
        replace(table, levels=table.levels[:1])


@pytest.mark.parametrize(
    "index",
    [slice(3, 30), np.array([5, 2, 39]), np.arange(40) % 3 == 0],
    ids=["slice", "at", "mask"],
)
def test_rows_of_a_mapped_table_are_those_of_the_table(table, index):
    mapped = MappedTable.from_arrays(table.arrays())
    taken, expected = mapped.take(index), table.take(index)
    assert type(taken) is Table
    for name, array in expected.arrays().items():
        assert_array_equal(taken.arrays()[name], array)
    assert taken.fills == expected.fills


@pytest.mark.parametrize(
    ("part", "name"), [("numeric", "ratio"), ("sensitive", "share"), ("target", "income")]
)
def test_a_mapped_table_checks_rows_when_they_are_taken(table, part, name):
    arrays = {key: np.array(value) for key, value in table.arrays().items()}
    arrays[part][(20, -1) if arrays[part].ndim == 2 else 20] = np.nan
    mapped = MappedTable.from_arrays(arrays)
    assert mapped.take(slice(0, 20)).n == 20
    with pytest.raises(ValueError, match=f"column {name} must hold finite numbers"):
        mapped.take(slice(0, 21))


def test_an_empty_part_of_a_mapped_table_is_refused(table):
    with pytest.raises(ValueError, match="must have rows"):
        MappedTable.from_arrays(table.arrays()).take(slice(0, 0))

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from configs.data import DataConfig
from configs.errors import UserError
from fkd.problems.encoder import Encoder
from tasks.data.load import load_table
from tasks.data.user_table import read_own_file
from tasks.storage.settings import Settings


@pytest.fixture
def frame():
    rng = np.random.default_rng(6)
    n = 50
    return pd.DataFrame(
        {
            "wage": rng.gamma(2.0, 1e3, n),
            "age": rng.integers(17, 90, n),
            "share": rng.random(n),
            "hours": rng.normal(40, 5, n),
            "job": rng.choice(["clerk", "007", "7", "smith"], n),
            "year": rng.choice([9, 10, 11], n),
            "town": rng.choice(["A", "B"], n),
            "unused": "x",
        }
    )


@pytest.fixture(params=["csv", "parquet"])
def save(request, tmp_path):
    def write(frame):
        path = tmp_path / f"own.{request.param}"
        frame.to_csv(path, index=False) if request.param == "csv" else frame.to_parquet(path)
        return asked(path)

    return write


def asked(path, **changes):
    keys = {
        "problem": "table",
        "path": str(path),
        "target": "wage",
        "sensitive": ["age", "share"],
        "numeric": ["age", "hours"],
        "categorical": ["job"],
        "keep": ["year", "town"],
    }
    return DataConfig.model_validate({**keys, **changes})


def test_an_own_table_becomes_a_problem(save, frame, tmp_path):
    loaded = load_table(save(frame), Settings(tmp_path / "home", None, None, None))
    table = loaded.table
    assert table.numeric_names == ("hours",)
    assert table.sensitive_names == ("age", "share")
    assert_array_equal(table.target, frame["wage"])
    assert_array_equal(table.extra["year"], frame["year"])
    assert_array_equal(table.extra["town"], frame["town"])
    assert table.levels[0] == ("7", "clerk", "smith")
    assert np.isfinite(Encoder.fit(table, scale="minmax").transform(table)).all()
    assert loaded.provenance["rows_used"] == 50


def test_a_changed_file_is_another_table(save, frame, tmp_path):
    settings = Settings(tmp_path / "home", None, None, None)
    first = load_table(save(frame), settings).digest
    assert load_table(save(frame.iloc[::-1]), settings).digest != first


def test_rows_without_a_number_are_dropped_and_counted(save, frame):
    frame.loc[3, "wage"] = np.nan
    frame.loc[[3, 4], "hours"] = np.nan
    columns = read_own_file(save(frame))
    assert columns.rows_read == 50
    assert {k: v for k, v in columns.dropped.items() if v} == {
        "wage missing": 1,
        "hours missing": 1,
    }
    assert len(columns.numbers["age"]) == 48


def test_missing_labels_are_a_level_of_their_own(save, frame):
    frame.loc[5, "job"] = None
    columns = read_own_file(save(frame))
    assert columns.categories["job"].codes[5] == -1


def test_a_column_that_is_not_there_is_answered_by_the_nearest(save, frame):
    data = save(frame.rename(columns={"hours": "Hours_"}))
    with pytest.raises(UserError, match=r"a column of .*own.*got 'hours'; the nearest is 'Hours_'"):
        read_own_file(data)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.inf, "column hours must hold finite numbers, got 1"),
        ("many", "column hours must hold numbers"),
    ],
)
def test_a_number_that_is_none_is_refused_by_column(tmp_path, frame, value, words):
    path = tmp_path / "own.csv"
    frame.astype({"hours": object}).assign(hours=[value, *frame["hours"][1:]]).to_csv(path)
    with pytest.raises(UserError, match=words):
        read_own_file(asked(path))


def test_a_table_without_complete_rows_is_refused(save, frame):
    with pytest.raises(UserError, match="every number present, got none"):
        read_own_file(save(frame.assign(hours=np.nan)))


@pytest.mark.parametrize("column", ["wage", "share"])
def test_a_constant_target_or_sensitive_column_is_refused(save, frame, column, tmp_path):
    settings = Settings(tmp_path / "home", None, None, None)
    with pytest.raises(UserError, match=f"column {column} must not be constant"):
        load_table(save(frame.assign(**{column: 5.0})), settings)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"data\.path must be an existing.*nothing\.csv"):
        read_own_file(asked(tmp_path / "nothing.csv"))


@pytest.mark.parametrize("name", ["bad.csv", "bad.parquet"])
def test_a_file_that_is_no_table_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\x80\x04\x95pickle\n1,2\n3\n")
    with pytest.raises(UserError, match=name):
        read_own_file(asked(path))


@pytest.mark.parametrize(
    "changes",
    [{"missing_words": ["?"]}, {"decimal": "."}, {"encoding": "cp1252"}, {"missing": "impute"}],
    ids=str,
)
def test_a_file_read_otherwise_is_another_table(frame, tmp_path, changes):
    settings = Settings(tmp_path / "home", None, None, None)
    frame.to_csv(tmp_path / "own.csv", index=False)
    plain, other = (asked(tmp_path / "own.csv", **keys) for keys in ({}, changes))
    assert load_table(plain, settings).digest != load_table(other, settings).digest


def test_a_file_in_another_folder_is_the_same_table(frame, tmp_path):
    settings = Settings(tmp_path / "home", None, None, None)
    digests = set()
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        frame.to_csv(folder / "own.csv", index=False)
        digests.add(load_table(asked(folder / "own.csv"), settings).digest)
    assert len(digests) == 1

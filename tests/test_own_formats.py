"""One table in many forms gives one table; what cannot be read is refused with its cure."""

import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from own_sample import DATA, HEADER, german, rents, write_rents

from configs.data import DataConfig
from configs.errors import UserError
from tasks.data.user_table import read_own_file


def asked(path, **changes):
    keys = {**DATA, "path": str(path), "missing_words": ["k.A."], "missing": "impute"}
    return DataConfig.model_validate({**keys, **changes})


def english(value):
    return "" if value is None else str(value)


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(rents(), columns=list(HEADER)).astype({"Baujahr": float})


def check(columns, frame):
    for name in ("Fläche m²", "Baujahr", "Alter", "Miete"):
        assert_array_equal(columns.numbers[name], frame[name])
    town = columns.categories["Bezirk"]
    assert [town.labels[code] for code in town.codes] == list(frame["Bezirk"])


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_an_office_export_is_read_as_it_was_written(tmp_path, frame, encoding, separator):
    write_rents(tmp_path, encoding=encoding, separator=separator)
    columns = read_own_file(asked(tmp_path / "mieten.csv"))
    check(columns, frame)
    assert "decimal comma" in columns.read_as


def test_commas_separate_where_points_are_decimal(tmp_path, frame):
    write_rents(tmp_path, separator=",", cell=english)
    columns = read_own_file(asked(tmp_path / "mieten.csv"))
    check(columns, frame)
    assert columns.read_as == "Windows-1252, separated by commas"


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.xlsx", "t.tsv", "t.csv.gz"])
def test_every_kind_of_file_gives_the_same_table(tmp_path, frame, name):
    path = tmp_path / name
    if name == "t.parquet":
        frame.to_parquet(path)
    elif name == "t.feather":
        frame.to_feather(path)
    elif name == "t.xlsx":
        frame.to_excel(path, index=False)
    elif name == "t.tsv":
        frame.to_csv(path, sep="\t", index=False)
    else:
        path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    check(read_own_file(asked(path)), frame)


def test_the_user_has_the_last_word_on_the_form(tmp_path, frame):
    write_rents(tmp_path, encoding="cp850")
    said = {"encoding": "cp850", "separator": "semicolon", "decimal": "comma"}
    check(read_own_file(asked(tmp_path / "mieten.csv", **said)), frame)


def test_bytes_that_are_no_text_are_refused_by_their_line(tmp_path):
    write_rents(tmp_path)
    path = tmp_path / "mieten.csv"
    path.write_bytes(path.read_bytes().replace(b"Mitte", b"M\x81tte", 1))
    with pytest.raises(UserError, match=r"neither UTF-8 nor Windows-1252.*line \d+.*0x81.*cp850"):
        read_own_file(asked(path))


def test_a_false_encoding_is_refused(tmp_path):
    write_rents(tmp_path)
    with pytest.raises(UserError, match=r"must be utf-8, as data\.encoding says, but line"):
        read_own_file(asked(tmp_path / "mieten.csv", encoding="utf-8"))


def test_a_header_that_has_a_name_twice_is_refused(tmp_path):
    path = write_rents(tmp_path).with_suffix(".csv")
    path.write_bytes(path.read_bytes().replace(b"Einzug", b"Baujahr", 1))
    with pytest.raises(UserError, match=r"one column of each name, but 2 are called 'Baujahr'"):
        read_own_file(asked(path))


def test_old_sheets_are_refused_with_their_cure(tmp_path):
    path = tmp_path / "t.xls"
    path.write_bytes(b"old")
    with pytest.raises(UserError, match=r"\.xls; save it as \.xlsx or as CSV"):
        read_own_file(asked(path))


def test_a_sheet_without_the_extra_names_the_extra(tmp_path, frame, monkeypatch):
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setattr("tasks.data.table_formats.find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"fkd\[excel\]"):
        read_own_file(asked(tmp_path / "t.xlsx"))


def test_excels_own_line_on_the_separator_is_no_header(tmp_path, frame):
    path = write_rents(tmp_path).with_suffix(".csv")
    path.write_bytes(b"sep=;\r\n" + path.read_bytes())
    check(read_own_file(asked(path)), frame)


def test_gaps_are_kept_or_their_rows_dropped_with_the_way_to_keep_them(tmp_path, frame):
    path = write_rents(tmp_path).with_suffix(".csv")
    kept, dropped = read_own_file(asked(path)), read_own_file(asked(path, missing="drop"))
    gaps = frame[["Fläche m²", "Baujahr"]].isna()
    assert len(kept.numbers["Miete"]) == len(frame)
    assert len(dropped.numbers["Miete"]) == int((~gaps.any(axis=1)).sum())
    assert any("data.missing: impute keeps them" in note for note in dropped.notes)
    assert any(f"Baujahr: {gaps['Baujahr'].sum()} missing values" in note for note in kept.notes)
    assert not np.isnan(dropped.numbers["Baujahr"]).any()


def test_the_words_of_a_german_cell_are_what_they_look_like():
    assert german(1234.5) == "1.234,50"


@pytest.mark.parametrize(
    ("kept", "end", "words"),
    [
        (0, b"", "line of column names, but it is empty"),
        (1, b"", "must have rows below its line of column names"),
        (1, b"\r\n", "two rows .* got none of 0"),
    ],
    ids=["nothing", "header alone", "header with its end"],
)
def test_a_file_without_rows_is_refused(tmp_path, kept, end, words):
    path = write_rents(tmp_path).with_suffix(".csv")
    path.write_bytes(b"".join(path.read_bytes().splitlines()[:kept]) + end)
    with pytest.raises(UserError, match=words):
        read_own_file(asked(path))


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "csv"])
def test_a_word_for_missing_is_no_label(tmp_path, frame, kind):
    path, marked = tmp_path / f"t.{kind}", frame.copy()
    marked.loc[[1, 2], "Bezirk"] = "k.A."
    write = {"parquet": marked.to_parquet, "xlsx": marked.to_excel, "csv": marked.to_csv}[kind]
    write(path)
    town = read_own_file(asked(path)).categories["Bezirk"]
    assert_array_equal(town.codes[[1, 2]], [-1, -1])
    assert "k.A." not in town.labels

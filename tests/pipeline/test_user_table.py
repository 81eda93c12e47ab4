"""Tables of users: formats, numbers, labels, and the remedies of errors."""

import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from own_sample import DATA, HEADER, german, rents, write_rents

from configs.data import DataConfig
from configs.errors import UserError
from fkd.problems.encoder import Encoder
from tasks.data.load import load_table
from tasks.data.user_table import read_columns, table_path
from tasks.storage.settings import Settings


def read_file(data):
    return read_columns(table_path(data), data)


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
        return config(path)

    return write


def config(path, **changes):
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


def test_a_users_table_is_loaded_as_a_problem(save, frame, tmp_path):
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
    columns = read_file(save(frame))
    assert columns.rows_read == 50
    assert {k: v for k, v in columns.dropped.items() if v} == {
        "wage missing": 1,
        "hours missing": 1,
    }
    assert len(columns.numbers["age"]) == 48


def test_missing_labels_have_the_code_minus_one(save, frame):
    frame.loc[5, "job"] = None
    columns = read_file(save(frame))
    assert columns.categories["job"].codes[5] == -1


def test_the_error_for_an_absent_column_names_the_nearest(save, frame):
    data = save(frame.rename(columns={"hours": "Hours_"}))
    with pytest.raises(UserError, match=r"a column of .*own.*got 'hours'; the nearest is 'Hours_'"):
        read_file(data)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.inf, "column hours must hold finite numbers, got 1"),
        ("many", "column hours must hold numbers"),
    ],
)
def test_the_error_for_an_invalid_number_names_the_column(tmp_path, frame, value, words):
    path = tmp_path / "own.csv"
    frame.astype({"hours": object}).assign(hours=[value, *frame["hours"][1:]]).to_csv(path)
    with pytest.raises(UserError, match=words):
        read_file(config(path))


def test_a_table_without_complete_rows_is_refused(save, frame):
    with pytest.raises(UserError, match="rows with every number, got 0 of"):
        read_file(save(frame.assign(hours=np.nan)))


@pytest.mark.parametrize("column", ["wage", "share"])
def test_a_constant_target_or_sensitive_column_is_refused(save, frame, column, tmp_path):
    settings = Settings(tmp_path / "home", None, None, None)
    with pytest.raises(UserError, match=f"column {column} must not be constant"):
        load_table(save(frame.assign(**{column: 5.0})), settings)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"data\.path must be an existing.*nothing\.csv"):
        read_file(config(tmp_path / "nothing.csv"))


@pytest.mark.parametrize("name", ["bad.csv", "bad.parquet"])
def test_a_file_that_is_no_table_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\x80\x04\x95pickle\n1,2\n3\n")
    with pytest.raises(UserError, match=name):
        read_file(config(path))


@pytest.mark.parametrize(
    "changes",
    [{"missing_words": ["?"]}, {"decimal": "."}, {"encoding": "cp1252"}, {"missing": "impute"}],
    ids=str,
)
def test_other_options_for_the_format_give_another_table(frame, tmp_path, changes):
    settings = Settings(tmp_path / "home", None, None, None)
    frame.to_csv(tmp_path / "own.csv", index=False)
    plain, other = (config(tmp_path / "own.csv", **keys) for keys in ({}, changes))
    assert load_table(plain, settings).digest != load_table(other, settings).digest


def test_a_file_in_another_folder_is_the_same_table(frame, tmp_path):
    settings = Settings(tmp_path / "home", None, None, None)
    digests = set()
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        frame.to_csv(folder / "own.csv", index=False)
        digests.add(load_table(config(folder / "own.csv"), settings).digest)
    assert len(digests) == 1


def rents_of(path, **changes):
    keys = {**DATA, "path": str(path), "missing_words": ["k.A."], "missing": "impute"}
    return DataConfig.model_validate({**keys, **changes})


def english(value):
    return "" if value is None else str(value)


@pytest.fixture(scope="module")
def rents_frame():
    return pd.DataFrame(rents(), columns=list(HEADER)).astype({"Baujahr": float})


def check(columns, rents_frame):
    for name in ("Fläche m²", "Baujahr", "Alter", "Miete"):
        assert_array_equal(columns.numbers[name], rents_frame[name])
    town = columns.categories["Bezirk"]
    assert [town.labels[code] for code in town.codes] == list(rents_frame["Bezirk"])


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_an_office_export_is_read(tmp_path, rents_frame, encoding, separator):
    write_rents(tmp_path, encoding=encoding, separator=separator)
    columns = read_file(rents_of(tmp_path / "mieten.csv"))
    check(columns, rents_frame)
    assert "decimal comma" in columns.read_as


def test_commas_separate_columns_with_decimal_points(tmp_path, rents_frame):
    write_rents(tmp_path, separator=",", cell=english)
    columns = read_file(rents_of(tmp_path / "mieten.csv"))
    check(columns, rents_frame)
    assert columns.read_as == "Windows-1252, separated by commas"


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.xlsx", "t.tsv", "t.csv.gz"])
def test_every_kind_of_file_gives_the_same_table(tmp_path, rents_frame, name):
    path = tmp_path / name
    if name == "t.parquet":
        rents_frame.to_parquet(path)
    elif name == "t.feather":
        rents_frame.to_feather(path)
    elif name == "t.xlsx":
        rents_frame.to_excel(path, index=False)
    elif name == "t.tsv":
        rents_frame.to_csv(path, sep="\t", index=False)
    else:
        path.write_bytes(gzip.compress(rents_frame.to_csv(index=False).encode()))
    check(read_file(rents_of(path)), rents_frame)


def test_options_for_the_format_win(tmp_path, rents_frame):
    write_rents(tmp_path, encoding="cp850")
    options = {"encoding": "cp850", "separator": "semicolon", "decimal": "comma"}
    check(read_file(rents_of(tmp_path / "mieten.csv", **options)), rents_frame)


def test_the_error_for_an_undecodable_byte_names_the_line(tmp_path):
    write_rents(tmp_path)
    path = tmp_path / "mieten.csv"
    path.write_bytes(path.read_bytes().replace(b"Mitte", b"M\x81tte", 1))
    with pytest.raises(UserError, match=r"neither UTF-8 nor Windows-1252.*line \d+.*0x81.*cp850"):
        read_file(rents_of(path))


def test_a_false_encoding_is_refused(tmp_path):
    write_rents(tmp_path)
    with pytest.raises(UserError, match=r"must be utf-8 as data\.encoding requires, but line"):
        read_file(rents_of(tmp_path / "mieten.csv", encoding="utf-8"))


def test_a_header_that_has_a_name_twice_is_refused(tmp_path):
    path = write_rents(tmp_path).with_suffix(".csv")
    path.write_bytes(path.read_bytes().replace(b"Einzug", b"Baujahr", 1))
    with pytest.raises(UserError, match=r"one column of each name, but 2 are called 'Baujahr'"):
        read_file(rents_of(path))


def test_old_sheets_are_refused(tmp_path):
    path = tmp_path / "t.xls"
    path.write_bytes(b"old")
    with pytest.raises(UserError, match=r"got \.xls\..*\.xlsx"):
        read_file(rents_of(path))


def test_a_sheet_without_openpyxl_names_the_extra(tmp_path, rents_frame, monkeypatch):
    rents_frame.to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setattr("tasks.data.table_formats.find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"fkd\[excel\]"):
        read_file(rents_of(tmp_path / "t.xlsx"))


def test_a_sep_line_is_no_header(tmp_path, rents_frame):
    path = write_rents(tmp_path).with_suffix(".csv")
    path.write_bytes(b"sep=;\r\n" + path.read_bytes())
    check(read_file(rents_of(path)), rents_frame)


def test_missing_inputs_are_kept_or_their_rows_dropped_with_a_note(tmp_path, rents_frame):
    path = write_rents(tmp_path).with_suffix(".csv")
    kept, dropped = read_file(rents_of(path)), read_file(rents_of(path, missing="drop"))
    gaps = rents_frame[["Fläche m²", "Baujahr"]].isna()
    assert len(kept.numbers["Miete"]) == len(rents_frame)
    assert len(dropped.numbers["Miete"]) == int((~gaps.any(axis=1)).sum())
    assert any("data.missing: impute keeps them" in note for note in dropped.notes)
    assert any(f"Baujahr: {gaps['Baujahr'].sum()} missing values" in note for note in kept.notes)
    assert not np.isnan(dropped.numbers["Baujahr"]).any()


def test_the_sample_has_german_numbers():
    assert german(1234.5) == "1.234,50"


@pytest.mark.parametrize(
    ("kept", "end", "words"),
    [
        (0, b"", "line of column names, but it is empty"),
        (1, b"", "must have rows below its line of column names"),
        (1, b"\r\n", "2 rows .* got 0 of 0"),
    ],
    ids=["nothing", "header alone", "header with its end"],
)
def test_a_file_without_rows_is_refused(tmp_path, kept, end, words):
    path = write_rents(tmp_path).with_suffix(".csv")
    path.write_bytes(b"".join(path.read_bytes().splitlines()[:kept]) + end)
    with pytest.raises(UserError, match=words):
        read_file(rents_of(path))


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "csv"])
def test_a_word_for_missing_is_no_label(tmp_path, rents_frame, kind):
    path, marked = tmp_path / f"t.{kind}", rents_frame.copy()
    marked.loc[[1, 2], "Bezirk"] = "k.A."
    write = {"parquet": marked.to_parquet, "xlsx": marked.to_excel, "csv": marked.to_csv}[kind]
    write(path)
    town = read_file(rents_of(path)).categories["Bezirk"]
    assert_array_equal(town.codes[[1, 2]], [-1, -1])
    assert "k.A." not in town.labels


PLACE = {"Vertrag": 0, "Einzug": 1, "Bezirk": 2, "Fläche m²": 3, "Baujahr": 4, "Miete": 6}


@pytest.fixture
def read(tmp_path):
    """Read the rents with cells replaced, by column and row."""

    def reading(cells=None, **changes):
        rows = rents()
        for (name, row), value in (cells or {}).items():
            rows[row][PLACE[name]] = value
        write_rents(tmp_path, rows=rows)
        keys = {**DATA, "path": str(tmp_path / "mieten.csv"), "missing_words": "k.A."}
        return read_file(DataConfig.model_validate({**keys, **changes}))

    return reading


def test_the_error_for_a_word_proposes_missing_words(read):
    message = r"line 2 has 'k\.A\.' \(14 of 120.*data\.missing_words: \[k\.A\.\]"
    with pytest.raises(UserError, match=rf"column Baujahr must hold numbers, but {message}"):
        read(missing_words=[], numeric=["Baujahr"])
    assert read().dropped["Baujahr missing"] == 14 - 1  # one of them lacks the area, too


def test_a_number_can_be_a_missing_word(read):
    cells = {("Baujahr", row): -999 for row in (3, 5)}
    found = read(cells, missing_words=["k.A.", -999], missing="impute")
    assert np.isnan(found.numbers["Baujahr"][[3, 5]]).all()
    assert np.nanmin(found.numbers["Baujahr"]) > 1800


def test_dates_are_refused_by_name(read):
    with pytest.raises(UserError, match=r"column Einzug .*line 2 has the date.*'01\.03\.2015'"):
        read(numeric=["Einzug"])


def test_the_error_for_labels_proposes_categorical(read):
    rows = {("Bezirk", row): f"Ort{row % 7}" for row in range(120)}
    with pytest.raises(UserError, match=r"column Bezirk.*list it under data\.categorical"):
        read(rows, numeric=["Bezirk"], categorical=[])


def test_the_error_for_a_unit_proposes_to_remove_it(read):
    with pytest.raises(UserError, match=r"'75,0 m²'.*remove the unit"):
        read({("Fläche m²", 1): "75,0 m²"})


def test_two_decimal_signs_in_one_column_are_refused(read):
    with pytest.raises(UserError, match=r"must have one decimal sign, but holds '75\.25'"):
        read({("Fläche m²", 1): "75.25"})


@pytest.mark.parametrize(("sign", "expected"), [("comma", 1234.0), ("point", 1.234)])
def test_an_ambiguous_number_is_refused(tmp_path, sign, expected):
    rows = [[f"{value}" for value in row] for row in rents(20)]
    for i, row in enumerate(rows):
        row[3:] = [f"1.{234 + i}", "1950", str(20 + i), str(500 + i)]
    write_rents(tmp_path, rows=rows)
    keys = {**DATA, "path": str(tmp_path / "mieten.csv")}
    with pytest.raises(UserError, match=r"'1\.234' in line 2, which may be 1234 or 1\.234.*decim"):
        read_file(DataConfig.model_validate(keys))
    found = read_file(DataConfig.model_validate({**keys, "decimal": sign}))
    assert found.numbers["Fläche m²"][0] == expected


def test_ids_and_dates_are_no_labels(read):
    with pytest.raises(UserError, match=r"column Vertrag has .* labels.*like an id or a date"):
        read(categorical=["Vertrag"])


def test_one_row_is_too_few(tmp_path):
    write_rents(tmp_path, rows=rents()[1:2], cell=german)
    keys = {**DATA, "path": str(tmp_path / "mieten.csv")}
    with pytest.raises(UserError, match="at least 2 rows with every number, got 1 of 1"):
        read_file(DataConfig.model_validate(keys))

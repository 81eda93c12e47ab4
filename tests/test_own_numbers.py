"""Cures that cure: what stands in a numeric column and is no number."""

import numpy as np
import pytest
from own_sample import DATA, german, rents, write_rents

from configs.data import DataConfig
from configs.errors import UserError
from tasks.data.user_table import read_own_file

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
        return read_own_file(DataConfig.model_validate({**keys, **changes}))

    return reading


def test_a_word_for_missing_is_answered_by_the_key_to_write(read):
    cure = r"line 2 has 'k\.A\.' \(14 of 120.*data\.missing_words: \[k\.A\.\]"
    with pytest.raises(UserError, match=rf"column Baujahr must hold numbers, but {cure}"):
        read(missing_words=[], numeric=["Baujahr"])
    assert read().dropped["Baujahr missing"] == 14 - 1  # one of them lacks the area, too


def test_a_number_that_stands_for_missing_is_named_as_one(read):
    cells = {("Baujahr", row): -999 for row in (3, 5)}
    found = read(cells, missing_words=["k.A.", -999], missing="impute")
    assert np.isnan(found.numbers["Baujahr"][[3, 5]]).all()
    assert np.nanmin(found.numbers["Baujahr"]) > 1800


def test_dates_are_refused_by_name(read):
    with pytest.raises(UserError, match=r"column Einzug .*line 2 has the date.*'01\.03\.2015'"):
        read(numeric=["Einzug"])


def test_labels_among_the_numbers_are_sent_to_their_key(read):
    rows = {("Bezirk", row): f"Ort{row % 7}" for row in range(120)}
    with pytest.raises(UserError, match=r"column Bezirk.*list it under data\.categorical"):
        read(rows, numeric=["Bezirk"], categorical=[])


def test_units_in_a_cell_are_told_apart_from_missing_values(read):
    with pytest.raises(UserError, match=r"'75,0 m²'.*leave the unit out"):
        read({("Fläche m²", 1): "75,0 m²"})


def test_two_decimal_signs_in_one_column_are_refused(read):
    with pytest.raises(UserError, match=r"must have one decimal sign, but holds '75\.25'"):
        read({("Fläche m²", 1): "75.25"})


@pytest.mark.parametrize(("sign", "expected"), [("comma", 1234.0), ("point", 1.234)])
def test_a_number_that_may_be_two_is_asked_about(tmp_path, sign, expected):
    rows = [[f"{value}" for value in row] for row in rents(20)]
    for i, row in enumerate(rows):
        row[3:] = [f"1.{234 + i}", "1950", str(20 + i), str(500 + i)]
    write_rents(tmp_path, rows=rows)
    keys = {**DATA, "path": str(tmp_path / "mieten.csv")}
    with pytest.raises(UserError, match=r"'1\.234' in line 2, which may be 1234 or 1\.234.*decim"):
        read_own_file(DataConfig.model_validate(keys))
    found = read_own_file(DataConfig.model_validate({**keys, "decimal": sign}))
    assert found.numbers["Fläche m²"][0] == expected


def test_ids_and_dates_are_no_labels(read):
    with pytest.raises(UserError, match=r"column Vertrag has .* labels.*as ids and dates have"):
        read(categorical=["Vertrag"])


def test_one_row_is_too_few(tmp_path):
    write_rents(tmp_path, rows=rents()[1:2], cell=german)
    keys = {**DATA, "path": str(tmp_path / "mieten.csv")}
    with pytest.raises(UserError, match="at least two rows with every number present, got 1 of 1"):
        read_own_file(DataConfig.model_validate(keys))

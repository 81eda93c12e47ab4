"""`fkd init`: a configuration that runs on a file as it is."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from dask_process import threads
from own_sample import german

from configs.data import FileFormat
from configs.errors import UserError
from configs.load import load_config
from flows.cli import main
from tasks.data.schema_inference import infer_schema
from tasks.fit.job import run_job
from tasks.select.champion import select_champion
from tasks.select.study import open_study
from tasks.storage.settings import read_settings

NAMES = ("Lohn €", "Alter", "Stunden", "Beruf", "PLZ", "Abteilung_ID", "KundenNr", "Zeile")
NAMES += ("Eintritt", "Notiz", "leer", "fest", "doppelt", "doppelt", "")
QUICK = (
    "folds.k=2",
    "select={inner_folds: 2, knee_of: gdp}",
    threads(1),
)


def office(n=80, seed=0):
    """Return rows of an office, each cell as typed text."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 66, n)
    hours = rng.uniform(10, 45, n)
    wage = 900.0 + 40 * hours + 9 * age + rng.normal(0, 50, n)
    job = rng.choice(["Koch", "Bäcker", "Fahrer"], n)
    rows = []
    for i in range(n):
        rows.append(
            [
                german(float(wage[i])) if i != 5 else "k.A.",
                str(age[i]),
                german(float(hours[i])) if i % 10 else ("" if i % 20 else "unbekannt"),
                job[i],
                f"0{1067 + 2 * (i % 4)}",
                str(10 + i % 3),
                str(700_000 + 7 * ((i * 37) % n)),
                str(i + 1),
                f"{i % 28 + 1:02d}.0{i % 9 + 1}.2019",
                f"Gespräch {i} am Telefon; siehe Akte",
                "",
                "ja",
                "1",
                "2",
                "x",
            ]
        )
    return rows


def write_office(path, encoding="utf-8-sig", rows=None):
    quoted = [[f'"{c}"' if ";" in c else c for c in row] for row in rows or office()]
    text = "\r\n".join(";".join(row) for row in [NAMES, *quoted])
    path.write_bytes(text.encode(encoding))
    return path


def fkd(*words):
    with pytest.raises(SystemExit) as end:
        main(["init", *map(str, words)])
    return end.value.code


COLUMNS = ("--target", "Lohn €", "--sensitive", "Alter")


@pytest.fixture
def here(tmp_path, monkeypatch, settings):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finished(path):
    """Compute all fits of a configuration in this process."""
    study = open_study(load_config(path, QUICK), read_settings())
    while jobs := study.missing():
        for job in jobs:
            run_job(job)
        study = study.again()
    return study


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16"])
def test_a_messy_file_runs(here, encoding, capsys):
    write_office(here / "löhne.csv", encoding)
    assert fkd("löhne.csv", *COLUMNS) == 0
    data = yaml.safe_load((here / "löhne.yaml").read_text(encoding="utf-8"))["data"]
    assert data["path"] == "löhne.csv"
    assert data["numeric"] == ["Stunden"]
    assert data["categorical"] == ["Beruf", "PLZ", "Abteilung_ID"]
    assert set(data["missing_words"]) == {"k.A.", "unbekannt"}
    assert data["missing"] == "impute"
    study = finished(here / "löhne.yaml")
    table = study.loaded.table
    assert table.n == 79  # one has no wage
    assert table.target_range[0] > 1000  # 1.234,56 is a thousand and more
    assert table.levels[1] == ("1067", "1069", "1071", "1073")
    assert not study.failures()
    assert select_champion(study).bundle.input_columns


def test_columns_that_are_left_out_have_a_reason(here, capsys):
    write_office(here / "a.csv")
    assert fkd("a.csv", *COLUMNS) == 0
    text = (here / "a.yaml").read_text(encoding="utf-8")
    for name, reason in (
        ("KundenNr", "an id by its name, 80 values"),
        ("Zeile", "it numbers the rows"),
        ("Eintritt", "dates, such as 01.01.2019"),
        ("Notiz", "like ids, names or free text"),
        ("leer", "it is empty"),
        ("fest", "it is constant"),
        ("doppelt", "another column has the same name"),
        ("(no name)", "it has no name"),
    ):
        assert re.search(rf"^  #   {re.escape(name)}: .*{reason}", text, re.MULTILINE), name
    assert "numbers that begin with 0, hence names: 4 labels, such as 01067, 01069, " in text
    printed = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "Next: fkd run a.yaml --dry-run" in printed


def test_a_parquet_of_typed_columns_runs(here):
    rng = np.random.default_rng(0)
    n = 60
    age = rng.integers(20, 70, n)
    frame = pd.DataFrame(
        {
            "id": np.arange(n) * 3 + 11,
            "wage": 10.0 * age + rng.normal(0, 300, n),
            "age": age,
            "hours": np.where(np.arange(n) % 9 == 0, np.nan, rng.normal(40, 5, n)),
            "full_time": rng.integers(0, 2, n).astype(bool),
            "job": pd.Categorical(rng.choice(["clerk", "smith"], n)),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n), "D"),
            "constant": 1,
        }
    )
    frame.to_parquet(here / "wages.parquet")
    assert fkd("wages.parquet", "--target", "wage", "--sensitive", "age") == 0
    study = finished(here / "wages.yaml")
    assert study.loaded.table.numeric_names == ("hours", "full_time")
    assert study.loaded.table.categorical_names == ("job",)
    assert study.loaded.table.n == n
    assert select_champion(study).bundle.ranges.shape == (2, 2)


def test_the_path_is_relative_to_the_yaml(here):
    (here / "data").mkdir()
    (here / "runs").mkdir()
    write_office(here / "data" / "a.csv")
    assert fkd("data/a.csv", *COLUMNS, "--out", "runs/mine.yaml") == 0
    assert yaml.safe_load(Path("runs/mine.yaml").read_text())["data"]["path"] == "../data/a.csv"
    config = load_config("runs/mine.yaml")
    assert open_study(config, read_settings()).loaded.table.n == 79


def test_an_existing_file_is_not_overwritten(here, capsys):
    write_office(here / "a.csv")
    (here / "a.yaml").write_text("mine")
    assert fkd("a.csv", *COLUMNS) == 2
    assert "a.yaml exists already" in capsys.readouterr().err
    assert (here / "a.yaml").read_text() == "mine"
    assert fkd("a.csv", *COLUMNS, "--force") == 0
    assert "problem: table" in (here / "a.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("b.csv", *COLUMNS), "does not exist"),
        (("a.csv", "--target", "Lohn", "--sensitive", "Alter"), "the nearest is 'Lohn €'"),
        (("a.csv", "--target", "Alter", "--sensitive", "Alter"), "other than the target"),
        (("a.csv", "--target", "Lohn €", "--sensitive", "Beruf"), "column Beruf must hold numbers"),
        (("a.csv", "--target", "Lohn €", "--sensitive", "doppelt"), "2 are called 'doppelt'"),
        (("a.csv", *COLUMNS, "--set", "folds.k=3"), "--set must name keys under data here"),
    ],
)
def test_an_invalid_request_is_one_sentence(here, capsys, words, sentence):
    write_office(here / "a.csv")
    assert fkd(*words) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not list(here.glob("*.yaml"))


def test_a_table_without_inputs_is_refused(here):
    path = here / "a.csv"
    path.write_text("y,s,c\n" + "\n".join(f"{i},{i * 2},1" for i in range(20)))
    with pytest.raises(UserError, match="must have a column that can be an input beside y, s"):
        infer_schema(path, FileFormat(), "y", ["s"])


def test_options_of_the_user_are_kept(here):
    path = here / "a.csv"
    rows = [f"{i + 10}.{i + 100};{20 + i};{i % 7 + 1}.125" for i in range(40)]
    path.write_text("y;s;x\n" + "\n".join(rows))
    words = ("--target", "y", "--sensitive", "s")
    assert fkd("a.csv", *words) == 2  # 10.100 may be ten or ten thousand
    assert fkd("a.csv", *words, "--set", "data.decimal=comma") == 0
    config = load_config("a.yaml")
    assert config.data.decimal == ","
    assert open_study(config, read_settings()).loaded.table.target_range[0] == 10_100.0


@pytest.mark.parametrize(
    ("name", "is_id"),
    [
        ("customer_id", True),
        ("KundenNr", True),
        ("ID", True),
        ("userID", True),
        ("width", False),
        ("Alter", False),
        ("idea", False),
        ("nothing", False),
    ],
)
def test_ids_are_recognised_by_name(here, name, is_id):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"y": rng.normal(size=30), "s": rng.normal(size=30), "x": rng.normal(size=30)}
    )
    frame[name] = rng.permutation(1000)[:30]
    frame.to_csv("t.csv", index=False)
    schema = infer_schema(here / "t.csv", FileFormat(), "y", ["s"])
    assert (name in [column.name for column in schema.with_role("left out")]) == is_id


def test_names_with_a_meaning_in_yaml_are_quoted(here):
    rng = np.random.default_rng(0)
    names = ["2020", "on", "a: b # c", "- x", "[y]", "two\nlines", " blank ", "'q'"]
    frame = pd.DataFrame(rng.normal(size=(30, len(names))), columns=names)
    frame.to_csv("t.csv", index=False)
    assert fkd("t.csv", "--target", "2020", "--sensitive", "on") == 0
    data = load_config("t.yaml").data
    assert (data.target, data.sensitive, data.numeric) == ("2020", ("on",), tuple(names[2:]))
    assert open_study(load_config("t.yaml"), read_settings()).loaded.table.n == 30

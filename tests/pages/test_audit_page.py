import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fkd
from fkd.measures import survey_weights
from flows import model_commands
from flows.cli import main
from tasks.data.user_table import PredictedColumns, read_predicted
from tasks.report.audit_page import AuditLabels, write_audit


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A file of two models' predictions, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 300
    age = rng.integers(18, 80, n)
    frame = pd.DataFrame(
        {
            "wage": 1000.0 * age + rng.normal(scale=9000, size=n),
            "age": age,
            "job": rng.choice(["clerk", "smith"], n),
            "sex": rng.integers(0, 2, n),
            "id": [f"n{i}" for i in range(n)],
            "prediction": 900.0 * age + rng.normal(scale=4000, size=n),
            "plain": 1000.0 * age + rng.normal(scale=3000, size=n),
            "constant": 5.0,
            "people": rng.integers(0, 40, n),
            "owed": np.arange(n) - 1.0,
            "nobody": 0.0,
            "void": "",
            "gaps": np.where(np.arange(n) == 7, np.nan, 1.0),
        }
    )
    frame.to_csv("p.csv", index=False)
    return frame


def fkd_audit(*words):
    with pytest.raises(SystemExit) as end:
        main(["audit", "p.csv", "--target", "wage", *words])
    return end.value.code


def test_the_page_and_the_library_have_the_same_numbers(table, capsys):
    assert fkd_audit("--sensitive", "age", "--other", "plain", "--group-by", "job") == 0
    page = Path("audit.html").read_text(encoding="utf-8")
    found = fkd.audit(
        table["wage"],
        table["prediction"],
        table[["age"]],
        other=table["plain"],
        control_features=table[["job"]],
    )
    told = re.sub(r"\s+", " ", capsys.readouterr().out)
    for interval in (found.mae, found.other_mae, found.mae_change):
        words = f"{float(interval.estimate):,.0f} ({float(interval.low):,.0f}"
        assert words.replace("-", "−") in unescape(page)
    hgr = found.columns[0].scores["hgr"]
    assert f"{hgr.estimate:.3f} ({hgr.low:.3f}\N{NO-BREAK SPACE}to" in page
    assert f"HGR on age is {hgr.estimate:.3f}" in told
    first = found.columns[0].profile.groups[0]
    j = found.columns[0].profile.names.index("absolute_error")
    assert f"{first.mean[j]:,.0f} (" in page
    assert "Within groups" in page
    assert "Change of the prediction" in page


def test_the_value_that_python_returns_makes_the_same_page(table):
    """Of an outlier that hides the other rows both have a note."""
    table["age"] = np.where(np.arange(len(table)) == 0, 100_000, table["age"])
    table.to_csv("p.csv", index=False)
    assert fkd_audit("--sensitive", "age", "--other", "plain", "--unit", "dollars") == 0
    with pytest.warns(fkd.FairnessWarning) as told:
        found = fkd.audit(table["wage"], table["prediction"], table[["age"]], other=table["plain"])
    assert found.notes
    assert set(found.notes) == {str(warning.message) for warning in told}
    labels = AuditLabels(
        "wage",
        "dollars",
        source="p.csv, column prediction",
        model="prediction",
        other="plain",
    )
    own = write_audit(found, labels, Path("own.html"))
    assert own.read_bytes() == Path("audit.html").read_bytes()
    assert 'role="note"' in own.read_text(encoding="utf-8")


def test_the_numbers_of_the_page_are_those_of_the_file(table):
    assert fkd_audit("--sensitive", "age", "--other", "plain") == 0
    page = unescape(Path("audit.html").read_text(encoding="utf-8"))
    rows = [
        [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", page, flags=re.DOTALL)
    ]

    def first(text):
        return float(text.split(" ")[0].replace("−", "-").replace(",", ""))

    error, others = table.prediction - table.wage, (table.plain - table.wage).abs()
    told = {row[0]: row[1:] for row in rows}
    mae = told["Mean absolute error"]
    assert first(mae[0]) == pytest.approx(error.abs().mean(), abs=0.51)
    assert first(mae[1]) == pytest.approx(others.mean(), abs=0.51)
    assert first(mae[2]) == pytest.approx((error.abs() - others).mean(), abs=0.51)
    assert first(told["Mean signed error"][0]) == pytest.approx(error.mean(), abs=0.51)
    start = next(i for i, row in enumerate(rows) if row[:2] == ["age", "Rows"])
    heading, seen = rows[start], 0
    for row in rows[start + 1 : start + 11]:
        low, _, high = row[0].partition(" to ")
        own = table[table.age.between(float(low), float(high or low))]
        assert int(row[1]) == len(own)
        seen += len(own)
        for name, values in (
            ("True value", own.wage),
            ("Prediction, prediction", own.prediction),
            ("Absolute error, prediction", (own.prediction - own.wage).abs()),
            ("Change of the prediction", own.prediction - own.plain),
        ):
            assert first(row[heading.index(name)]) == pytest.approx(values.mean(), abs=0.51)
    assert seen == len(table)


def test_weighed_rows_are_told_and_are_those_of_the_library(table, capsys):
    assert fkd_audit("--sensitive", "age", "--group-by", "job", "--weights", "people") == 0
    page = unescape(Path("audit.html").read_text(encoding="utf-8"))
    told = re.sub(r"\s+", " ", capsys.readouterr().out)
    seen = table[table["people"] > 0]
    found = fkd.audit(
        seen["wage"],
        seen["prediction"],
        seen[["age"]],
        control_features=seen[["job"]],
        sample_weight=survey_weights(seen["people"]),
    )
    assert found.weight == pytest.approx(len(seen))
    assert f"On {len(seen)} rows, weighted by people, " in told
    assert f"people, scaled to sum to {len(seen)}, the rows used" in page
    assert f"{300 - len(seen)}: people zero" in page
    assert f"HGR on age is {found.columns[0].scores['hgr'].estimate:.3f}" in told
    j = found.columns[0].profile.names.index("absolute_error")
    assert f"{found.columns[0].profile.groups[0].mean[j]:,.0f} (" in page
    assert fkd_audit("--sensitive", "age") == 0
    plain = Path("audit.html").read_text(encoding="utf-8")
    assert "weighted by" not in plain
    assert "<dt>Weights" not in plain
    assert f"HGR on age is {found.columns[0].scores['hgr'].estimate:.3f}" not in plain


def test_rows_that_weigh_nothing_are_no_rows(table, capsys):
    table["few"] = (np.arange(len(table)) < 20).astype(float)
    table.to_csv("p.csv", index=False)
    assert fkd_audit("--sensitive", "age", "--weights", "few") == 2
    assert "at least 30 rows with every number, got 20 of 300" in capsys.readouterr().err


def test_the_page_needs_no_script_and_no_network(table):
    assert fkd_audit("--sensitive", "age", "--out", "there.html") == 0
    page = Path("there.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)


def test_text_from_a_file_is_never_obeyed(table):
    table.rename(columns={"age": "<b>age</b>"}).to_csv("p.csv", index=False)
    assert fkd_audit("--sensitive", "<b>age</b>") == 0
    assert "<b>age" not in Path("audit.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--sensitive", "sex"), "column sex must have more than two values"),
        (("--sensitive", "age", "--prediction", "constant"), "y_pred must vary"),
        (("--sensitive", "age", "--prediction", "predicton"), "got 'predicton'"),
        (("--sensitive", "age", "--group-by", "id"), "fewer or coarser groups"),
        (("--sensitive", "wage"), "got 'wage' twice"),
        (("--sensitive", "job"), "column job must hold numbers"),
        (("--sensitive", "age", "--group-by", "void"), "got 0 of 300 (void missing in 300)"),
        (("--sensitive", "age", "--model", "m", "--prediction", "plain"), "got both"),
        (
            ("--sensitive", "age", "--weights", "owed"),
            "column owed cannot be used as weights: sample_w",
        ),
        (("--sensitive", "age", "--weights", "owed"), "got -1 in row 0"),
        (("--sensitive", "age", "--weights", "nobody"), "sum above zero"),
        (("--sensitive", "age", "--weights", "gaps"), "got nan in row 7"),
        (("--sensitive", "age", "--weights", "job"), "column job must hold numbers"),
        (("--sensitive", "age", "--weights", "peple"), "got 'peple'"),
        (("--sensitive", "age", "--weights", "age"), "weights, got 'age' twice"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(table, capsys, words, sentence):
    assert fkd_audit(*words) == 2
    told = capsys.readouterr()
    assert sentence in " ".join((told.err + told.out).split())


def test_rows_without_a_number_are_left_out_and_told(table):
    table.loc[:9, "prediction"] = np.nan
    table.loc[20, "job"] = None
    table.to_csv("p.csv", index=False)
    rows = read_predicted(
        PredictedColumns("p.csv", "wage", ("age",), "prediction", group_by=("job",))
    )
    assert len(rows.y_true) == 289
    assert rows.dropped == {"prediction missing": 10, "job missing": 1}
    assert fkd_audit("--sensitive", "age") == 0
    assert "10: prediction missing" in Path("audit.html").read_text(encoding="utf-8")


def test_a_file_that_is_not_there_is_told(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fkd_audit("--sensitive", "age") == 2
    assert "the table must be an existing CSV" in " ".join(capsys.readouterr().err.split())


def test_too_few_rows_say_so(table, capsys):
    table.head(20).to_csv("p.csv", index=False)
    assert fkd_audit("--sensitive", "age") == 2
    assert "at least 30 rows with every number, got 20 of 20" in capsys.readouterr().err


def test_a_model_is_applied_to_its_columns(table):
    inputs = ("age", "job")
    seen = []

    def predict(frame):
        seen.append(frame)
        return 900.0 * frame["age"]

    rows = read_predicted(PredictedColumns("p.csv", "wage", ("age",), inputs=inputs), predict)
    assert list(seen[0].columns) == list(inputs)
    np.testing.assert_allclose(rows.y_pred, 900.0 * table["age"])


def test_a_model_gets_labels_as_they_are_spelt_and_numbers_as_numbers(table):
    table["zip"] = [f"{i % 7:05d}" for i in range(len(table))]
    table["share"] = [f"{i % 5},5" for i in range(len(table))]
    table.to_csv("p.csv", index=False)
    seen = []

    def predict(frame):
        seen.append(frame)
        return frame["share"]

    wanted = PredictedColumns("p.csv", "wage", ("age",), inputs=("zip", "share"))
    read_predicted(replace(wanted, numbers=("share",), labels=("zip",)), predict)
    assert seen[0]["zip"].tolist() == table["zip"].tolist()
    assert seen[0]["share"].tolist() == [i % 5 + 0.5 for i in range(len(table))]


def applied(function, *inputs):
    numbers = dict.fromkeys(inputs, "float64")
    return model_commands.AppliedModel("m", inputs, numbers, (), function, (ValueError,))


def test_a_model_that_refuses_the_rows_is_told(table, monkeypatch, capsys):
    def refuse(frame):
        raise ValueError("no row of\nthese")

    monkeypatch.setattr(model_commands, "_model", lambda a: applied(refuse, "age"))
    assert fkd_audit("--sensitive", "age", "--model", "m") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "m cannot predict these rows: no row of these. Correct or remove" in told


def test_a_model_that_needs_a_column_which_is_not_there_is_told(table, monkeypatch, capsys):
    monkeypatch.setattr(model_commands, "_model", lambda address: applied(len, "age", "race"))
    assert fkd_audit("--sensitive", "age", "--model", "models:/x@champion") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "the model needs the column 'race', which p.csv does not have" in told


def test_a_model_that_gives_too_few_numbers_is_refused(table, monkeypatch, capsys):
    monkeypatch.setattr(model_commands, "_model", lambda a: applied(lambda f: [1.0], "age"))
    assert fkd_audit("--sensitive", "age", "--model", "m") == 2
    assert "one number for each of 300 rows, got 1" in " ".join(capsys.readouterr().err.split())

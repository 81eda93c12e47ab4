"""`fkd audit --model` with a model that a run has registered."""

from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from tracking_server import warm_mlflow

import fkd
from flows.cli import main
from tasks.select.champion import select_champion
from tasks.track.recording import record_champion, record_trials

TARGET, SENSITIVE = "ViolentCrimesPerPop", "racepctblack"


@pytest.fixture
def registered(quick_study, tmp_path_factory, tmp_path, monkeypatch):
    """A study whose champion is registered as quick; its first rows in an office's own writing."""
    warm_mlflow(quick_study.settings.mlflow, tmp_path_factory.getbasetemp())
    monkeypatch.chdir(tmp_path)
    record_trials(quick_study)
    record_champion(quick_study)
    bundle, table = select_champion(quick_study).bundle, quick_study.loaded.table
    places = [table.numeric_names.index(name) for name in bundle.input_columns]
    frame = pd.DataFrame(table.numeric[:400, places], columns=list(bundle.input_columns))
    black = table.sensitive[:400, table.sensitive_names.index(SENSITIVE)]
    rows = frame.assign(**{TARGET: table.target[:400], SENSITIVE: black})
    rows.to_csv("rows.csv", index=False, sep=";", decimal=",")
    return bundle, frame, rows


def audit(*words):
    with pytest.raises(SystemExit) as end:
        main(["audit", "rows.csv", "--target", TARGET, "--sensitive", SENSITIVE, *words])
    return end.value.code


def test_a_registered_champion_is_audited_on_a_file_with_decimal_commas(registered):
    bundle, frame, rows = registered
    assert audit("--model", "models:/quick@champion") == 0
    page = unescape(Path("audit.html").read_text(encoding="utf-8"))
    found = fkd.audit(rows[TARGET], bundle.predict(frame), rows[[SENSITIVE]])
    assert "rows.csv, models:/quick@champion" in page
    assert "400 read, 400 used" in page
    for interval in (found.mae, found.columns[0].scores["hgr"]):
        assert f"{interval.estimate:.3f} ({interval.low:.3f}\N{NO-BREAK SPACE}to" in page


def test_an_input_that_is_no_number_is_told_with_its_line(registered, capsys):
    bundle, _, _ = registered
    lines = Path("rows.csv").read_text().splitlines()
    lines[3] = lines[3].replace(lines[3].split(";")[0], "many", 1)
    Path("rows.csv").write_text("\n".join(lines) + "\n")
    assert audit("--model", "models:/quick@champion") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"column {bundle.input_columns[0]} must hold numbers" in told

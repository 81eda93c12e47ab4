"""From an office's file to a report, whose command makes the same numbers anywhere."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from deadlines import patient
from own_sample import write_rents
from server_process import clean_environment, seeded

from configs.load import load_config
from tasks.select.study import open_study, rerun_command
from tasks.storage.settings import Settings

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A home after `fkd run` on a Windows export, given from another folder than the file's."""
    base = tmp_path_factory.mktemp("an office")
    home = seeded(base / "home", tmp_path_factory.getbasetemp())
    source = write_rents(base / "files")
    done = _run(base, clean_environment(home), sys.executable, "-m", "flows.cli", "run", source)
    return base, home, source, done


def _run(folder, environment, *words):
    return subprocess.run(
        [*map(str, words)],
        cwd=folder,
        env={"PYTHONPATH": str(Path.cwd()), **environment},
        capture_output=True,
        text=True,
        timeout=patient(300),
    )


def test_an_office_export_becomes_a_report(office):
    _, home, _, done = office
    assert done.returncode == 0, done.stderr
    assert "read as Windows-1252, separated by semicolons, decimal comma" in done.stderr
    assert "filled by the median of the training rows" in done.stderr
    page = (home / "experiments" / "mieten" / "report.html").read_text(encoding="utf-8")
    assert "b'" not in page.partition("<script")[0]


def test_the_reports_command_finds_its_results_from_any_folder(office):
    base, home, _, _ = office
    page = (home / "experiments" / "mieten" / "report.html").read_text(encoding="utf-8")
    (shown,) = re.findall(r"env &#39;FKD_HOME=[^<]*config\.yaml&#39;", page)
    words = shlex.split(shown.replace("&#39;", "'"))
    elsewhere = base / "elsewhere"
    elsewhere.mkdir()
    environment = {k: v for k, v in clean_environment(home).items() if k != "FKD_HOME"}
    again = _run(elsewhere, environment, *words)
    assert again.returncode == 0, again.stderr
    assert "all stored, nothing to compute" in again.stderr
    assert list(elsewhere.iterdir()) == []


def test_the_command_is_made_of_whole_paths(office):
    _, home, source, _ = office
    settings = Settings(home, None, None, None)
    words = shlex.split(rerun_command(open_study(load_config(source), settings)))
    assert words[:2] == ["env", f"FKD_HOME={home}"]
    assert words[-1] == str(home / "experiments" / "mieten" / "config.yaml")


def test_the_registered_model_takes_rows_with_gaps_and_umlauts(office):
    import mlflow
    import pandas as pd

    _, home, _, _ = office
    mlflow.set_tracking_uri(f"sqlite:///{home}/mlflow/mlflow.db")
    served = mlflow.pyfunc.load_model("models:/mieten@champion")
    rows = pd.DataFrame(
        {
            "Fläche m²": [70.0, np.nan, 70.0, 70.0],
            "Baujahr": [1990.0, np.nan, 1990.0, 1990.0],
            "Bezirk": ["Mitte", "Mitte", "Köpenick", "KÃ¶penick"],
        }
    )
    full, gappy, town, unknown = served.predict(rows)
    assert np.isfinite([full, gappy, town, unknown]).all()
    assert len({full, gappy, town, unknown}) == 4

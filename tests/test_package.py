"""The wheel holds all that an installed fkd needs, and nothing of the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from deadlines import patient

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_four_packages_with_their_files(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"fkd", "tasks", "flows", "configs"}
    for wanted in ("configs/default.yaml", "tasks/report/templates/report.html.j2"):
        assert wanted in names
    assert any(name.endswith("crimes.csv.gz") for name in names)


def test_the_installed_wheel_plans_a_run_from_an_empty_folder(wheel, tmp_path):
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    done = subprocess.run(
        [sys.executable, "-c", "from flows.cli import main; main(['run', '--dry-run'])"],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(site), "FKD_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=patient(120),
    )
    assert done.returncode == 0, done.stderr
    assert "crimes" in done.stdout
    assert list(empty.iterdir()) == []

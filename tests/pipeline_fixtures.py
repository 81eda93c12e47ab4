"""Fixtures for tests of the pipeline."""

import shutil

import pytest

from configs.load import load_config
from tasks.fit.job import run_job
from tasks.select.champion import select_champion
from tasks.select.study import open_study
from tasks.storage.settings import Settings


@pytest.fixture
def settings(tmp_path, monkeypatch) -> Settings:
    """An empty FKD_HOME of the test's own; no server or mirror of the user's is seen."""
    for name in ("FKD_DATA_MIRROR", "PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FKD_HOME", str(tmp_path / "home"))
    return Settings(tmp_path / "home", None, None, None)


QUICK = (
    "name=quick",
    "folds.k=3",
    "select={inner_folds: 2, subject_to: {gdp: 0.04}}",
    "methods=[dummy, {name: krr_fkd, grid: {iterations: [0, 4]}, "
    "approximation: {kind: nystroem, landmarks: 60}}]",
)


@pytest.fixture
def quick_config():
    """Embedded Crimes with three cheap trials."""
    return load_config("default", QUICK)


@pytest.fixture(scope="session")
def computed_home(tmp_path_factory):
    """An FKD_HOME in which the quick configuration has been computed, champion included."""
    home = tmp_path_factory.mktemp("computed") / "home"
    study = open_study(load_config("default", QUICK), Settings(home, None, None, None))
    for job in study.missing():
        run_job(job)
    select_champion(study)
    return home


@pytest.fixture
def quick_study(quick_config, settings, computed_home):
    """The quick configuration, computed, in a home of the test's own."""
    shutil.copytree(computed_home, settings.home)
    return open_study(quick_config, settings)

"""Fixtures that every test file may ask for."""

import os
import shutil
import signal
import socket
import sys

import numpy as np
import pytest

from configs.load import load_config
from tasks.adapters.settings import Settings
from tasks.study.champion import select_champion
from tasks.study.evaluate import run_job
from tasks.study.opening import open_study


def pytest_configure():
    """Hear Ctrl-C: a script's background jobs ignore it, and so would every process of a test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture(autouse=True)
def _mlflow_forgets_addresses():
    """MLflow keeps the last address per process; the next test's must not be this one's."""
    yield
    if mlflow := sys.modules.get("mlflow"):
        mlflow.set_registry_uri("")
        mlflow.set_tracking_uri(None)
        os.environ.pop("MLFLOW_REGISTRY_URI", None)


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


@pytest.fixture
def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

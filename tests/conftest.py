"""Fixtures that every test file may ask for."""

import numpy as np
import pytest

from tasks.settings import Settings


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture
def settings(tmp_path, monkeypatch) -> Settings:
    """An empty FKD_HOME of the test's own; no server or mirror of the user's is seen."""
    for name in ("FKD_DATA_MIRROR", "PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FKD_HOME", str(tmp_path / "home"))
    return Settings(tmp_path / "home", None, None, None)

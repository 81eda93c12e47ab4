"""Fixtures that every test file may ask for; those of the pipeline are in pipeline_fixtures.py."""

import os
import signal
import socket
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from optional import absence

# The library's own tests also run where only the library is installed.
pytest_plugins = ["pipeline_fixtures", "store_fixtures"] if find_spec("tasks") else []


def pytest_configure():
    """Hear Ctrl-C: a script's background jobs ignore it, and so would every process of a test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Skip the tests whose `needs` are absent."""
    for item in items:
        wanted = {name for mark in item.iter_markers("needs") for name in mark.args}
        if reasons := sorted(filter(None, map(absence, wanted))):
            item.add_marker(pytest.mark.skip(reason="; ".join(reasons)))


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
def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

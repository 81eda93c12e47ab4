"""Fixtures of stores: a folder, two S3 servers."""

from uuid import uuid4

import pytest
from object_stores import BUCKET, moto_server, rclone_server, variables

from tasks.storage.settings import Settings
from tasks.storage.store import open_store

KINDS = ("folder", "rclone", "moto")


@pytest.fixture(scope="session")
def rclone_address(tmp_path_factory):
    with rclone_server(tmp_path_factory.mktemp("rclone") / "objects") as address:
        yield address


@pytest.fixture(scope="session")
def moto_address():
    with moto_server() as address:
        yield address


@pytest.fixture(params=KINDS)
def store_settings(request, tmp_path, monkeypatch):
    """Settings whose store is empty: a folder, or a folder of a bucket."""
    monkeypatch.setenv("FKD_HOME", str(tmp_path / "home"))
    if request.param == "folder":
        return Settings(tmp_path / "home")
    endpoint = request.getfixturevalue(f"{request.param}_address")
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)
    address = f"s3://{BUCKET}/{uuid4().hex}"
    monkeypatch.setenv("FKD_STORE", address)
    return Settings(tmp_path / "home", shared=address)


@pytest.fixture
def shared(store_settings):
    """An empty store."""
    return open_store(store_settings)

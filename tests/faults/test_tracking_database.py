"""MLflow's sqlite file: damaged, of another version, half made."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from server_process import clean_environment
from tracking_server import warm_mlflow

from flows.cli import main
from tasks.storage.settings import Settings
from tasks.track.client import (
    TrackingDamagedError,
    prepare_database,
    sqlite_path,
)
from tasks.track.run_index import note_run, now
from tasks.track.runs import Tracking


@pytest.fixture
def base(tmp_path_factory):
    return tmp_path_factory.getbasetemp()


@pytest.fixture
def database(settings, base):
    return warm_mlflow(settings.mlflow, base)


def change(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def overwrite_middle(path):
    """Write noise over half of the pages, behind the list of tables."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 4)
        file.write(os.urandom(path.stat().st_size // 2))


DAMAGES = {
    "garbage": lambda path: path.write_bytes(b"this is no database " * 500),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise inside": overwrite_middle,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_is_told_in_one_sentence(quick_study, base, damage, capsys):
    path = warm_mlflow(quick_study.settings.mlflow, base)
    note_run(quick_study)
    DAMAGES[damage](path)
    before = path.read_bytes()
    with pytest.raises(SystemExit) as ended:
        main(["sync"])
    told = capsys.readouterr()
    said = " ".join((told.out + told.err).split())
    assert ended.value.code == 2
    assert "MLflow cannot use its database" in said
    assert "put a backup in its place" in said
    assert "Traceback" not in said
    assert path.read_bytes() == before


def test_a_database_of_another_version_is_told_with_its_cure(settings, database):
    change(database, "UPDATE alembic_version SET version_num = '39d1c3be5f05'")
    with pytest.raises(TrackingDamagedError, match=r"another version.*mlflow db upgrade sqlite"):
        Tracking(settings, "quick")


@pytest.fixture
def quick_making(database, base, monkeypatch):
    """Let MLflow's making of its tables take a moment: they are copied."""
    whole = base / "whole.db"
    shutil.copy(database, whole)
    import tasks.track.runs as module

    opened = module._open_database

    def make(path):
        if not path.exists():
            shutil.copy(whole, path)
        opened(path)

    monkeypatch.setattr(module, "_open_database", make)


@pytest.mark.usefixtures("quick_making")
def test_an_incomplete_database_is_never_thrown_away(settings, database):
    change(
        database,
        "DROP TABLE workspaces",
        "UPDATE alembic_version SET version_num = '3da73c924c2f'",
    )
    before = database.read_bytes()
    with pytest.raises(TrackingDamagedError):
        Tracking(settings, "quick")
    assert database.read_bytes() == before


@pytest.mark.usefixtures("quick_making")
def test_an_empty_file_counts_as_none(settings, database):
    database.write_bytes(b"")
    Tracking(settings, "quick")
    assert database.stat().st_size


def test_what_was_left_of_an_interrupted_making_is_removed(tmp_path):
    path = tmp_path / "mlflow.db"
    left = tmp_path / ".making-left"
    left.mkdir()
    (left / "mlflow.db").write_bytes(b"half")

    def interrupted(place):
        place.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_database(path, interrupted, (OSError,))
    assert list(tmp_path.iterdir()) == []
    prepare_database(path, lambda place: change(place, "CREATE TABLE IF NOT EXISTS t (a)"), ())
    assert list(tmp_path.iterdir()) == [path]


def test_its_folders_are_made_too(tmp_path):
    path = tmp_path / "a" / "b" / "mlflow.db"
    prepare_database(path, lambda place: change(place, "CREATE TABLE IF NOT EXISTS t (a)"), ())
    assert path.stat().st_size > 0


def test_a_locked_database_is_no_damaged_one(database):
    opened = []
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        prepare_database(database, opened.append, ())
    assert opened == [database]


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("sqlite:////a/b.db", "/a/b.db"),
        ("sqlite:///b.db?timeout=3", "b.db"),
        ("sqlite:///:memory:", None),
        ("postgresql://h/db", None),
        ("http://h", None),
    ],
)
def test_the_file_behind_an_address(uri, path):
    assert sqlite_path(uri) == (None if path is None else Path(path))


@pytest.mark.timeout(300)
def test_a_making_that_is_killed_leaves_no_half_of_it(tmp_path):
    home = tmp_path / "home"
    script = "import sys; from tasks.storage.settings import read_settings\n"
    script += "from tasks.track.runs import Tracking; Tracking(read_settings(), 'quick')"
    made = subprocess.Popen([sys.executable, "-c", script], env=clean_environment(home))
    try:
        while not any(_tables(path) > 5 for path in home.rglob("mlflow.db")):
            assert made.poll() is None
            time.sleep(0.02)
    finally:
        made.send_signal(signal.SIGKILL)
        made.wait()
    assert not (home / "mlflow" / "mlflow.db").exists()


def _tables(path):
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_times_are_comparable_texts():
    assert now() <= now()
    assert now().endswith("+00:00")
    assert Settings(Path("/h")).mlflow_registry_uri is None

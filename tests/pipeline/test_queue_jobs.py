"""Which jobs of a queue are cancelled: those of drivers that are gone, by their own name."""

import signal
import subprocess
import sys

import pytest

from flows.leftovers import clear_leftovers
from tasks.cluster.slurm import cancel_orphans, claimed_name

DRIVER = """
import pathlib, sys, threading
from tasks.cluster.slurm import claimed_name

with claimed_name(pathlib.Path(sys.argv[1])) as name:
    print(name, flush=True)
    threading.Event().wait()
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """What a scancel of ours was called with; it fails where a file `down` lies beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script, log = folder / "scancel", folder / "log"
    script.write_text(f'#!/bin/sh\n[ ! -e {folder}/down ] && echo "$@" >>{log}\n')
    script.chmod(0o755)
    log.touch()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return log


@pytest.fixture
def driver(asked, settings):
    """A driver at work, with the name of its jobs."""
    words = [sys.executable, "-c", DRIVER, str(settings.home)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def _kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def _claims(home):
    return [path.name for path in (home / "dask" / "queued").iterdir()]


def test_jobs_of_a_driver_that_lives_stay_those_of_a_dead_one_go(driver, asked, settings):
    process, name = driver
    clear_leftovers()
    assert asked.read_text() == ""
    assert _claims(settings.home) == [name]
    _kill(process)
    clear_leftovers()
    assert asked.read_text() == f"--name={name}\n"
    assert _claims(settings.home) == []
    cancel_orphans(settings.home)
    assert asked.read_text() == f"--name={name}\n"


def test_of_drivers_on_other_machines_nothing_is_believed(driver, asked, settings, monkeypatch):
    process, name = driver
    _kill(process)
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    cancel_orphans(settings.home)
    assert asked.read_text() == ""
    assert _claims(settings.home) == [name]


def test_a_queue_that_does_not_answer_is_asked_again(driver, asked, settings):
    process, name = driver
    _kill(process)
    (asked.parent / "down").touch()
    cancel_orphans(settings.home)
    assert _claims(settings.home) == [name]
    (asked.parent / "down").unlink()
    cancel_orphans(settings.home)
    assert asked.read_text() == f"--name={name}\n"
    assert _claims(settings.home) == []


def test_a_driver_that_ends_leaves_neither_jobs_nor_a_claim(asked, tmp_path):
    with claimed_name(tmp_path) as first, claimed_name(tmp_path) as second:
        assert sorted(_claims(tmp_path)) == sorted([first, second])
        assert first != second
    assert asked.read_text() == f"--name={second}\n--name={first}\n"
    assert _claims(tmp_path) == []


def test_without_slurm_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with claimed_name(tmp_path / "home"):
        cancel_orphans(tmp_path / "home")
    assert not (tmp_path / "home").exists()

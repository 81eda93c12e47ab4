import os
from dataclasses import replace

import pytest

from tasks.track.run_status import all_statuses, begin, read_status, write_status


@pytest.fixture
def status():
    return begin("crimes", total=100, stored=20)


def test_a_status_comes_back_as_it_was_written(settings, status):
    written = write_status(settings, replace(status, done=5, failures=("ValueError: no",)))
    assert read_status(settings, "crimes") == written
    assert written.updated >= status.started
    assert read_status(settings, "other") is None


def test_counts_add_up(status):
    status = replace(status, done=30, failures=("a", "b"), started=100.0, updated=110.0)
    assert status.remaining == 48
    assert status.rate == 3.0
    assert replace(status, updated=100.0).rate == 0.0


def test_a_living_process_runs_a_dead_or_reborn_one_was_stopped(status):
    assert status.pid == os.getpid()
    assert status.seen == "running"
    assert replace(status, pid=2**30).seen == "stopped"
    assert replace(status, born=status.born - 60).seen == "stopped"
    assert replace(status, pid=2**30, state="finished").seen == "finished"


def test_a_damaged_file_is_as_good_as_none(settings, status):
    write_status(settings, status)
    (settings.experiments / "crimes" / "status.json").write_text('{"name": "cri')
    assert list(all_statuses(settings)) == []


def test_the_newest_run_comes_first(settings, status):
    for name in ("a", "b", "c"):
        write_status(settings, replace(status, name=name))
    assert [found.name for found in all_statuses(settings)] == ["c", "b", "a"]

import os
from dataclasses import replace

import pytest

from flows.status import show_status
from tasks.track.run_index import all_statuses, begin, read_status, write_status


@pytest.fixture
def status():
    return begin("crimes", total=100, stored=20)


def test_the_table_shows_counts_and_each_cause_once(settings, status, capsys):
    write_status(settings, replace(status, done=30, failures=("fold 1: [ValueError] no",) * 4))
    problem = "krr_fkd would need 9 GiB"
    write_status(settings, replace(status, name="large", state="failed", message=problem))
    show_status()
    out = capsys.readouterr().out
    (row,) = [line.split() for line in out.splitlines() if "running" in line]
    assert row[:6] == ["crimes", "running", "30", "20", "4", "46"]
    assert out.count("fold 1: [ValueError] no") == 1
    assert f"large {problem}" in out


def test_a_home_without_runs_says_how_to_start_one(settings, capsys):
    show_status()
    assert "fkd run" in capsys.readouterr().out


def test_all_columns_fit_into_eighty_characters(settings, status, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    large = replace(status, name="rents_in_town-2023_all", total=123456, stored=20000, done=30000)
    write_status(settings, large)
    write_status(settings, replace(status, done=80, state="finished", updated=86400.0 * 400))
    show_status()
    out = capsys.readouterr().out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
    for heading in ("before", "failed", "to do", "per s", "s left", "updated"):
        assert heading in out
    assert "30000" in out


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

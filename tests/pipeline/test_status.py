from dataclasses import replace

import pytest

from flows.status import show_status
from tasks.track.run_status import begin, write_status


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

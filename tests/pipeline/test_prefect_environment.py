import os

import pytest

from tasks.servers.prefect import client_environment, quiet_children, set_variables

CONSOLE = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"


def test_the_environment_is_put_back(settings):
    before = dict(os.environ)
    with client_environment(settings):
        assert os.environ["PREFECT_HOME"] == str(settings.prefect)
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("PREFECT_HOME", "/elsewhere"), ("DO_NOT_TRACK", "0"), (CONSOLE, "DEBUG")],
)
def test_what_the_user_has_set_is_left_alone(settings, monkeypatch, name, theirs):
    monkeypatch.setenv(name, theirs)
    with client_environment(settings), quiet_children():
        assert os.environ[name] == theirs


def test_a_user_who_wants_logs_gets_them(settings, monkeypatch):
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "DEBUG")
    monkeypatch.delenv(CONSOLE, raising=False)
    with client_environment(settings), quiet_children():
        assert CONSOLE not in os.environ


def test_runs_in_processes_of_their_own_are_quieter_still(settings):
    with client_environment(settings):
        assert os.environ[CONSOLE] == "WARNING"
        with quiet_children():
            assert os.environ[CONSOLE] == "CRITICAL"


def test_profiles_of_the_user_stay_visible(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    profiles = tmp_path / ".prefect" / "profiles.toml"
    profiles.parent.mkdir()
    profiles.touch()
    with client_environment(settings):
        assert os.environ["PREFECT_PROFILES_PATH"] == str(profiles)


def test_an_overwritten_variable_comes_back(monkeypatch):
    monkeypatch.setenv("FKD_EXAMPLE", "before")
    with set_variables({"FKD_EXAMPLE": "within"}):
        assert os.environ["FKD_EXAMPLE"] == "within"
    assert os.environ["FKD_EXAMPLE"] == "before"

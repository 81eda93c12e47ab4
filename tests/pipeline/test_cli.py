import os
import re
import subprocess
import sys

import pytest
from deadlines import patient

from fkd import __version__


def _fkd(*words, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=patient(120),
    )
    return done.returncode, done.stdout, done.stderr


def test_help_says_what_every_command_does():
    code, out, _ = _fkd("--help")
    assert code == 0
    for command in ("run", "report", "reproduce", "schedule", "ui", "status", "sync", "data"):
        assert re.search(rf"│ {command} +[A-Z]\w+", out), command


def test_the_version_is_the_packages():
    assert _fkd("--version")[:2] == (0, f"fkd {__version__}\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rnu"], "run"),
        (["run", "nowhere.yaml"], "nowhere.yaml"),
        (["run", "--set", "folds.kk=3"], "'k'"),
        (["run", "--set", "methods=[krr_fkd, {name: svr_fkd, Cc: 1}]"], "'C'"),
        (["run", "--set", "folds.k=[bold]many"], "[bold]many"),
        (["report", "--set", "name=never"], "fkd run default"),
        (["schedule", "--cron", "every day"], "cron"),
    ],
)
def test_a_fault_is_one_sentence_with_its_cure_and_exit_code_2(words, says, tmp_path):
    code, _, err = _fkd(*words, FKD_HOME=str(tmp_path / "home"))
    assert code == 2
    assert says in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1


def test_debug_shows_the_traceback(tmp_path):
    code, _, err = _fkd("run", "--set", "folds.kk=3", "--debug", FKD_HOME=str(tmp_path / "home"))
    assert code == 2
    assert "Traceback" in err


def test_an_unwritable_home_is_named(tmp_path):
    # Root may write everywhere, so a file stands where the folder should be.
    (tmp_path / "file").write_text("")
    code, _, err = _fkd("run", FKD_HOME=str(tmp_path / "file"))
    assert code == 2
    assert "FKD_HOME" in err
    assert str(tmp_path / "file") in err


def test_an_unreachable_prefect_server_is_named(tmp_path, free_port):
    address = f"http://127.0.0.1:{free_port}/api"
    code, _, err = _fkd("run", FKD_HOME=str(tmp_path / "home"), PREFECT_API_URL=address)
    assert code == 2
    assert address in err
    assert "Traceback" not in err

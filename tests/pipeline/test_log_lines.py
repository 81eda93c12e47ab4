"""Lines as JSON: each one an object, whatever a command meets, without anybody's password."""

import json
import math
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from multiprocessing import resource_tracker

import pytest
from server_process import clean_environment
from sweep_process import PATIENCE, Fkd, warm_home, write_config
from sweep_sample import sweep_config

from configs.errors import UserError
from flows.log_lines import (
    bound,
    check_log_options,
    is_json,
    log_variables,
    shows,
    split_log_options,
    write_line,
)
from flows.progress import PlainLog, PrefectLog
from tasks.select.study import open_study
from tasks.servers.servers import set_variables
from tasks.storage.settings import Settings, read_log_form

JSON = "--log-format=json"


@pytest.fixture(autouse=True)
def _unset(monkeypatch):
    for name in ("FKD_LOG_FORMAT", "FKD_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)


def _objects(text):
    """Every line as an object with what all of them have."""
    # NaN and infinity are no JSON, though Python would read them.
    found = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    for one in found:
        moment = datetime.fromisoformat(one["time"])
        assert moment.utcoffset() == timedelta(0)
        assert one["level"] in ("debug", "info", "warning", "error")
        assert isinstance(one["event"], str)
        assert isinstance(one["message"], str)
    return found


def test_a_line_has_what_is_bound_and_no_password(capsys):
    with bound(run="crimes"), bound(flow_run=None):
        write_line("info", "fit", "at http://me:hidden@host\nand so on", share=0.5, lost=math.nan)
    write_line("debug", "fit", "unseen")
    write_line("warning", "log", address=["http://me:hidden@host"], more={"b": math.inf})
    told = capsys.readouterr()
    first, second = _objects(told.out)
    assert "hidden" not in told.out
    assert told.err == ""
    assert (first["run"], first["share"], first["lost"]) == ("crimes", 0.5, "nan")
    assert "flow_run" not in first
    assert "run" not in second


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_level_hides_what_is_below_it(level, monkeypatch, capsys):
    monkeypatch.setenv("FKD_LOG_LEVEL", level)
    levels = ["debug", "info", "warning", "error"]
    shown = levels[levels.index(level) :]
    assert [one for one in levels if shows(one)] == shown
    for one in levels:
        write_line(one, "said")
        PrefectLog(PlainLog()).log(one, one)
    told = capsys.readouterr()
    assert [one["level"] for one in _objects(told.out)] == shown
    assert [line.split()[1] for line in told.err.splitlines()] == shown


def test_options_are_taken_from_anywhere_on_the_line():
    words = ["run", "--log-level", "debug", "default", JSON, "--set", "a=b"]
    left, chosen = split_log_options(words)
    assert left == ["run", "default", "--set", "a=b"]
    assert chosen == {"--log-level": "debug", "--log-format": "json"}
    check_log_options(left, chosen)
    with set_variables(log_variables(left, chosen)):
        assert is_json()
        assert shows("debug")
    assert not is_json()


def test_other_commands_speak_text_whatever_the_environment_says(monkeypatch):
    monkeypatch.setenv("FKD_LOG_FORMAT", "json")
    assert is_json()
    with set_variables(log_variables(["status"], {})):
        assert not is_json()
    with pytest.raises(UserError, match=r"--log-format .*run, sweep.* got status"):
        check_log_options(["status"], {"--log-format": "json"})


@pytest.mark.parametrize("words", ["--log-format xml", "--log-level loud", "--log-format"])
def test_unknown_words_are_refused_with_those_that_are_known(words):
    with pytest.raises(UserError, match=r"--log-(format|level) must be one of .*, got"):
        check_log_options(*split_log_options(["run", *words.split()]))


def test_an_unknown_word_in_the_environment_is_named_by_its_variable(monkeypatch):
    monkeypatch.setenv("FKD_LOG_LEVEL", "loud")
    with pytest.raises(UserError, match="FKD_LOG_LEVEL must be one of debug"):
        read_log_form()
    assert read_log_form(strict=False).level == "info"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run", "defualt", JSON], 2, "defualt"),
        (["run", "--set", "seeed=1", JSON], 2, "seeed"),
        (["run", "--log-level", "loud", JSON], 2, "--log-level must be one of"),
        (["run", "--nonsense", JSON], 2, "--nonsense"),
        (
            ["score", "models:/x@champion", "nowhere.csv", "--out", "x.parquet", JSON],
            2,
            "no registered model",
        ),
        (["run", "--dry-run", JSON], 0, None),
    ],
)
def test_faults_are_lines_with_the_same_exit_code(words, code, says, tmp_path):
    command = [sys.executable, "-m", "flows.cli"]
    options = {"env": clean_environment(tmp_path / "home"), "capture_output": True, "text": True}
    done = subprocess.run([*command, *words], **options, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (code, "")
    lines = _objects(done.stdout)
    if says is None:
        assert {line["event"] for line in lines} == {"plan", "log"}
    else:
        (line,) = lines
        assert (line["level"], line["event"], line["exit_code"]) == ("error", "error", 2)
        assert says in line["message"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of the commands below, in which the whole default run has gone through."""
    base = tmp_path_factory.getbasetemp()
    return warm_home(tmp_path_factory.mktemp("logged") / "home", base)


@pytest.mark.stack
@pytest.mark.timeout(1800)
def test_the_whole_default_run_is_lines_with_runs_trials_and_workers(home):
    run = Fkd(home, "run", JSON, "--set", "cluster.workers=1")
    assert run.wait() == 0, run.said
    lines = _objects(run.said)
    fits = [line for line in lines if line["event"] == "fit"]
    assert {line["run"] for line in lines[1:]} == {"crimes"}
    assert all(line["worker"].startswith(("tcp://", "tls://")) for line in fits)
    assert len({line["record"] for line in fits}) == len(fits) > 100
    assert len({line["flow_run"] for line in fits}) == 1
    assert lines[-1]["event"] == "result"
    assert lines[-1]["state"] == "success"
    assert lines[-1]["trials"] == len({line["trial"] for line in fits})


@pytest.mark.stack
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_run_that_is_ended_leaves_whole_lines(home, tmp_path, number, code):
    config = sweep_config(
        "cluster.workers=1", name=f"ended{number}", gammas=4, landmarks=61 + number
    )
    run = Fkd(home, "run", write_config(config, tmp_path), JSON)
    run.wait_for(lambda: '"fit"' in run.said)
    run.process.send_signal(number)
    assert run.wait() == code
    # A process of Python's own that outlives a killed one says what that has left.
    lines = _objects(run.said.partition(resource_tracker.__file__)[0])
    if code == 130:
        assert (lines[-1]["event"], lines[-1]["exit_code"]) == ("stopped", 130)


@pytest.mark.stack
@pytest.mark.timeout(1800)
def test_a_tracking_server_that_is_gone_is_a_line(home, tmp_path, free_port):
    config = sweep_config("cluster.workers=1", name="unrecorded", lengths=2)
    gone = f"http://me:hidden@127.0.0.1:{free_port}"
    run = Fkd(home, "run", write_config(config, tmp_path), JSON, MLFLOW_TRACKING_URI=gone)
    assert run.wait() == 2
    lines = _objects(run.said)
    assert (lines[-1]["level"], lines[-1]["exit_code"]) == ("error", 2)
    assert f"127.0.0.1:{free_port}" in lines[-1]["message"]
    assert "hidden" not in run.said
    assert {line["event"] for line in lines} >= {"fit", "progress", "result", "error"}
    assert open_study(config, Settings(home)).missing() == []

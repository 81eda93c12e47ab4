"""Ctrl-C, as a terminal sends it to every process of a run: no traceback of any of them."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from server_process import clean_environment, left_after

pytestmark = pytest.mark.stack

PATIENCE = 180.0  # seconds; a busy machine needs many

FIT = """
import sys
from flows.fitting import fit_all
from flows.messages import run_log
from sweep_sample import sweep_config
from tasks.cluster.signals import ignore_interrupt
from tasks.storage.settings import read_settings
from tasks.select.study import open_study

if __name__ == "__main__":
    try:
        run_log().log("beginning")
        config = sweep_config(*sys.argv[1:], gammas=8, landmarks=400)
        fit_all([open_study(config, read_settings())])
    except KeyboardInterrupt:
        ignore_interrupt()
        sys.exit(130)
"""

TESTS = Path(__file__).parents[1]


@pytest.fixture
def fitting(tmp_path):
    """A process group that fits, by its overrides; gone afterwards."""
    started = []

    def start(*overrides):
        script = tmp_path / "fit.py"
        script.write_text(FIT)
        process = subprocess.Popen(
            [sys.executable, script, *overrides],
            env={
                **clean_environment(tmp_path / "home"),
                "PYTHONPATH": str(Path(__file__).parents[1]),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _wait_for(happened):
    deadline = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def _workers(process):
    """The worker processes that a run has started, however young."""
    children = psutil.Process(process.pid).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def _check_stopped(process, home, times=1):
    """Assert that a Ctrl-C ends everything without a word of anybody but us."""
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in said.splitlines()), said
    assert left_after(home, 60) == []


def test_ctrl_c_during_fits_is_quiet(fitting, tmp_path):
    process = fitting()
    _wait_for(lambda: list((tmp_path / "home" / "store").rglob("*.record")))
    _check_stopped(process, tmp_path / "home")


def test_impatient_ctrl_c_while_workers_start_is_quiet(fitting, tmp_path):
    process = fitting()
    _wait_for(lambda: _workers(process))
    _check_stopped(process, tmp_path / "home", times=3)


def test_ctrl_c_while_a_scheduler_does_not_answer_is_quiet(fitting, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = fitting(f"cluster={{address: 'tcp://127.0.0.1:{server.getsockname()[1]}'}}")
        peer, _ = server.accept()
        _check_stopped(process, tmp_path / "home")
        peer.close()

"""Workers that are killed in the middle of a sweep: nothing is lost, nothing changes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from deadlines import patient
from soak_figures import keep
from sweep_jobs import counted, doom, notes
from sweep_sample import finite, numbers, same_numbers, sweep_config, undisturbed
from tracking_server import recorded_trials, warm_mlflow

from configs.errors import UserError
from flows import fitting
from flows.fitting import fit_all
from tasks.cluster.cluster import connect
from tasks.select.study import open_study
from tasks.track.recording import record_trials

pytestmark = pytest.mark.stack


class Killer(threading.Thread):
    """Kills the workers that wait for it in the middle of their jobs."""

    def __init__(self, home: Path) -> None:
        super().__init__(daemon=True)
        self.home = home
        self.killed: list[int] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.02):
            for _, pid in notes(self.home, "doomed")[len(self.killed) :]:
                os.kill(int(pid), signal.SIGKILL)
                self.killed.append(int(pid))

    def __enter__(self) -> "Killer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()


def _disturbed(config, settings, monkeypatch, kills, every):
    """The study of a configuration whose workers were killed; how many jobs it has; the killer."""
    monkeypatch.setattr(fitting, "run_job", counted)
    settings.home.mkdir(parents=True, exist_ok=True)
    tasks = len(open_study(config, settings).missing())
    doom(settings.home, kills=kills, every=every)
    with Killer(settings.home) as killer:
        assert fit_all([open_study(config, settings)]) == 0
    return open_study(config, settings), tasks, killer


def _check(study, tasks, killer, kills, reference):
    home = study.settings.home
    assert len(killer.killed) == kills
    assert study.missing() == []
    written = Counter(key for key, _ in notes(home, "record"))
    assert set(written.values()) == {1}
    assert len(written) == study.size()
    assert len(notes(home, "begin")) == tasks + kills
    assert finite(study)
    assert same_numbers(study, reference)


@contextmanager
def _cluster_from_the_shell(port):
    """The address of a `dask scheduler` with two `dask worker` processes, all real."""
    address = f"tcp://127.0.0.1:{port}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    dask = [sys.executable, "-m", "dask"]
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = ["worker", address, "--nthreads", "1", "--no-dashboard"]
    started = [subprocess.Popen([*dask, *words], **quiet) for words in (scheduler, worker, worker)]
    try:
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


def _wait_for_workers(config, settings):
    """Return once both workers have come."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with connect(config.cluster, settings) as client:
                client.wait_for_workers(2, timeout=patient(60))
                return
        except UserError:
            time.sleep(0.2)
    raise AssertionError("no scheduler within 120 s")


def test_two_killed_workers_change_no_number(settings, monkeypatch, tmp_path):
    config = sweep_config(gammas=2, alphas=2, lengths=3)
    study, tasks, killer = _disturbed(config, settings, monkeypatch, kills=2, every=3)
    assert (len(study.trials), tasks) == (12, 8)
    _check(study, tasks, killer, 2, undisturbed(config, tmp_path / "reference"))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["local", "shell"])
def test_twenty_killed_workers_change_no_number(
    place, settings, monkeypatch, tmp_path, tmp_path_factory, free_port
):
    grid = {"gammas": 5, "alphas": 5, "lengths": 8, "landmarks": 100, "k": 5}
    several = "select.inner_folds=4"
    config = sweep_config(several, **grid)
    if place == "shell":
        with _cluster_from_the_shell(free_port) as address:
            there = f"cluster={{address: '{address}'}}"
            config = sweep_config(several, there, **grid)
            _wait_for_workers(config, settings)
            found = _disturbed(config, settings, monkeypatch, kills=20, every=3)
    else:
        found = _disturbed(config, settings, monkeypatch, kills=20, every=3)
    study, tasks, killer = found
    assert (len(study.trials), tasks) == (200, 45)
    _check(study, tasks, killer, 20, undisturbed(config, tmp_path / "reference"))
    warm_mlflow(settings.mlflow, tmp_path_factory.getbasetemp())
    assert record_trials(study) == 200
    assert record_trials(study) == 0
    runs = Counter(recorded_trials(settings, config.experiment))
    assert runs == {t.key: 1 for t in study.trials}
    keep(
        "F1",
        place,
        kills=len(killer.killed),
        trials=len(runs),
        tasks=tasks,
        executions=len(notes(settings.home, "begin")),
        lost=len(study.trials) - len(runs),
        recorded_twice=sum(count > 1 for count in runs.values()),
        numbers_equal=len(numbers(study)),
    )

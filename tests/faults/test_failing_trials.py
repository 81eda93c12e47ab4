"""Trials that hang, stop their worker, eat memory or raise: the others finish."""

import json

import pandas as pd
import pytest
from server_process import left_after
from soak_figures import keep
from sweep_process import fkd, warm_home, write_config
from sweep_sample import same_numbers, sweep_config, undisturbed

from tasks.select.study import open_study
from tasks.storage.settings import Settings

pytestmark = pytest.mark.stack


@pytest.fixture
def home(tmp_path, tmp_path_factory):
    return warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())


def _run(home, path, behaviour, *overrides):
    """Run with jobs that behave as told, by method and fold."""
    (home / "behaviour.json").write_text(json.dumps(behaviour))
    words = [word for override in overrides for word in ("--set", override)]
    return fkd(home, "run", path, *words, job="misbehaving")


LATE = "TimeoutError: it ran longer than cluster.time_limit (15 s)"
DEAD = "KilledWorker: its worker died each time it was tried"
CAUSES = {
    "hang": LATE,
    "stop": LATE,
    "eat memory": DEAD,
    "wrong input": "ValueError: gamma must be above 0, got -1",
}


def _check(home, path, config, behaviour, tmp_path):
    """Assert that faults are told, that all other fits finish, that a repeat mends them.

    What was found is returned: how many fits there are, how many failed, all causes.
    """
    few = ("cluster.time_limit=15", "cluster.retries=1", "cluster.cluster_kwargs.memory_limit=1GB")
    code, said = _run(home, path, behaviour, *few)
    assert (code, "Traceback" in said) == (2, False), said
    study = open_study(config, Settings(home, None, None, None))
    failures = study.failures()
    assert len(failures) == 3 * len(behaviour)  # each task has three lengths of the path
    assert f"{len(failures)} fits failed" in " ".join(said.split())
    page = (study.folder / "report.html").read_text()
    shown = fkd(home, "status")[1]
    for place, fault in behaviour.items():
        fold = place.split(":")[1]
        told = [cause for fit, cause in failures.items() if fit.endswith(f"fold {fold}")]
        assert len(told) == 3
        cause = CAUSES[fault]
        assert all(text.startswith(cause) for text in told)
        assert f"krr_fkd on fold {fold}: {cause}" in shown
        assert cause in page
    # What is not concerned is complete: here the dummy, with no failed fold.
    assert set(pd.read_csv(study.folder / "results.csv")["method"]) >= {"dummy"}
    code, said = _run(home, path, {}, *few)
    assert code == 0, said
    assert f"{len(failures)} failed before" in said
    assert study.failures() == {}
    assert same_numbers(study, undisturbed(config, tmp_path / "reference"))
    assert left_after(home, 30) == []
    told = {fault: CAUSES[fault] for fault in behaviour.values()}
    return {"fits": study.size(), "failed": len(failures), "causes": told}


@pytest.fixture
def config():
    grid = "{iterations: [0, 1, 2]}, approximation: {kind: nystroem, landmarks: 60}"
    return sweep_config(f"methods=[dummy, {{name: krr_fkd, grid: {grid}}}]", k=3)


@pytest.mark.timeout(900)
def test_a_hung_trial_is_given_up_told_and_tried_again(home, config, tmp_path):
    path = write_config(config, tmp_path)
    behaviour = {"krr_fkd:1": "hang", "krr_fkd:2": "wrong input"}
    _check(home, path, config, behaviour, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_kind_of_fault_in_one_sweep_leaves_the_others_alone(home, config, tmp_path):
    path = write_config(config, tmp_path)
    kinds = ["hang", "stop", "eat memory", "wrong input"]
    behaviour = dict(
        zip(["krr_fkd:0", "krr_fkd:1", "krr_fkd:0.0", "krr_fkd:2"], kinds, strict=True)
    )
    found = _check(home, path, config, behaviour, tmp_path)
    keep("F9", "a sweep with every fault", **found)

"""Several sweeps at once on one FKD_HOME: no error, no lost run, none twice."""

from collections import Counter

import pytest
from server_process import left_after
from soak_figures import keep
from sweep_process import Fkd, warm_home, write_config
from sweep_sample import same_numbers, sweep_config, undisturbed
from tracking_server import mlflow_server, recorded_trials, warm_mlflow

from tasks.select.study import open_study
from tasks.storage.settings import Settings

pytestmark = pytest.mark.stack


def _start(home, configs, folder, **environment):
    """Start one run per configuration; two of the same name are the same run twice."""
    return [Fkd(home, "run", write_config(config, folder), **environment) for config in configs]


def _check(home, configs, runs, uri=None):
    """What was found: sweeps, trials, runs of them."""
    settings = Settings(home, None, None, uri)
    assert [(run.wait(), "Traceback" in run.said) for run in runs] == [(0, False)] * len(runs), [
        run.said for run in runs
    ]
    found: Counter[str] = Counter(sweeps=len(runs))
    for config in {config.name: config for config in configs}.values():
        study = open_study(config, settings)
        assert study.missing() == []
        recorded = Counter(recorded_trials(settings, config.name))
        assert recorded == {trial.key: 1 for trial in study.trials}
        found.update(trials=len(study.trials), recorded=recorded.total())
    assert left_after(home, 30) == []
    return found


@pytest.mark.timeout(900)
def test_two_sweeps_share_a_fresh_home(tmp_path):
    home = tmp_path / "home"
    # The second wants some of the first one's trials, under a name of its own.
    configs = [sweep_config(lengths=2), sweep_config(name="other", lengths=3)]
    _check(home, configs, _start(home, configs, tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_same_sweep_twice_at_once_on_a_fresh_home_is_recorded_once(tmp_path):
    home, config = tmp_path / "home", sweep_config(gammas=3, alphas=3, lengths=4)
    found = _check(home, [config, config], _start(home, [config, config], tmp_path))
    study = open_study(config, Settings(home, None, None, None))
    assert same_numbers(study, undisturbed(config, tmp_path / "reference"))
    keep("F8", "the same sweep twice on a fresh home", **found, errors=0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_eight_sweeps_share_one_running_server_and_one_store(tmp_path, tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    home = warm_home(tmp_path / "home", base)
    database = f"sqlite:///{warm_mlflow(tmp_path / 'server', base)}"
    one_worker = "cluster.workers=1"
    configs = [sweep_config(one_worker, name=f"sweep{i % 6}", lengths=2 + i % 6) for i in range(8)]
    with mlflow_server(database, tmp_path) as server:
        server.start()
        runs = _start(home, configs, tmp_path, MLFLOW_TRACKING_URI=server.uri)
        found = _check(home, configs, runs, server.uri)
    keep("F8", "eight sweeps on one server and one store", **found, errors=0)

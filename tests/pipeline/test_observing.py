"""What operators look at: peak memory, Dask's report, the pages that Prometheus reads."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from dask_process import THREADS, in_threads
from mlflow.tracking import MlflowClient
from server_process import read
from sweep_process import Fkd, warm_home, write_config
from sweep_sample import sweep_config

from configs.run import ClusterConfig
from tasks.cluster.cluster import connect, is_reported, performance
from tasks.fit.job import run_job
from tasks.select.study import open_study
from tasks.storage.environment import MEMORY, PeakMemory
from tasks.storage.settings import Settings
from tasks.track.client import tracking_uri
from tasks.track.recording import trial_run
from tasks.track.run_index import recorded

MIB = 2**20


def test_the_peak_is_that_since_the_job_began():
    np.ones(60 * MIB // 8).sum()  # held before, given back
    before = PeakMemory()
    lower = before.environment()[MEMORY]["peak_rss"]
    np.ones(200 * MIB // 8).sum()
    after = before.environment()[MEMORY]
    assert after["peak_rss"] - lower > 150 * MIB
    if after["since"] == "job":
        assert PeakMemory().environment()[MEMORY]["peak_rss"] < after["peak_rss"] - 100 * MIB


def test_a_kernel_that_forgets_nothing_tells_the_peak_of_the_process(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(Path, "write_text", refuse)  # of /proc/self/clear_refs
    told = PeakMemory().environment()[MEMORY]
    assert told["since"] == "process"
    assert told["peak_rss"] > 10 * MIB


def test_records_have_the_peak_and_those_without_it_are_still_recorded(settings):
    study = open_study(sweep_config(gammas=1, alphas=1, lengths=1), settings)
    for job in study.missing():
        run_job(job)
    (result,) = study.results()
    for record, mib in zip(result.records, (300, 200), strict=True):
        assert record.environment[MEMORY]["peak_rss"] > 10 * MIB
        record.environment[MEMORY]["peak_rss"] = mib * MIB
    told = trial_run(study, result, "name", {}).details.metrics
    assert told["peak_memory_mib"] == 300
    del result.records[0].environment[MEMORY]
    assert trial_run(study, result, "name", {}).details.metrics == {
        name: value for name, value in told.items() if name != "peak_memory_mib"
    }


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, True),
        (THREADS, False),
        ({**THREADS, "report": True}, True),
        ({"report": False}, False),
    ],
)
def test_a_report_is_made_of_processes_that_the_run_started(changes, wanted, settings):
    config = ClusterConfig(**{"workers": 1, **changes})
    with connect(config, settings) as client:
        assert is_reported(config, client) == wanted
        client.cluster = None  # as of a scheduler that others started
        assert is_reported(config, client) == bool(config.report)


def test_a_scheduler_that_has_gone_costs_the_report_not_the_run(settings):
    kept, said = [], []
    with connect(in_threads(), settings) as client:
        with performance(client, kept.append, said.append):
            client.submit(sum, [1, 2]).result()
        assert len(kept) == 1
        assert b"<html" in kept[0]
        assert b"Duration" in kept[0]
        with performance(client, kept.append, said.append):
            client.close()
    assert len(kept) == len(said) == 1
    assert said[0].startswith("no performance report by Dask")


@pytest.mark.stack
@pytest.mark.timeout(900)
def test_a_run_has_report_memory_and_seconds_in_mlflow(tmp_path, tmp_path_factory):
    home = warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())
    config = sweep_config("cluster.workers=1", lengths=2)
    run = Fkd(home, "run", write_config(config, tmp_path))
    assert run.wait() == 0, run.said
    settings = Settings(home)
    study, client = open_study(config, settings), MlflowClient(tracking_uri(settings))
    place = recorded(study)
    files = {file.path: file.file_size for file in client.list_artifacts(place.run_id)}
    assert files["dask_report.html"] > 100_000
    page = (study.folder / "dask_report.html").read_text()
    assert "<script src=" not in page  # it opens without the network
    for one in client.search_runs([place.experiment_id], "tags.`fkd.trial` != ''"):
        assert one.data.metrics["seconds"] > 0
        assert 30 < one.data.metrics["peak_memory_mib"] < 10_000


def _metrics(text):
    """The metrics on a page that Prometheus reads by name, each summed over its labels."""
    found = Counter()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            found[line.split("{")[0].split(" ")[0]] += float(line.rsplit(" ", 1)[1])
    return found


def test_the_scheduler_and_workers_of_a_run_answer_prometheus(settings):
    with connect(ClusterConfig(workers=1), settings) as client:
        client.submit(sum, [1, 2]).result()
        page = json.loads((settings.home / "dask.json").read_text())["dashboard"]
        found = _metrics(read(page.replace("/status", "/metrics")))
        assert found["dask_scheduler_workers"] == 1
        (worker,) = client.scheduler_info(n_workers=-1)["workers"].values()
        port = worker["services"]["dashboard"]
        found = _metrics(read(f"http://127.0.0.1:{port}/metrics"))
        assert found["dask_worker_tick_count_total"] > 0

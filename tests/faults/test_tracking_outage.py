"""A tracking server that goes away before, during or after a sweep: all is recorded once."""

import signal
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import pytest
from mlflow.tracking import MlflowClient
from soak_figures import keep
from sweep_process import Fkd, fkd, records, warm_home, write_config
from sweep_sample import sweep_config
from tracking_server import mlflow_server, postgres, recorded_trials, warm_mlflow

from flows.store_commands import sync_all
from tasks.report.model import report_data
from tasks.report.page import render
from tasks.select.study import open_study
from tasks.storage.settings import Settings, quiet_ecosystem
from tasks.track.client import TrackingUnreachableError
from tasks.track.recording import record_champion, record_files, record_trials
from tasks.track.run_index import recorded

pytestmark = pytest.mark.stack
POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))


@contextmanager
def _database(kind, folder, base):
    """The address of a database for a server: a created sqlite file, or a fresh PostgreSQL."""
    if kind == "postgresql":
        with postgres() as address:
            yield address
    else:
        yield f"sqlite:///{warm_mlflow(folder / 'server', base)}"


@pytest.fixture
def server(request, tmp_path, tmp_path_factory):
    """A server that is not started yet, on the kind of database that the test names."""
    with (
        _database(request.param, tmp_path, tmp_path_factory.getbasetemp()) as database,
        mlflow_server(database, tmp_path) as found,
    ):
        yield found


# Name and password of the server; nothing written, said or sent to it but them may hold one.
SECRETS = ("planted-name", "planted-word")


@pytest.fixture
def study(quick_study, server, monkeypatch):
    """The computed quick study, whose records go to that server, by name and password."""
    quiet_ecosystem()
    uri = server.uri.replace("://", f"://{':'.join(SECRETS)}@")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    there = replace(quick_study.settings, mlflow_tracking_uri=uri)
    return open_study(quick_study.config, there)


def _told(folder):
    """Every file under a folder in which a secret stands."""
    secrets = [secret.encode() for secret in SECRETS]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(secret in path.read_bytes() for secret in secrets)]


def _check_once(study):
    """Assert that every trial has one run whose every metric has one value."""
    assert Counter(recorded_trials(study.settings, "quick")) == {t.key: 1 for t in study.trials}
    client = MlflowClient(study.settings.mlflow_tracking_uri)
    runs = client.search_runs([recorded(study).experiment_id], "tags.`fkd.trial` != ''")
    histories = [client.get_metric_history(run.info.run_id, "hgr_mean") for run in runs]
    assert [len(history) for history in histories] == [1] * len(runs)


def _counts(settings, study):
    """How many trials there are, how many have a run, how many more than one."""
    runs = Counter(recorded_trials(settings, study.config.name))
    twice = sum(count > 1 for count in runs.values())
    return {"trials": len(study.trials), "recorded": len(runs), "recorded_twice": twice}


def _kill_during(monkeypatch, server, call, after, number=2):
    """Let the server die at a client's n-th call of that name, after or before it is answered."""
    real, calls = getattr(MlflowClient, call), []

    def deadly(self, *arguments, **options):
        calls.append(call)
        if len(calls) == number and not after:
            server.kill()
        answer = real(self, *arguments, **options)
        if len(calls) == number and after:
            server.kill()
        return answer

    monkeypatch.setattr(MlflowClient, call, deadly)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("server", ["sqlite", POSTGRESQL], indirect=True)
def test_a_server_that_dies_while_it_records_gets_the_rest_once_it_is_back(
    study, server, monkeypatch, capsys, tmp_path
):
    with pytest.raises(TrackingUnreachableError, match="fkd sync") as never_started:
        record_trials(study)
    server.start()
    with monkeypatch.context() as patch:
        _kill_during(patch, server, "log_batch", after=True)
        with pytest.raises(TrackingUnreachableError, match="fkd sync") as died:
            record_trials(study)
    server.start()
    sync_all()
    shown = capsys.readouterr()
    assert "quick: 3 new trial runs" in shown.out
    assert record_trials(study) == 0
    _check_once(study)
    render(report_data(study), study.folder)
    record_files(study)
    said = [str(error.value) for error in (never_started, died)]
    said += ["".join(traceback.format_exception(error.value)) for error in (never_started, died)]
    assert not [text for text in (*said, *shown) if any(secret in text for secret in SECRETS)]
    assert server.uri in said[0]
    assert _told(tmp_path) == []
    assert server.uri in (study.folder / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", ["create_run", "log_batch", "set_terminated", "search_runs"])
@pytest.mark.parametrize("server", [POSTGRESQL], indirect=True)
def test_a_server_may_die_at_any_call(study, server, call, after, monkeypatch):
    server.start()
    with monkeypatch.context() as patch:
        _kill_during(patch, server, call, after)
        with pytest.raises(TrackingUnreachableError):
            record_trials(study)
    server.start()
    record_trials(study)
    assert record_trials(study) == 0
    _check_once(study)
    moment = "after" if after else "before"
    keep("F7", f"server killed {moment} {call}", **_counts(study.settings, study))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("call", ["create_registered_model", "create_model_version"])
@pytest.mark.parametrize("server", [POSTGRESQL], indirect=True)
def test_a_champion_is_registered_once_even_if_the_server_dies_meanwhile(
    study, server, call, monkeypatch
):
    server.start()
    record_trials(study)
    with monkeypatch.context() as patch:
        _kill_during(patch, server, call, after=True, number=1)
        with pytest.raises(TrackingUnreachableError):
            record_champion(study)
    server.start()
    assert record_champion(study) == record_champion(study) == "models:/quick@champion"
    client = MlflowClient(study.settings.mlflow_tracking_uri)
    (version,) = client.search_model_versions("name = 'quick'")
    assert client.get_model_version_by_alias("quick", "champion").version == version.version
    keep("F7", f"server killed after {call}", champions=1, versions=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("server", [POSTGRESQL], indirect=True)
def test_a_server_that_hangs_is_named(study, server):
    server.start()
    server.signal(signal.SIGSTOP)
    with pytest.raises(TrackingUnreachableError, match=str(server.port)):
        record_trials(study)
    server.signal(signal.SIGCONT)
    assert record_trials(study) == len(study.trials)
    _check_once(study)
    keep("F7", "server stopped", **_counts(study.settings, study))


def _complete_without_record(config, settings, code, said):
    """The study of a run that computed everything and says once that nothing was recorded."""
    assert code == 2, said
    assert said.count("Everything computed is stored") == 1
    assert "Traceback" not in said
    study = open_study(config, settings)
    assert study.missing() == []
    assert {"results.csv", "report.html"} <= {file.name for file in study.folder.iterdir()}
    return study


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("server", [POSTGRESQL], indirect=True)
def test_five_minutes_without_a_server_cost_no_trial(server, tmp_path, tmp_path_factory):
    during = sweep_config(name="during", gammas=2, alphas=2, lengths=3)
    before = sweep_config(name="before", gammas=2, alphas=2, lengths=4)
    paths, home = [write_config(c, tmp_path) for c in (during, before)], tmp_path / "home"
    warm_home(home, tmp_path_factory.getbasetemp())
    settings, there = Settings(home, None, None, server.uri), {"MLFLOW_TRACKING_URI": server.uri}
    server.start()
    run = Fkd(home, "run", paths[0], **there)
    run.wait_for(lambda: records(home))
    server.kill()
    away = time.monotonic()
    first = _complete_without_record(during, settings, run.wait(), run.said)
    code, said = fkd(home, "run", paths[1], **there)  # away from its beginning on
    second = _complete_without_record(before, settings, code, said)
    code, said = fkd(home, "sync", **there)
    assert (code, "Traceback" in said) == (2, False)
    time.sleep(max(0.0, 300 - (time.monotonic() - away)))
    server.start()
    minutes = (time.monotonic() - away) / 60
    code, said = fkd(home, "sync", **there)
    assert code == 0, said
    assert "during: 12 new trial runs" in said
    assert "before: 16 new trial runs" in said
    server.kill()
    code, said = fkd(home, "run", paths[0], **there)  # after the sweep
    assert (code, "nothing to compute" in said) == (2, True), said
    server.start()
    code, said = fkd(home, "run", paths[0], **there)
    assert (code, "0 new trial runs" in said) == (0, True), said
    for study in (first, second):
        name = study.config.name
        assert Counter(recorded_trials(settings, name)) == {t.key: 1 for t in study.trials}
        counts = _counts(settings, study)
        keep("F7", f"server gone {name} a sweep", minutes=round(minutes, 1), **counts)

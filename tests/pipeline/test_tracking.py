import json
import math
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import httpx
import mlflow
import mlflow.data
import numpy as np
import pandas as pd
import pytest
from mlflow.tracking import MlflowClient
from pipeline_fixtures import QUICK
from tracking_server import warm_mlflow

from configs.load import load_config
from flows.store_commands import sync_all
from tasks.fit.job import run_job
from tasks.report.page import write_report
from tasks.select.champion import select_champion
from tasks.select.results import Finding
from tasks.select.study import open_study
from tasks.storage.settings import Settings
from tasks.track.client import TimedClient, TrackingUnreachableError, tracking_uri
from tasks.track.recording import record_champion, record_files, record_trials
from tasks.track.registry import load_model
from tasks.track.run_index import find_study, identity_of, note_time, recorded, time_taken
from tasks.track.runs import Tracking, metric_name


@pytest.fixture
def study(quick_study, tmp_path_factory):
    warm_mlflow(quick_study.settings.mlflow, tmp_path_factory.getbasetemp())
    return quick_study


def _runs(study):
    client = MlflowClient(tracking_uri(study.settings))
    place = recorded(study)
    runs = client.search_runs([place.experiment_id])
    return (
        [r for r in runs if r.info.run_id == place.run_id],
        [r for r in runs if r.data.tags.get("mlflow.parentRunId") == place.run_id],
    )


def test_every_trial_has_one_run_under_one_parent(study):
    assert record_trials(study) == len(study.trials) == 3
    parents, children = _runs(study)
    assert (len(parents), len(children)) == (1, 3)
    assert {r.data.tags["fkd.trial"] for r in children} == {t.key for t in study.trials}
    for run in children:
        assert run.info.status == "FINISHED"
        assert run.data.tags["fkd.data"] == study.loaded.digest
        assert run.data.tags["fkd.config"] == study.config.digest


def test_a_runs_numbers_are_those_of_the_store(study):
    record_trials(study)
    _, children = _runs(study)
    by_key = {r.data.tags["fkd.trial"]: r for r in children}
    for result in study.results():
        run = by_key[result.trial.key]
        assert run.data.metrics["hgr_mean"] == result.mean("hgr", "racepctblack")
        assert run.data.metrics["mae_mean"] == result.mean("mae", "racepctblack")
        assert run.data.metrics["mae_std"] == result.std("mae", "racepctblack")
        assert run.data.params["method"] == result.trial.method


def test_recording_again_adds_nothing(study):
    record_trials(study)
    before = [r.info.run_id for group in _runs(study) for r in group]
    assert record_trials(study) == 0
    assert [r.info.run_id for group in _runs(study) for r in group] == before


def test_a_run_that_was_interrupted_is_completed_not_doubled(study):
    record_trials(study)
    _, children = _runs(study)
    MlflowClient(tracking_uri(study.settings)).update_run(children[0].info.run_id, status="RUNNING")
    assert record_trials(study) == 1
    assert len(_runs(study)[1]) == 3


def test_the_registered_champion_predicts_as_the_one_in_process(study):
    record_trials(study)
    assert record_champion(study) == "models:/quick@champion"
    champion = select_champion(study)
    loaded = load_model(study.settings, "models:/quick@champion")
    assert np.array_equal(
        loaded.predict(champion.example), champion.bundle.predict(champion.example)
    )
    signature = loaded.metadata.signature
    assert set(signature.inputs.input_names()) == set(champion.bundle.input_columns)
    assert loaded.input_example is not None


def test_the_model_holds_no_pickle(study):
    record_trials(study)
    record_champion(study)
    mlflow.set_tracking_uri(tracking_uri(study.settings))
    folder = mlflow.artifacts.download_artifacts("models:/quick@champion")
    names = [name for _, _, files in os.walk(folder) for name in files]
    assert "bundle.npz" in names
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib"))]


def test_the_same_champion_is_registered_once(study):
    record_trials(study)
    record_champion(study)
    record_champion(study)
    client = MlflowClient(tracking_uri(study.settings))
    assert len(client.search_model_versions("name = 'quick'")) == 1


def test_a_champion_that_another_home_registers_meanwhile_is_registered_once(
    study, tmp_path, monkeypatch
):
    shutil.copytree(study.settings.home, tmp_path / "other")
    there = replace(study.settings, home=tmp_path / "other", mlflow_tracking_uri=_uri(study))
    other, real, calls = open_study(study.config, there), TimedClient.__getattr__, []

    def overtaken(self, name):
        if name == "create_model_version" and not calls:
            calls.append(name)
            record_champion(other)
        return real(self, name)

    record_trials(study)
    monkeypatch.setattr(TimedClient, "__getattr__", overtaken)
    record_champion(study)
    assert calls
    client = MlflowClient(_uri(study))
    (version,) = client.search_model_versions("name = 'quick'")
    assert client.get_model_version_by_alias("quick", "champion").version == version.version


def _uri(study):
    return tracking_uri(study.settings)


def test_files_and_configuration_lie_on_the_parent(study):
    record_trials(study)
    record_files(study)
    client = MlflowClient(tracking_uri(study.settings))
    names = {file.path for file in client.list_artifacts(recorded(study).run_id)}
    assert {"config.yaml", "tracking.json"} <= names


def test_a_server_that_does_not_answer_is_named_at_once(study):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    gone = Settings(study.settings.home, None, None, f"http://127.0.0.1:{port}")
    with pytest.raises(TrackingUnreachableError, match=f"127.0.0.1:{port}"):
        Tracking(gone, "quick")


@pytest.mark.stack
def test_the_served_model_answers_as_the_one_in_process(study, free_port):
    record_trials(study)
    record_champion(study)
    champion = select_champion(study)
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "mlflow", "models", "serve", "-m", "models:/quick@champion"),
            *("--env-manager", "local", "--host", "127.0.0.1", "--port", str(free_port)),
        ],
        env={
            **os.environ,
            "MLFLOW_TRACKING_URI": tracking_uri(study.settings),
            # MLflow calls uvicorn by its bare name.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        answer = _ask(free_port, champion.example)
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)
    assert np.array_equal(answer, champion.bundle.predict(champion.example))


def _ask(port, example):
    """The server's predictions, once it is up; bounded in time."""
    body = {
        "dataframe_split": json.loads(
            example.to_json(orient="split", index=False, double_precision=15)
        )
    }
    transport = httpx.HTTPTransport(retries=0)
    with httpx.Client(transport=transport, base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(240):
            try:
                client.get("/ping", timeout=2).raise_for_status()
            except httpx.HTTPError:
                time.sleep(0.25)
                continue
            return np.array(
                client.post("/invocations", json=body, timeout=30).json()["predictions"]
            )
    raise AssertionError("the model server did not come up")


LONG_AGO = "2020-01-01T00:00:00+00:00"


@pytest.fixture(scope="module")
def shown(tmp_path_factory, computed_home):
    """The quick study, recorded whole; its tests only look."""
    home = tmp_path_factory.mktemp("shown") / "home"
    shutil.copytree(computed_home, home)
    warm_mlflow(home / "mlflow", tmp_path_factory.getbasetemp())
    study = open_study(load_config("default", QUICK), Settings(home))
    record_all(study)
    return study


def record_all(study, **options):
    added = record_trials(study)
    record_champion(study, **options)
    record_files(study)
    return added


def client_of(study):
    return MlflowClient(tracking_uri(study.settings), tracking_uri(study.settings))


def runs_of(study):
    """Every parent run with its children, in one experiment."""
    client = client_of(study)
    place = client.get_experiment_by_name(study.config.experiment)
    runs = client.search_runs([place.experiment_id], max_results=1000)
    parents = [run for run in runs if "fkd.identity" in run.data.tags]
    return {
        parent.info.run_id: (
            parent,
            [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id],
        )
        for parent in parents
    }


def test_the_experiments_page_opens_on_its_runs(shown):
    experiment = client_of(shown).get_experiment_by_name("quick")
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"


def test_a_parent_names_its_data(shown):
    ((parent, trials),) = runs_of(shown).values()
    (used,) = parent.inputs.dataset_inputs
    assert used.dataset.name == "crimes"
    assert shown.loaded.digest.startswith(used.dataset.digest)
    assert json.loads(used.dataset.profile)["num_rows"] == shown.loaded.table.n
    columns = json.loads(used.dataset.schema)["mlflow_colspec"]
    assert {"racepctblack", "ViolentCrimesPerPop"} <= {column["name"] for column in columns}
    assert {tag.key: tag.value for tag in used.tags} == {"mlflow.data.context": "training"}
    assert mlflow.data.get_source(used) is not None
    assert {run.data.tags["fkd.data"] for run in trials} == {shown.loaded.digest}


def test_the_champions_trial_is_marked_and_has_its_held_out_numbers(shown):
    champion = select_champion(shown)
    ((parent, trials),) = runs_of(shown).values()
    (marked,) = [run for run in trials if run.data.tags.get("fkd.champion") == "true"]
    assert marked.data.tags["fkd.trial"] == champion.trial.key
    held_out = champion.judgement.held_out
    for run in (parent, marked):
        assert run.data.metrics["held_out/mae"] == held_out.mae[0]
        found = held_out.measures["racepctblack"]["gdp"]
        names = ("held_out/gdp", "held_out/gdp_low", "held_out/gdp_high")
        assert tuple(run.data.metrics[name] for name in names) == tuple(found)
    assert parent.data.params["champion.method"] == champion.trial.method
    assert parent.data.params["champion.iterations"] == str(champion.trial.parameters["iterations"])


def test_every_run_and_the_model_are_described(shown):
    ((parent, trials),) = runs_of(shown).values()
    client = client_of(shown)
    (version,) = client.search_model_versions("name = 'quick'")
    notes = [run.data.tags["mlflow.note.content"] for run in (parent, *trials)]
    for note in (*notes, version.description):
        assert "Predicts `ViolentCrimesPerPop` (violent crimes per resident" in note
        assert "of Communities and Crime with `racepctblack` (share of Black residents)" in note
    for note in (notes[0], version.description):
        assert "Champion: " in note
        assert "| mae |" in note
    logged = client.get_logged_model(version.source.removeprefix("models:/"))
    assert {metric.key for metric in logged.metrics} >= {"held_out/mae", "held_out/gdp"}
    assert {metric.dataset_name for metric in logged.metrics} == {"crimes"}
    assert logged.params["champion.method"] == select_champion(shown).trial.method


def test_run_and_model_say_what_was_found(study):
    record_all(study, finding=Finding("fell", (), ("Its HGR fell.",)))
    client = client_of(study)
    ((parent, _),) = runs_of(study).values()
    (version,) = client.search_model_versions("name = 'quick'")
    for tags, note in (
        (parent.data.tags, parent.data.tags["mlflow.note.content"]),
        (version.tags, version.description),
    ):
        assert tags["fkd.finding"] == "fell"
        assert "Its HGR fell." in note
    assert "made up" in version.description
    # A limit that is set later is said of the same version.
    broken = Finding("limit broken; fell", ("It breaks its limit.",), ("Its HGR fell.",))
    record_all(study, finding=broken)
    (version,) = client.search_model_versions("name = 'quick'")
    assert version.tags["fkd.finding"] == "limit broken; fell"
    assert "It breaks its limit. Its HGR fell." in version.description


def test_a_repeat_keeps_the_time_of_the_run_that_computed(study):
    assert math.isnan(time_taken(study)[0])
    record_trials(study)
    note_time(study, 42.5)
    seconds, finished = time_taken(study)
    assert (seconds, finished.tzinfo) == (42.5, UTC)
    record_trials(study)
    assert time_taken(study) == (seconds, finished)


def test_runs_of_trials_have_means_and_no_series(shown):
    ((_, trials),) = runs_of(shown).values()
    for run in trials:
        assert {"mae_mean", "mae_std"} <= run.data.metrics.keys()
        assert not any(name.startswith("fold") for name in run.data.metrics)
        assert "seed" not in run.data.params


def test_names_of_runs_differ_where_the_table_cuts_them(shown):
    ((_, trials),) = runs_of(shown).values()
    names = [run.info.run_name[:15] for run in trials]
    assert len(set(names)) == len(names) == len(shown.trials)


def test_runs_name_user_program_and_commit(shown):
    ((parent, trials),) = runs_of(shown).values()
    for run in (parent, *trials):
        assert run.data.tags["mlflow.source.name"] == "fkd run quick"
        assert run.data.tags["mlflow.user"]


def test_the_page_of_an_experiment_shows_measures_and_their_trade_off(shown):
    experiment = MlflowClient(tracking_uri(shown.settings)).get_experiment(
        recorded(shown).experiment_id
    )
    state = json.loads(experiment.tags["mlflow.sharedViewState.fkd"])
    ((_, trials),) = runs_of(shown).values()
    metrics = trials[0].data.metrics.keys()
    columns = {name.removeprefix("metrics.`").rstrip("`") for name in state["selectedColumns"][1:]}
    axes = {
        chart[axis]["key"] for chart in state["compareRunCharts"] for axis in ("xaxis", "yaxis")
    }
    assert {"mae_mean", "hgr_mean"} <= columns <= metrics
    assert axes <= metrics


def test_a_run_lasts_as_long_as_its_fits_took(shown):
    ((parent, trials),) = runs_of(shown).values()
    seconds = {
        result.trial.key: sum(r.seconds for r in result.records) for result in shown.results()
    }
    for run in trials:
        lasted = run.info.end_time - run.info.start_time
        assert lasted == round(1000 * seconds[run.data.tags["fkd.trial"]])
    inner = sum(r.seconds for result in shown.results(inner=True) for r in result.records)
    lasted = parent.info.end_time - parent.info.start_time
    assert lasted == pytest.approx(1000 * (sum(seconds.values()) + inner), abs=2)
    assert parent.info.status == "FINISHED"


def test_the_same_command_again_adds_no_run_but_its_time(study):
    record_trials(study)
    ((parent, trials),) = runs_of(study).values()
    assert parent.data.tags["fkd.last_run"]
    client_of(study).set_tag(parent.info.run_id, "fkd.last_run", LONG_AGO)
    assert record_trials(study) == 0
    ((again, same),) = runs_of(study).values()
    assert again.info.run_id == parent.info.run_id
    assert [run.info.run_id for run in same] == [run.info.run_id for run in trials]
    assert again.data.tags["fkd.last_run"] > LONG_AGO


def in_home(study, *overrides):
    """The study of a changed configuration in the same home, computed."""
    other = open_study(load_config("default", [*QUICK, *overrides]), study.settings)
    for job in other.missing():
        run_job(job)
    return other


def outage(study):
    """The study, asked to be recorded while nobody answers."""
    from tasks.track.client import TrackingUnreachableError

    away = replace(study.settings, mlflow_tracking_uri="http://127.0.0.1:9")
    with pytest.raises(TrackingUnreachableError):
        record_trials(replace(study, settings=away))


def test_sync_records_every_configuration_of_one_name(study, capsys):
    other = in_home(study, "methods=[dummy]", "seed=1", "select=null")
    outage(study)
    outage(other)
    sync_all()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "quick: 1 new trial runs",
        "quick: 3 new trial runs",
    ]
    found = runs_of(study)
    assert sorted(len(trials) for _, trials in found.values()) == [1, 3]
    assert {parent.data.tags["fkd.config"] for parent, _ in found.values()} == {
        study.config.digest,
        other.config.digest,
    }
    for identity, (parent, _) in found.items():
        held = {file.path for file in client_of(study).list_artifacts(identity)}
        assert {"config.yaml", "results.csv"} & held
        assert parent.info.status == "FINISHED"
    assert recorded(other) is not None  # the folder's files are those of the last one
    assert recorded(study) is None


def test_refreshed_rows_are_another_parent(settings, tmp_path, tmp_path_factory, rng, capsys):
    warm_mlflow(settings.mlflow, tmp_path_factory.getbasetemp())
    path = tmp_path / "own.csv"
    own = [f"data={{problem: table, path: '{path}', target: y, sensitive: [s], numeric: [a, s]}}"]
    own += ["name=own", "methods=[dummy]", "folds.k=2", "select=null"]
    studies = []
    for _ in range(2):
        a, s = rng.normal(size=(2, 60))
        pd.DataFrame({"a": a, "s": s, "y": a + s}).to_csv(path, index=False)
        study = open_study(load_config("default", own), settings)
        for job in study.missing():
            run_job(job)
        outage(study)
        studies.append(study)
    path.unlink()  # what was computed on its rows can be recorded all the same
    sync_all()
    assert capsys.readouterr().out.splitlines() == ["own: 1 new trial runs"] * 2
    found = runs_of(studies[0])
    assert {parent.data.tags["fkd.data"] for parent, _ in found.values()} == {
        study.loaded.digest for study in studies
    }
    for parent, trials in found.values():
        (run,) = trials
        assert run.data.tags["fkd.data"] == parent.data.tags["fkd.data"]


def test_an_older_run_recorded_late_does_not_take_the_alias_back(study):
    newer = in_home(study, "select={inner_folds: 2, subject_to: {gdp: 1.0}}")
    record_trials(newer)
    record_champion(newer)
    record_trials(study, afterwards=True)
    record_champion(study, ran=LONG_AGO)
    client = client_of(study)
    assert len(client.search_model_versions("name = 'quick'")) == 2
    held = client.get_model_version_by_alias("quick", "champion")
    assert held.tags["fkd.trial"] == select_champion(newer).trial.key


def test_an_unfinished_run_gets_no_champion_from_sync(study, capsys):
    outage(open_study(load_config("default", [*QUICK, "seed=3"]), study.settings))
    sync_all()
    said = capsys.readouterr().out
    assert "quick: 0 new trial runs (the run is not finished" in said
    client = client_of(study)
    assert client.search_registered_models() == []


def test_models_go_to_the_registry_that_is_named(study, tmp_path, tmp_path_factory):
    apart = warm_mlflow(tmp_path / "apart", tmp_path_factory.getbasetemp())
    settings = replace(study.settings, mlflow_registry_uri=f"sqlite:///{apart}")
    there = replace(study, settings=settings)
    record_trials(there)
    assert record_champion(there) == "models:/quick@champion"
    assert client_of(study).search_registered_models() == []
    (found,) = MlflowClient(f"sqlite:///{apart}").search_registered_models()
    assert found.name == "quick"
    champion = select_champion(there)
    predicted = load_model(settings, "models:/quick@champion").predict(champion.example)
    assert np.array_equal(predicted, champion.bundle.predict(champion.example))


def test_names_of_columns_become_names_of_metrics():
    assert metric_name("gdp.Größe (m²)") == "gdp.Größe _m²_"


def test_two_different_runs_of_one_name_keep_both_reports(quick_study, tmp_path_factory):
    study = quick_study
    warm_mlflow(study.settings.mlflow, tmp_path_factory.getbasetemp())
    select = study.config.select.model_copy(update={"subject_to": {"gdp": 1.0}})
    other = open_study(study.config.model_copy(update={"select": select}), study.settings)

    def written(one):
        record_trials(one)
        return {**contents(write_report(one).parent)}

    first = written(study)
    assert {"report.html", "model_card.md", "config.yaml"} <= first.keys()
    second = written(other)
    assert second["report.html"] != first["report.html"]
    earlier = study.folder / "earlier" / identity_of(study)[:12]
    assert contents(earlier) == first
    record_files(other)
    run = client_of(other).list_artifacts(recorded(other).run_id)
    assert "earlier" not in {file.path for file in run}
    # A repeat rewrites in place; the other run, repeated, has its files back.
    assert written(other) == second
    assert contents(earlier) == first
    assert written(study) == first
    assert not earlier.exists()
    assert contents(study.folder / "earlier" / identity_of(other)[:12]) == second


def contents(folder):
    """The files that people read, by name."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and p.suffix != ".json"}


def test_a_moved_report_is_found_as_the_run_that_wrote_it(quick_study, tmp_path_factory):
    study = quick_study
    warm_mlflow(study.settings.mlflow, tmp_path_factory.getbasetemp())
    select = study.config.select.model_copy(update={"subject_to": {"gdp": 1.0}})
    other = open_study(study.config.model_copy(update={"select": select}), study.settings)
    for one in (study, other):
        record_trials(one)
        write_report(one)
    for one, folder in ((other, study.folder), (study, next(study.folder.glob("earlier/*")))):
        found = find_study(study.settings, str(folder / "report.html"))
        assert identity_of(found) == identity_of(one)


def test_a_report_without_an_owner_is_kept_as_well(quick_study):
    study = quick_study
    study.folder.mkdir(parents=True)
    (study.folder / "report.html").write_text("of an old version")
    write_report(study)
    (kept,) = study.folder.glob("earlier/*/report.html")
    assert kept.read_text() == "of an old version"

"""`fkd reproduce` as users meet it: quick runs, missing data, wrong words."""

import csv

import pytest
from server_process import left_after
from sweep_process import fkd, warm_home

import flows.reproduce
import tasks.reproduce.result
from configs.cluster import ClusterConfig
from configs.errors import UserError
from configs.reproduction import quick, read_experiment, without
from flows.reproduce import load
from flows.run import reproduce_paper
from tasks.reproduce.result import ExperimentResult, record_studies
from tasks.select.study import study_opener
from tasks.track.client import TrackingUnreachableError

pytestmark = pytest.mark.stack


@pytest.fixture
def home(tmp_path, tmp_path_factory):
    return warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())


@pytest.mark.timeout(600)
def test_a_quick_reproduction_is_judged_recorded_and_resumed(home):
    code, said = fkd(home, "reproduce", "E2", "--quick")
    assert code == 0, said
    folder = home / "experiments" / "paper-quick"
    assert "multi" in (folder / "E2" / "results.csv").read_text()
    with (folder / "E2" / "claims.csv").open() as file:
        claims = list(csv.DictReader(file))
    assert len(claims) == len(read_experiment("E2")["claims"])
    assert {claim["verdict"] for claim in claims} <= {"holds", "fails", "unclear"}
    assert "A quick run" in (folder / "report.html").read_text()
    assert str(folder / "report.html") in said
    code, said = fkd(home, "reproduce", "E2", "--quick")
    assert code == 0, said
    assert "nothing to compute" in said
    assert "resampled rows" not in said
    assert "MLflow: 0 new trial runs" in said
    assert left_after(home, 30) == []


@pytest.mark.timeout(600)
def test_another_reading_has_a_page_of_its_own(home):
    published = home / "experiments" / "paper-quick"
    published.mkdir(parents=True)
    (published / "report.html").write_text("as it was")
    code, said = fkd(home, "reproduce", "E2", "E4", "--quick", "--set", "data.missing=drop")
    assert (code, "the same already" in said) == (2, True), said
    code, said = fkd(home, "reproduce", "E2", "--quick", "--set", "data.drop=[]")
    assert code == 0, said
    assert "Data keys unlike the published ones: data.drop=[]." in " ".join(said.split())
    assert (published / "report.html").read_text() == "as it was"
    page = home / "experiments" / "paper-quick-drop-none" / "report.html"
    assert "Read otherwise than published: <code>data.drop=[]</code>" in page.read_text()
    assert "data.drop=[]" in page.with_name("summary.md").read_text()
    assert left_after(home, 30) == []


def _no_census(monkeypatch):
    """Let census files be out of reach."""

    def opener(settings):
        real = study_opener(settings)

        def opened(config):
            if config.data.source == "census":
                raise UserError("psam.zip could not be fetched; `fkd data fetch`")
            return real(config)

        return opened

    monkeypatch.setattr(flows.reproduce, "study_opener", opener)


def test_what_can_run_does_where_files_are_missing(settings, monkeypatch):
    _no_census(monkeypatch)
    tree = read_experiment("E8")
    tree["runs"]["crimes"]["data"]["source"] = "embedded"
    opened = load.fn(tree, ClusterConfig())
    assert list(opened.studies) == ["crimes"]
    assert opened.absent == {"acs_income": "psam.zip could not be fetched; `fkd data fetch`"}


def test_a_quick_run_takes_synthetic_rows_where_files_are_missing(settings, monkeypatch):
    _no_census(monkeypatch)
    opened = load.fn(quick(read_experiment("E4")), ClusterConfig())
    assert opened.absent == {}
    (study,) = opened.all_studies()
    assert study.loaded.provenance["synthetic"]


def test_variants_must_have_the_same_rows(settings):
    tree = read_experiment("E2")
    tree["runs"]["crimes"]["data"]["source"] = "embedded"
    tree["runs"]["crimes"]["variants"]["multi"]["sample"] = 100
    opened = load.fn(tree, ClusterConfig())
    assert "same rows" in opened.absent["crimes"]


def test_a_run_is_opened_once_per_seed_on_the_same_rows(settings):
    tree = read_experiment("E2")
    run = tree["runs"]["crimes"]
    run |= {"data": {**run["data"], "source": "embedded"}, "seeds": [0, 5]}
    run["curves"]["multi"]["seeds"] = [0]
    opened = load.fn(tree, ClusterConfig())
    studies = opened.studies["crimes"]
    assert {seed: list(found) for seed, found in studies.items()} == {
        0: ["plain", "multi"],
        5: ["plain"],
    }
    assert [study.config.seed for study in opened.all_studies()] == [0, 0, 5]
    assert len({study.config.name for study in opened.all_studies()}) == 3
    assert studies[0]["plain"].loaded.digest == studies[5]["plain"].loaded.digest


def test_what_stops_one_experiment_does_not_stop_the_next(settings, monkeypatch):
    def one(tree, cluster):
        if tree["name"] == "E2":
            raise UserError("it needs more memory than there is")
        return ExperimentResult(
            **dict.fromkeys(ExperimentResult.__annotations__, ""),
        ), ["E3: 2 fits failed"]

    monkeypatch.setattr(flows.reproduce, "_one", one)
    monkeypatch.setattr(flows.reproduce, "write_page", lambda results, folder: folder)
    found = flows.reproduce._judge([{"name": "E2"}, {"name": "E3"}], ClusterConfig())
    assert len(found.results) == 1
    assert found.problems == ("E2: it needs more memory than there is", "E3: 2 fits failed")


def test_every_study_is_tried_though_mlflow_is_down(quick_study, monkeypatch):
    tried = []

    def down(study):
        tried.append(study)
        raise TrackingUnreachableError("http://x", "refused")

    monkeypatch.setattr(tasks.reproduce.result, "record_trials", down)
    added, problems = record_studies([quick_study, quick_study])
    assert (added, len(tried), len(problems)) == (0, 2, 2)
    assert (quick_study.folder / "results.csv").exists()


@pytest.mark.parametrize(
    ("names", "leave_out", "overrides", "words"),
    [
        (["E77"], [], [], "E77"),
        (["E1"], ["neurl"], [], "neurl.*neural"),
        (["E1"], [], ["seed=3"], "keys of cluster, or of data.*got seed"),
        (["E1"], [], ["data.sample=3"], "must be one of drop, missing.*sample"),
        (["E4"], [], ["data.missing=zero"], "E4 has no run that data.missing=zero"),
        (["E4"], [], ["data=3"], r"such as data.drop=\[\], got 3"),
        (["E1"], [], ["cluster.worker=3"], "workers"),
    ],
)
def test_wrong_words_are_refused_before_any_work(names, leave_out, overrides, words, settings):
    with pytest.raises(UserError, match=words):
        reproduce_paper(*names, without=leave_out, overrides=overrides, quick=True)
    assert not settings.home.exists()


def test_a_method_without_its_package_is_left_out_by_name():
    tree = without(read_experiment("E6"), lambda m: "needs torch" if m.extra else None)
    assert tree["left_out"]["NN-FREM"] == "needs torch"
    assert "NN-FREM" not in tree["runs"]["crimes"]["curves"]

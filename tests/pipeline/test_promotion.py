"""The gate comes before promotion: what the registry says, what a served model predicts."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from mlflow.tracking import MlflowClient
from pipeline_fixtures import QUICK
from tracking_server import warm_mlflow

from configs.errors import UserError
from configs.load import load_config
from flows.model_commands import promote_model
from tasks.report.model import report_data
from tasks.report.page import render, write_report
from tasks.select.champion import select_champion
from tasks.select.study import open_study
from tasks.storage.settings import Settings
from tasks.track.client import tracking_uri
from tasks.track.recording import record_champion, record_trials
from tasks.track.registry import load_model

MODEL = "quick"


@pytest.fixture
def study(quick_study, tmp_path_factory):
    warm_mlflow(quick_study.settings.mlflow, tmp_path_factory.getbasetemp())
    return quick_study


def registered(study):
    """Return under which address a study's model is registered, once its trials are recorded."""
    record_trials(study)
    return record_champion(study)


def under(study, *, gate=None, most=0.04):
    """Return the study under a gate; another limit of the selection selects another model."""
    select = study.config.select.model_copy(update={"subject_to": {"gdp": most}})
    config = study.config.model_copy(update={"gate": gate or {}, "select": select})
    return replace(study, config=config)


def aliases(study):
    client = MlflowClient(tracking_uri(study.settings), tracking_uri(study.settings))
    found = client.search_registered_models(f"name = '{MODEL}'")
    return {alias: int(version) for alias, version in found[0].aliases.items()} if found else {}


def described(study, version):
    client = MlflowClient(tracking_uri(study.settings), tracking_uri(study.settings))
    return client.get_model_version(MODEL, str(version))


def verdict(study, version):
    return described(study, version).tags["fkd.verdict"]


def served(study, example):
    """Return what the registered champion predicts."""
    return np.asarray(
        load_model(study.settings, f"models:/{MODEL}@champion").predict(example)
    ).ravel()


REFUSING = {"gdp": 1e-6}


def test_a_refused_model_leaves_the_champion_where_it_was(study):
    fair, accurate = under(study, most=0.04), under(study, most=1.0, gate=REFUSING)
    example = select_champion(fair).example
    expected = select_champion(fair).bundle.predict(example)
    assert not np.allclose(select_champion(accurate).bundle.predict(example), expected)
    assert registered(fair) == f"models:/{MODEL}@champion"
    assert registered(accurate) == f"models:/{MODEL}@candidate"
    assert aliases(study) == {"champion": 1, "candidate": 2}
    assert verdict(study, 1) == "no gate"
    assert verdict(study, 2).startswith("refused: gdp on racepctblack is 0.0")
    np.testing.assert_allclose(served(study, example), expected)


def test_without_an_earlier_champion_the_alias_stays_unset(study):
    registered(under(study, gate=REFUSING))
    assert aliases(study) == {"candidate": 1}


def test_a_model_that_passes_is_promoted(study):
    assert registered(under(study, gate={"gdp": 1.0})) == f"models:/{MODEL}@champion"
    assert aliases(study) == {"champion": 1}
    assert verdict(study, 1) == "passed"


def test_a_looser_gate_promotes_the_candidate_without_a_second_version(study):
    registered(under(study, gate=REFUSING))
    registered(under(study, gate={"gdp": 1.0}))
    assert aliases(study) == {"candidate": 1, "champion": 1}
    assert verdict(study, 1) == "passed"


def test_a_person_may_promote_what_was_refused(study):
    fair, accurate = under(study, most=0.04), under(study, most=1.0, gate=REFUSING)
    registered(fair)
    registered(accurate)
    promote_model(MODEL, version=2, who="pay  board", why="the limit was meant  for another unit")
    assert aliases(study)["champion"] == 2
    tags = described(study, 2).tags
    assert tags["fkd.promoted_why"] == "the limit was meant for another unit"
    assert tags["fkd.promoted_by"] == "pay board"
    assert tags["fkd.promoted_at"].endswith("+00:00")
    example = select_champion(accurate).example
    expected = select_champion(accurate).bundle.predict(example)
    np.testing.assert_allclose(served(study, example), expected)


def test_a_promotion_is_in_description_report_and_card(study):
    refused = under(study, gate=REFUSING)
    registered(refused)
    page, card = write_report(refused), study.folder / "model_card.md"
    assert "Promoted" not in page.read_text() + card.read_text()
    note = described(study, 1).description
    for who in ("pay board", "works council"):
        promote_model(MODEL, version=1, who=who, why="agreed in May")
        write_report(refused)
        for text in (described(study, 1).description, page.read_text(), card.read_text()):
            assert text.count(f"Promoted to champion by {who} on 2") == 1
            assert "agreed in May" in text
    assert described(study, 1).description.startswith(note)
    registered(refused)  # the same command again, which writes the description anew
    assert "works council" in described(study, 1).description


@pytest.mark.parametrize(
    ("gate", "address", "said"),
    [
        (REFUSING, "quick@candidate", "Verdict of the gate: refused: gdp on racepctblack"),
        ({"gdp": 1.0}, "quick@champion", "Verdict of the gate: passed."),
        ({}, "quick@champion", "quick@champion</code>.</p>"),
    ],
)
def test_the_report_says_what_the_gate_said(study, tmp_path, gate, address, said):
    page = render(report_data(under(study, gate=gate)), tmp_path)[0].read_text()
    assert f"Registered as <code>models:/{address}</code>" in page
    assert said in page


@pytest.fixture(scope="module")
def registered_home(tmp_path_factory, computed_home):
    """A home in which the quick model is registered."""
    home = tmp_path_factory.mktemp("registered") / "home"
    shutil.copytree(computed_home, home)
    warm_mlflow(home / "mlflow", tmp_path_factory.getbasetemp())
    registered(open_study(load_config("default", QUICK), Settings(home)))
    return home


@pytest.fixture
def registered_once(settings, registered_home, monkeypatch):
    monkeypatch.setenv("FKD_HOME", str(registered_home))


@pytest.mark.parametrize(
    ("model", "version", "who", "why", "named"),
    [
        ("quick", 7, "ann", "because", "version 7"),
        ("quikc", 1, "ann", "because", "'quikc'"),
        ("quick", 1, "ann", "  ", "--why"),
        ("quick", 1, "", "because", "--who"),
    ],
)
def test_what_cannot_be_promoted_is_refused(registered_once, model, version, who, why, named):
    with pytest.raises(UserError, match=named):
        promote_model(model, version=version, who=who, why=why)

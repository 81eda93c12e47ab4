"""Few rows, or s = y: what cannot be measured is reported as such, and fails nothing."""

import pandas as pd
import pytest
from selection_sample import computed

from flows.outcome import Outcome, result_markdown
from tasks.report.model import report_data
from tasks.report.narrative import finding_of
from tasks.report.tables import trial_table
from tasks.select.champion import NoChampionError, select_champion
from tasks.select.checks import GATE, RECOVERABLE, CheckOutcome, check_study
from tasks.select.judgement import broken_limits, verdict
from tasks.select.limit_moves import limit_moves
from tasks.select.results import write_results
from tasks.track.recording import held_out_metrics, trial_run

FKS = {"name": "krr_fks", "grid": {"penalty": [0, 20]}}


def outcome_of(study, check):
    return next(result for result in check_study(study) if result.check is check)


def test_few_held_out_rows_are_not_probed_and_the_check_says_so(tmp_path, settings):
    study = computed(tmp_path, settings, methods=[FKS], n=60, folds={"k": 5})
    assert select_champion(study).judgement.recovered == ()
    found = outcome_of(study, RECOVERABLE)
    assert found.outcome is CheckOutcome.SKIPPED
    assert "20" in found.message
    assert "12" in found.message


def test_a_champion_needs_enough_held_out_rows(tmp_path, settings):
    study = computed(tmp_path, settings, methods=["dummy", FKS], n=25, folds={"k": 5})
    with pytest.raises(NoChampionError, match="folds"):
        select_champion(study)
    assert len(report_data(study).trials) == 3


@pytest.fixture
def copied(tmp_path, settings):
    """A study in which s is the target."""
    return computed(tmp_path, settings, methods=["dummy", FKS], copies_target=True)


def test_an_undefined_measure_fails_no_fit(copied, tmp_path):
    assert copied.failures() == {}
    write_results(copied.results(), copied.config.data, tmp_path)
    written = pd.read_csv(tmp_path / "results.csv")
    assert written.loc[written["method"] == "krr_fks", "pf"].isna().all()
    assert (written.loc[written["method"] == "dummy", "pf"] == 0).all()
    assert written[["mae", "hgr", "gdp"]].notna().all(axis=None)


def test_report_and_tracking_name_an_undefined_measure(copied):
    report = report_data(copied)
    cells = {
        row.cells[0].text: [cell.text for cell in row.cells] for row in trial_table(report).rows
    }
    assert "undefined" in cells["KRR-FKS"]
    assert "PF on s is undefined" in " ".join(finding_of(report).sentences)
    result = next(r for r in copied.results() if r.trial.method == "krr_fks")
    run = trial_run(copied, result, "name", {})
    assert not [name for name in run.details.metrics if "pf" in name]
    assert run.tags["fkd.undefined"] == "pf"
    assert "Undefined: pf" in run.details.note
    assert not [name for name in held_out_metrics(select_champion(copied)) if "pf" in name]
    assert set(limit_moves(copied).steps) == {"hgr", "gdp"}


def test_terminal_and_run_page_name_an_undefined_measure(copied, capsys):
    outcome = Outcome.of(copied, "report.html", ())
    outcome.show()
    for text in (capsys.readouterr().out, result_markdown(outcome)):
        assert text.count("undefined") >= 2  # in the rows of both strengths
        assert "nan" not in text


def test_a_gate_on_an_undefined_measure_refuses_to_promote(tmp_path, settings):
    study = computed(
        tmp_path, settings, methods=["dummy", FKS], copies_target=True, gate={"pf": 0.5}
    )
    judgement = select_champion(study).judgement
    (sentence,) = broken_limits(judgement, study.config.gate)
    assert "pf on s is undefined" in sentence
    assert verdict(judgement, study.config.gate).startswith("refused")
    assert outcome_of(study, GATE).outcome is CheckOutcome.ISSUE
    assert "PF on s" in " ".join(finding_of(report_data(study, curves=False)).broken)


@pytest.mark.parametrize("select", [{"knee_of": "pf"}, {"subject_to": {"pf": 0.5}}])
def test_an_undefined_measure_selects_nothing(tmp_path, settings, select):
    study = computed(tmp_path, settings, methods=["dummy", FKS], copies_target=True, select=select)
    with pytest.raises(NoChampionError, match="pf"):
        select_champion(study)
    assert "pf" in report_data(study).no_champion

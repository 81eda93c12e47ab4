import json
import sys
from dataclasses import replace

import pytest

from configs.errors import UserError
from configs.hooks import HookConfig, HooksConfig
from flows.outcome import Cell, Outcome, SweepFailedError, end_runs
from tasks.select.champion import select_champion
from tasks.select.judgement import GateError, broken_limits


@pytest.fixture
def gated(quick_study):
    """The outcome of the quick study under a gate, with the configuration."""

    def outcome(gate, hooks=None, notices=()):
        changes = {"gate": gate, "hooks": hooks or HooksConfig()}
        config = quick_study.config.model_copy(update=changes)
        return config, Outcome.of(replace(quick_study, config=config), "report.html", notices)

    return outcome


def test_a_limit_is_broken_only_above_it(quick_study):
    judgement = select_champion(quick_study).judgement
    ((column, measures),) = judgement.held_out.measures.items()
    found = measures["gdp"][0]
    assert broken_limits(judgement, {"gdp": found}) == []
    (sentence,) = broken_limits(judgement, {"gdp": found * 0.99, "hgr": 1.0})
    assert sentence.startswith(f"gdp on {column} is {found:.4f}, above the limit")


def test_a_champion_within_its_limits_is_no_problem(gated):
    config, outcome = gated({"gdp": 1.0})
    assert outcome.problem() is None
    assert outcome.message()["state"] == "success"
    end_runs([Cell(config, outcome)])


def test_a_broken_gate_ends_the_run_with_exit_code_3(gated):
    config, outcome = gated({"gdp": 1e-6}, notices=("MLflow was away.",))
    with pytest.raises(GateError, match=r"breaks the gate: gdp on .* MLflow was away") as caught:
        end_runs([Cell(config, outcome)])
    assert caught.value.exit_code == 3
    assert issubclass(GateError, UserError)


def test_a_broken_gate_calls_the_hook_of_failure(gated, tmp_path):
    out = tmp_path / "heard.json"
    script = f"import pathlib, sys; pathlib.Path({str(out)!r}).write_text(sys.stdin.read())"
    hook = HookConfig(command=(sys.executable, "-c", script))
    config, outcome = gated({"gdp": 1e-6}, HooksConfig(on_failure=hook))
    with pytest.raises(GateError):
        end_runs([Cell(config, outcome)])
    heard = json.loads(out.read_text())
    assert heard["state"] == "failure"
    assert "breaks the gate" in heard["problem"]


def test_a_sweep_ends_with_one_error_for_all_its_failed_runs(gated):
    away = gated({}, notices=("MLflow was away.",))
    runs = [Cell(*gated({})), Cell(*away), Cell(*gated({"gdp": 1e-6}))]
    with pytest.raises(SweepFailedError, match=r"2 of 3 .*was away.*Also") as caught:
        end_runs(runs)
    assert caught.value.exit_code == 3

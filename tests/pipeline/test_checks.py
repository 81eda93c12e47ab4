import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ks_2samp
from stored_files import stored

from fkd.problems.table import Table
from flows.cli import main
from flows.outcome import Outcome
from tasks.report.model import report_data
from tasks.report.page import to_html
from tasks.select import checks as module
from tasks.select.champion import select_champion
from tasks.select.checks import (
    CHECKS,
    CheckOutcome,
    check_collapse,
    check_drift,
    check_floor,
    check_gate,
    check_kept,
    check_recoverable,
    check_rows,
    check_study,
    column_distances,
    row_facts,
    strongest_proxies,
)
from tasks.select.judgement import Judgement, Recovered, ScoreIntervals
from tasks.select.study import open_study

ROOT = Path(__file__).parents[2]


def judgement(hgr=0.2, gdp=0.02, recovered=()):
    scores = ScoreIntervals(
        (0.1, 0.09, 0.11), {"age": {"hgr": (hgr, hgr, hgr), "gdp": (gdp, gdp, gdp)}}
    )
    return Judgement(scores, None, None, {"age": {"hgr": (0.1, 0.14)}}, 800, 200, recovered)


def has_issue(results):
    return any(result.outcome is CheckOutcome.ISSUE for result in results)


def outcomes(results):
    return {result.check.code: str(result.outcome) for result in results}


def test_every_check_has_its_place_in_the_documentation():
    page = (ROOT / "docs" / "reference" / "checks.md").read_text()
    told = re.findall(r'<a id="(\w+)"></a>\n## (\w+): (.+)', page)
    assert [(anchor.upper(), code, title) for anchor, code, title in told] == [
        (check.code, check.code, check.title) for check in CHECKS
    ]
    folder = "docs/reference/checks.md"
    assert all(check.address == f"{folder}#{check.code.lower()}" for check in CHECKS)


@pytest.mark.parametrize(
    ("rows", "outcome"), [(29, "issue"), (30, "tip"), (199, "tip"), (200, "passed")]
)
def test_few_rows_are_told(rows, outcome):
    assert check_rows(rows).outcome == outcome


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        (({}, {}), "not applicable"),
        (({"gdp": 0.0}, {}), "not applicable"),
        (({"hgr": 0.09}, {}), "issue"),
        (({}, {"hgr": 0.09}), "issue"),
        (({"hgr": 0.5}, {"hgr": 0.12}), "tip"),
        (({"hgr": 0.15}, {}), "passed"),
    ],
)
def test_a_limit_is_held_against_the_noise_floor(limits, outcome):
    assert check_floor(judgement(), limits).outcome == outcome


@pytest.mark.parametrize(
    ("after", "outcome"), [(-0.2, "passed"), (0.1, "tip"), (0.5, "issue"), (0.9, "issue")]
)
def test_what_probes_recover_is_told_by_the_worst(after, outcome):
    rows = (Recovered("age", "trees", 0.9, after), Recovered("age", "ridge", 0.9, -0.5))
    found = check_recoverable(judgement(recovered=rows))
    assert found.outcome == outcome
    assert "trees" in found.message


def test_a_method_without_features_is_skipped_with_why():
    found = check_recoverable(judgement())
    assert found.outcome is CheckOutcome.SKIPPED
    assert "no features" in found.message


@pytest.mark.parametrize("check", [check_gate, check_kept])
def test_a_limit_is_broken_only_above_it(check):
    assert check(judgement(gdp=0.02), {"gdp": 0.02}).outcome is CheckOutcome.PASSED
    found = check(judgement(gdp=0.021), {"gdp": 0.02})
    assert found.outcome is CheckOutcome.ISSUE
    assert "gdp on age is 0.0210, above the limit 0.02" in found.message
    assert check(judgement(), {}).outcome is CheckOutcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("share", "outcome"), [(0.0, "issue"), (0.05, "issue"), (0.2, "tip"), (0.8, "passed")]
)
def test_a_model_that_shrinks_to_a_constant_is_told(share, outcome):
    y = np.random.default_rng(0).normal(size=5000)
    assert check_collapse(y, share * y, 0.0).outcome == outcome


def test_a_model_worse_than_a_constant_is_an_issue():
    y = np.random.default_rng(0).normal(size=500)
    assert check_collapse(y, -y, 0.0).outcome is CheckOutcome.ISSUE


def test_drift_is_told_of_the_column_that_moved_and_not_invented():
    rng = np.random.default_rng(0)
    before = {"wage": rng.normal(size=2000), "age": rng.normal(size=2000)}
    after = {"wage": rng.normal(size=500), "age": rng.normal(loc=0.5, size=500)}
    found = check_drift(column_distances(before, after))
    assert found.outcome is CheckOutcome.ISSUE
    assert found.message.startswith("age differs most")
    draws = ({name: rng.normal(size=300) for name in before} for _ in range(40))
    invented = sum(has_issue([check_drift(column_distances(before, after))]) for after in draws)
    assert invented <= 2


def test_a_study_has_one_list_in_the_order_of_the_codes(quick_study):
    results = check_study(quick_study)
    assert [result.check for result in results] == list(CHECKS)
    assert outcomes(results)["G1"] == "not applicable"
    assert outcomes(results)["L2"] in ("passed", "issue")


def test_without_a_champion_its_checks_are_skipped_with_why(quick_study):
    policy = quick_study.config.select.model_copy(update={"subject_to": {"gdp": 0.0, "hgr": 0.0}})
    config = quick_study.config.model_copy(
        update={"select": policy, "methods": quick_study.config.methods[1:]}
    )
    trials = tuple(trial for trial in quick_study.trials if trial.method != "dummy")
    results = check_study(replace(quick_study, config=config, trials=trials))
    by_code = {result.check.code: result for result in results}
    assert by_code["G1"].outcome is CheckOutcome.SKIPPED
    assert "cannot be met" in by_code["G1"].message
    assert by_code["D2"].outcome is CheckOutcome.PASSED


def test_report_terminal_and_outcome_have_the_same_list(quick_study, capsys):
    config = quick_study.config.model_copy(update={"gate": {"gdp": 1e-6}})
    study = replace(quick_study, config=config)
    results = check_study(study)
    report = report_data(study)
    assert report.checks == results
    page = to_html(report)
    for result in results:
        assert f'<span class="outcome">{result.outcome}</span>' in page
        assert result.check.address in page
    outcome = Outcome.of(study, "report.html", ())
    assert outcome.checks == results
    assert outcome.broken  # what the gate refuses is refused as before
    outcome.show()
    assert "G1 The gate: issue." in " ".join(capsys.readouterr().out.split())


def test_the_command_ends_by_what_was_found(quick_study, capsys, monkeypatch):
    monkeypatch.setattr("configs.load.load_config", lambda *_: quick_study.config)
    expected = 3 if has_issue(check_study(quick_study)) else 0
    with pytest.raises(SystemExit) as end:
        main(["report", "quick", "--check"])
    assert end.value.code == expected
    shown = capsys.readouterr().out
    assert all(result.check.title in shown for result in check_study(quick_study))


def test_a_run_that_is_not_finished_has_no_checks(settings, quick_config, monkeypatch, capsys):
    monkeypatch.setattr("configs.load.load_config", lambda *_: quick_config)
    with pytest.raises(SystemExit) as end:
        main(["report", "quick", "--check"])
    assert end.value.code == 2
    assert "is not finished" in capsys.readouterr().err


def test_mlflow_has_one_tag_per_check(quick_study):
    from tasks.track.recording import record_champion, record_trials

    record_trials(quick_study)
    record_champion(quick_study)
    tags = {f"fkd.check.{r.check.code}": str(r.outcome) for r in check_study(quick_study)}
    from tasks.track.run_index import identity_of
    from tasks.track.runs import Tracking

    tracking = Tracking(quick_study.settings, quick_study.config.experiment)
    run = tracking.client.get_run(tracking.find_parent(identity_of(quick_study)))
    assert tags.items() <= run.data.tags.items()
    (version,) = tracking.client.search_model_versions("name = 'quick'")
    assert tags.items() <= version.tags.items()
    assert select_champion(quick_study).trial.key


@pytest.fixture
def study(quick_study):
    """Another of the same, which has looked for nothing yet."""
    return open_study(quick_study.config, quick_study.settings)


def test_facts_are_of_the_rows_before_and_of_those_held_out(study):
    table, found = study.loaded.table, row_facts(study)
    fold = study.inputs.splits.held_out_fold(table)
    assert found.median == np.median(table.target[fold.train])
    assert set(found.distances) == {table.target_name, *table.sensitive_names}
    peer = ks_2samp(table.target[fold.train], table.target[fold.test])
    distance = found.distances[table.target_name]
    assert (distance.statistic, distance.chance) == (peer.statistic, peer.pvalue)
    assert set(found.proxies) == {*study.inputs.sensitive, *study.inputs.measure_on}
    for column, proxies in found.proxies.items():
        assert proxies == tuple(strongest_proxies(table, column))


def test_facts_are_looked_for_once_even_by_another_process(study, monkeypatch):
    first = row_facts(study)
    with monkeypatch.context() as patched:
        patched.setattr(module, "strongest_proxies", None)
        assert row_facts(open_study(study.config, study.settings)) == first
    (kept,) = stored(study.settings, "rows").glob("*.json")
    kept.write_bytes(b"damaged")
    assert row_facts(open_study(study.config, study.settings)) == first


def test_other_rows_held_out_are_other_facts(study):
    other = study.config.model_copy(update={"seed": study.config.seed + 1})
    assert row_facts(open_study(other, study.settings)).distances != row_facts(study).distances


def test_a_row_that_was_spoilt_since_is_named(study):
    study.loaded.table.target[3] = np.nan
    with pytest.raises(ValueError, match=study.loaded.table.target_name):
        row_facts(study)


@pytest.fixture
def table(rng):
    n = 400
    s = rng.uniform(20, 70, n)
    codes = np.column_stack([(s // 10).astype(int) % 7, rng.integers(0, 3, n)])
    numeric = np.column_stack([-s + 5 * rng.normal(size=n), rng.normal(size=n), np.ones(n), s])
    return Table(
        numeric_names=("years left", "luck", "one", "age"),
        numeric=numeric,
        categorical_names=("decade", "colour"),
        codes=codes.astype(np.int32),
        levels=(tuple("0123456"), tuple("abc")),
        target_name="y",
        target=rng.normal(size=n),
        sensitive_names=("age",),
        sensitive=s[:, None],
        target_range=(-4.0, 4.0),
        sensitive_range=np.array([[20.0, 70.0]]),
    )


def test_the_closest_come_first_and_the_column_itself_is_left_out(table):
    found = strongest_proxies(table, "age")
    assert [proxy.name for proxy in found] == ["decade", "years left"]
    s, x = table.sensitive[:, 0], table.numeric[:, 0]
    assert_allclose(found[1].correlation, -np.corrcoef(x, s)[0, 1])
    means = np.array([s[table.codes[:, 0] == code].mean() for code in table.codes[:, 0]])
    assert_allclose(found[0].correlation, np.corrcoef(means, s)[0, 1])


def test_no_more_than_asked_for_are_named(table):
    assert len(strongest_proxies(table, "age", most=1)) == 1
    assert len(strongest_proxies(table, "age", above=0.0, most=9)) == 4  # a constant is none


def test_the_closest_is_named_however_far_it_is(table):
    (found,) = strongest_proxies(table, "age", above=0.999)
    assert found.name == "decade"


def test_a_gap_hides_no_proxy(table):
    table.numeric[:40, 0] = np.nan
    found = {proxy.name: proxy.correlation for proxy in strongest_proxies(table, "age")}
    s, x = table.sensitive[40:, 0], table.numeric[40:, 0]
    assert_allclose(found["years left"], -np.corrcoef(x, s)[0, 1])

"""Claims judged on stored predictions: pairs share their rows, what is missing is said."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import tasks.reproduce.claims
from configs.reproduction import parse_experiment, read_experiment, statements
from configs.run import ClusterConfig
from fkd import measures
from tasks.fit.job import run_job
from tasks.reproduce.claims import verdicts_on
from tasks.reproduce.curves import curves_of, distances, pooled
from tasks.reproduce.page import summary, write_page
from tasks.reproduce.resample import Resampling, _score, resample
from tasks.reproduce.result import make_result, read_results, write_result
from tasks.select.study import open_study

DRAWS = 25


def _claim(says, rule, runs="crimes", **keys):
    return {"says": says, "rule": rule, "runs": runs, **keys}


TREE = {
    "name": "T",
    "title": "Trial of the judge",
    "question": "Does it see what is there?",
    "runs": {
        "crimes": {
            "title": "Crimes",
            "data": {"problem": "crimes", "sample": 240},
            "folds": {"k": 3},
            "variants": {"kept": {"drop": []}},
            "curves": {
                "ours": {"name": "krr_fkd", "grid": {"iterations": [0, 4, 12]}},
                "same": {"name": "krr_fkd", "grid": {"iterations": [0, 4, 12]}},
                "kept": {"name": "krr_fkd", "variant": "kept", "grid": {"iterations": [0, 4]}},
                "flat": {"name": "krr", "alpha": 1e9},
                "Dummy": "dummy",
            },
        },
        "elsewhere": {
            "title": "Elsewhere",
            "data": {"problem": "acs_income"},
            "curves": {"ours": "krr_fkd", "Dummy": "dummy"},
        },
    },
    "claims": [
        _claim("{run}: it learns", "less_error", runs=(), curve="ours", than="Dummy"),
        _claim("it does not", "less_error", curve="Dummy", than="ours"),
        _claim("it is itself", "near", curve="ours", to="same", measure="hgr"),
        _claim("to the bit", "agree", curve="ours", to="same", tolerance=1e-12, up_to=12),
        _claim(
            "kept is same",
            "agree",
            curve="ours",
            to="kept",
            tolerance=1e-12,
            up_to=4,
        ),
        _claim(
            "it trades as well", "not_better", curve="same", than="ours", measure="gdp", margin=0.01
        ),
        _claim("it wins", "better", curve="ours", than="flat", measure="gdp"),
        _claim("it gets fairer", "trend", curve="ours", of="gdp", direction="down"),
        _claim("with a net", "better", curve="net", than="ours", measure="hgr"),
        _claim(
            "too far",
            "change",
            curve="ours",
            of="mae",
            start=0,
            stop=99,
            direction="up",
        ),
    ],
    "left_out": {"net": "no networks here"},
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    from tasks.storage.settings import Settings

    settings = Settings(tmp_path_factory.mktemp("verdicts"), None, None, None)
    experiment = parse_experiment(TREE)
    configs = experiment.run_configs("crimes", ClusterConfig())
    studies = {variant: open_study(config, settings) for variant, config in configs.items()}
    for study in studies.values():
        for job in study.missing():
            run_job(job)
    curves = {"crimes": curves_of(studies, experiment.runs["crimes"])}
    asked = []

    def compute(jobs):
        asked.append(len(jobs))
        for job in jobs:
            resample(job)

    absent = {"elsewhere": "there is no file; fetch it"}
    told = verdicts_on(experiment, curves, absent, compute, DRAWS)
    verdicts_on(experiment, curves, absent, compute, DRAWS)
    return experiment, curves, told, asked, settings


def _of(judged, says):
    (found,) = [v for v in judged[2] if v.says == says]
    return found


def test_what_is_plain_holds_and_its_opposite_fails(judged):
    assert _of(judged, "Crimes: it learns").verdict == "holds"
    assert _of(judged, "it does not").verdict == "fails"
    assert _of(judged, "it gets fairer").verdict == "holds"


def test_an_interval_holds_its_number_and_every_fold_counts(judged):
    found = _of(judged, "Crimes: it learns")
    assert found.low < found.value < found.high < 0
    assert (found.folds_true, found.folds) == (3, 3)


def test_a_curve_is_near_itself_without_any_noise(judged):
    found = _of(judged, "it is itself")
    assert (found.verdict, found.value, found.high) == ("holds", 0.0, 0.0)  # draws are paired


def test_equal_predictions_agree_and_others_do_not(judged):
    assert _of(judged, "to the bit").verdict == "holds"
    assert _of(judged, "kept is same").verdict == "fails"


def test_a_claim_on_two_fronts_has_a_verdict_by_each_error(judged):
    found = _of(judged, "it wins")
    assert found.text == "holds by MAE and RMSE"
    assert found.rmse_low < found.rmse_value < found.rmse_high < 0
    assert found.rmse_value != found.value
    assert found.rmse_folds_true == found.folds == 3
    assert _of(judged, "it gets fairer").rmse_verdict is None
    assert replace(found, rmse_verdict="fails").text == "holds by MAE, fails by RMSE"


def test_a_claim_that_one_error_cannot_judge_keeps_the_verdict_of_the_other(judged, monkeypatch):
    experiment, curves, _, _, _ = judged
    scores = tasks.reproduce.claims.resampled_scores

    def poor(*given):
        rows = scores(*given)
        for row in rows:
            row["Dummy"]["rmse"] = 0 * row["Dummy"]["rmse"]
        return rows

    monkeypatch.setattr("tasks.reproduce.claims.resampled_scores", poor)
    alone = tuple(claim for claim in experiment.claims if claim.says == "it trades as well")
    experiment = experiment.model_copy(update={"claims": alone})
    (found,) = verdicts_on(experiment, curves, {}, lambda jobs: None, DRAWS)
    assert (found.verdict, found.rmse_verdict) == ("holds", "not run")
    assert "less RMSE than the dummy" in found.rmse_reason


def test_a_curve_that_says_the_same_for_everyone_is_named(judged):
    curves = judged[1]["crimes"]
    assert {label for label, curve in curves.items() if curve.constant} == {"flat", "Dummy"}
    assert {label for label, curve in curves.items() if curve.collapsed} == {"flat"}
    assert _of(judged, "it wins").collapsed == "flat"
    assert _of(judged, "Crimes: it learns").collapsed == ""  # the dummy is meant as a constant


def test_one_strength_that_varies_makes_a_curve_no_constant(judged):
    ours, flat = (judged[1]["crimes"][label] for label in ("ours", "flat"))
    assert not replace(flat, results=(*flat.results, ours.results[0])).constant


def test_squared_errors_of_a_fold_are_those_of_its_predictions(judged):
    curve = judged[1]["crimes"]["ours"]
    table, splits = curve.study.loaded.table, curve.study.inputs.splits
    fold = next(iter(splits.outer(table).values()))
    rows = fold.test
    wrong = table.y[rows] - curve.study.store.predictions(curve.results[1].records[0].key)
    found = curve.fold_scores("rmse", None, 0)[1]
    assert found == pytest.approx(np.sqrt(np.mean(wrong**2)), rel=1e-12)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("Elsewhere: it learns", "there is no file; fetch it"),
        ("with a net", "no networks here"),
        ("too far", "ours was not computed at 99"),
    ],
)
def test_what_could_not_be_judged_says_why(judged, says, why):
    found = _of(judged, says)
    assert (found.verdict, found.reason) == ("not run", why)


def test_scores_are_resampled_once(judged):
    first, second = judged[3]
    assert first > 0
    assert second == 0


def test_the_first_value_is_the_score_of_all_pooled_rows(judged):
    curve = judged[1]["crimes"]["ours"]
    study, result = curve.study, curve.results[1]
    keys = tuple(record.key for record in result.records)
    job = Resampling(study.inputs, keys, "racepctblack", "hgr", DRAWS)
    resample(job)
    s = study.loaded.table.S(["racepctblack"])[:, 0]
    assert job.read()[0] == measures.hgr(pooled(curve, 1), s)
    assert len(job.read()) == 1 + DRAWS
    assert np.ptp(job.read()[1:]) > 0


def test_half_a_curve_is_no_evidence_for_a_whole_one(judged):
    experiment, curves, _, _, _ = judged
    ours = curves["crimes"]["ours"]
    half = {**curves["crimes"], "ours": replace(ours, results=ours.results[:1], missing=2)}
    verdicts = verdicts_on(experiment, {"crimes": half}, {}, lambda jobs: None, DRAWS)
    told = {v.says: v for v in verdicts}
    for says in ("it gets fairer", "to the bit", "Crimes: it learns"):
        assert (told[says].verdict, told[says].reason) == ("not run", "2 settings of ours failed")


def test_a_front_without_its_end_is_not_judged(judged):
    experiment, curves, _, _, _ = judged
    assert _of(judged, "it trades as well").verdict == "holds"
    plain = {label: curve for label, curve in curves["crimes"].items() if label != "Dummy"}
    verdicts = verdicts_on(experiment, {"crimes": plain}, {}, lambda jobs: None, DRAWS)
    (found,) = [v for v in verdicts if v.says == "it trades as well"]
    assert (found.verdict, found.reason) == ("not run", "Dummy gave no result")


def test_scores_that_could_not_be_computed_are_named(judged):
    experiment, curves, _, _, _ = judged
    verdicts = verdicts_on(experiment, curves, {}, lambda jobs: None, DRAWS + 1)
    (found,) = [v for v in verdicts if v.says == "it gets fairer"]
    assert found.verdict == "not run"
    assert "resampled rows could not be computed" in found.reason


def test_distances_are_those_of_equal_strengths(judged):
    curves = judged[1]["crimes"]
    assert [m for m, _ in distances(curves["ours"], curves["kept"])] == [0, 4]


def test_the_page_tells_claims_reasons_and_runs_that_are_missing(judged, tmp_path):
    experiment, curves, told, _, _ = judged
    absent = {"elsewhere": "there is no file <here>; fetch it"}
    rows = {"Crimes": "240 rows"}
    story = make_result(experiment, curves, absent, told, rows, draws=DRAWS)
    story = replace(story, name="E2")
    write_result(story, experiment, curves, tmp_path / "E2")
    (again,) = read_results(tmp_path, ["E1", "E2"])
    assert again == story
    (tmp_path / "E1").mkdir()
    (tmp_path / "E1" / "story.json").write_text('{"of": "another version"}')
    assert read_results(tmp_path, ["E1", "E2"]) == [story]
    text = write_page([again], tmp_path).read_text()
    for words in ("it gets fairer", "no networks here", "&lt;here&gt;", "Kendall", 'href="#E2"'):
        assert words in text
    assert "to update this section" in text  # the shipped E2 has other claims
    said = [replace(told[0], says=words) for words in statements(read_experiment("E6"))]
    current = replace(story, name="E6", verdicts=said)
    assert not current.outdated  # known without the packages of E6's networks
    assert replace(current, verdicts=said[1:]).outdated
    assert "http" not in text.replace("http-equiv", "")  # nothing is fetched
    assert (tmp_path / "summary.md").read_text().count("| not run |") == 4  # heading included
    results = pd.read_csv(tmp_path / "E2" / "results.csv")
    assert list(results.columns[:2]) == ["run", "curve"]
    ours = results[results["curve"] == "ours"]
    assert np.all(np.sqrt(ours["mse"]) > ours["mae"])
    assert 'holds by MAE</span> <span class="small">flat is a constant' in text
    assert "holds by RMSE" in text
    assert (tmp_path / "E2" / "crimes.png").stat().st_size > 10_000


def test_a_curve_that_failed_whole_is_named(judged):
    experiment, curves, told, _, _ = judged
    rest = {label: curve for label, curve in curves["crimes"].items() if label != "kept"}
    story = make_result(experiment, {"crimes": rest}, {}, told, {}, draws=DRAWS)
    assert story.incomplete == ["kept on crimes: all settings failed; `fkd status` has the causes."]


def test_the_summary_says_what_proves_nothing(judged):
    experiment, curves, told, _, _ = judged
    rows = {"Crimes": "SYNTHETIC data: 240 rows"}
    story = make_result(experiment, curves, {}, told, rows, draws=DRAWS)
    plain = summary([replace(story, rows={"Crimes": "240 rows"})])
    assert "SYNTHETIC" not in plain
    assert "quick" not in plain
    text = summary([replace(story, quick=True)])
    assert "Crimes: SYNTHETIC data: 240 rows." in text
    assert "A quick run: its verdicts say nothing about the paper." in text


@pytest.mark.parametrize("score", ["hgr", "gdp", "pf", "mae", "mse", "rmse"])
def test_draws_are_those_of_the_measures_own_interval(judged, score):
    curve = judged[1]["crimes"]["ours"]
    keys = tuple(record.key for record in curve.results[2].records)
    job = Resampling(curve.study.inputs, keys, "racepctblack", score, 200)
    resample(job)
    first, *draws = job.read()
    table, f = curve.study.loaded.table, pooled(curve, 2)
    s, rng = table.S(["racepctblack"])[:, 0], np.random.default_rng(20260706)
    if score == "pf":
        found = measures.interval(measures.MEASURES["pf"], table.y, f, s, rng=rng, replicates=200)
    else:
        found = measures.interval(
            partial(_score, score), table.y, f, s, rng=rng, replicates=200, bounds=(0.0, np.inf)
        )
    assert np.quantile(draws, [0.025, 0.975]) == pytest.approx([found.low, found.high], abs=1e-12)
    assert min(draws) >= 0
    assert found.low < first < found.high


def test_no_draw_of_a_score_is_negative(judged, monkeypatch):
    """PF of a prediction that does not depend on s: a shift alone would bring some below 0."""
    curve = judged[1]["crimes"]["ours"]
    keys = tuple(record.key for record in curve.results[0].records)
    rng = np.random.default_rng(3)
    y, s = rng.normal(size=(2, 200))
    rows = (y, y + rng.normal(size=200), s)
    monkeypatch.setattr("tasks.reproduce.resample._pooled_rows", lambda _: rows)
    job = Resampling(curve.study.inputs, keys, "racepctblack", "pf", 101)
    resample(job)
    first, *draws = job.read()
    free = measures.interval(
        measures.pairwise_fairness, *rows, rng=np.random.default_rng(20260706), replicates=101
    )
    assert free.low < 0 < first
    assert min(draws) == 0


def test_a_trend_is_judged_by_its_own_draws_and_never_beyond_one(judged, monkeypatch):
    experiment, curves, _, _, _ = judged
    rows, noisy = [0.30, 0.20, 0.10], [0.30, 0.18, 0.19]
    draws = [rows] * (DRAWS - 5) + [noisy] * 5
    scores = [{"ours": {"gdp": np.array(values)}} for values in [rows, *draws]]
    monkeypatch.setattr("tasks.reproduce.claims.resampled_scores", lambda *_: scores)
    alone = tuple(claim for claim in experiment.claims if claim.says == "it gets fairer")
    experiment = experiment.model_copy(update={"claims": alone})
    (trend,) = verdicts_on(experiment, curves, {}, lambda jobs: None, DRAWS)
    assert (trend.verdict, trend.value, trend.low) == ("holds", -1, -1)
    assert trend.high == pytest.approx(-1 / 3)

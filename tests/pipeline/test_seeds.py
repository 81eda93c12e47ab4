"""One run under several seeds of its folds: what is computed, averaged, agreed upon."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from seeds_sample import DRAWS, compute, jobs_of, judged, opened, tree

from configs.cluster import ClusterConfig
from configs.errors import UserError
from configs.reproduction import parse_experiment, quick
from tasks.reproduce.claims import (
    interval_of,
    resampled_scores,
    rule_of,
    verdicts_on,
    word_over_seeds,
)
from tasks.reproduce.curves import by_seed, seeded_curves
from tasks.reproduce.result import make_result, seeds_of, summary, write_page, write_result
from tasks.storage.settings import Settings


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return Settings(tmp_path_factory.mktemp("seeds"), None, None, None)


@pytest.fixture(scope="module")
def both(settings):
    return judged((0, 7), settings)


@pytest.fixture(scope="module")
def alone(settings):
    return {seed: judged((seed,) if seed else None, settings)[2] for seed in (0, 7)}


def test_without_seeds_there_is_the_experiments_own(settings):
    plain, seeded = parse_experiment(tree()), parse_experiment(tree((0, 7)))
    assert plain.seeds_of("crimes") == (0,)
    before, after = (e.run_configs("crimes", ClusterConfig())["plain"] for e in (plain, seeded))
    assert before == after  # names and keys of what is stored stay
    other = seeded.run_configs("crimes", ClusterConfig(), 7)["plain"]
    assert (before.seed, other.seed) == (0, 7)
    assert (before.name, other.name) == ("paper-T-crimes", "paper-T-crimes-seed-7")
    assert [entry.name for entry in other.methods] == ["krr_fkd"] * 3 + ["dummy"]


def test_every_seed_cuts_other_folds_of_the_same_rows(both):
    first, second = both[1]["crimes"]["ours"].by_seed.values()
    tables = [curve.study.loaded.table for curve in (first, second)]
    assert np.array_equal(tables[0].target, tables[1].target)
    one, other = (
        next(iter(curve.study.inputs.splits.outer(table).values())).test
        for curve, table in zip((first, second), tables, strict=True)
    )
    assert set(one) != set(other)


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        (tree((1, 1)), r"different numbers, got \[1, 1\]"),
        (tree((0, -1)), "at least 0"),
        (tree((0, 1), folds={"k": 3, "reserve": 0.1}), "has to test the same rows"),
        (tree((0, 1), once=(1,)), r"seeds of once.*first among them, got \[1\]"),
        (tree((0, 1), once=(0, 2)), r"seeds of once.*got \[0, 2\]"),
    ],
)
def test_seeds_that_mean_nothing_are_refused(plain, words):
    with pytest.raises(UserError, match=words):
        parse_experiment(plain)


def test_a_curve_cannot_have_seeds_where_the_run_has_none():
    plain = tree()
    plain["runs"]["crimes"]["curves"]["once"] = {"name": "krr", "seeds": [0]}
    with pytest.raises(UserError, match="seeds of once"):
        parse_experiment(plain)


def test_a_quick_run_has_two_seeds_at_most():
    experiment = parse_experiment(quick(tree((0, 1, 2, 3), once=(0, 3))))
    assert experiment.seeds_of("crimes") == (0, 1)
    assert experiment.runs["crimes"].curves["once"].seeds == (0,)
    assert parse_experiment(quick(tree())).runs["crimes"].seeds == ()


def test_one_seed_says_what_was_said_before_seeds(settings, alone):
    found = judged((0,), settings)[2]
    assert found == alone[0]
    assert found["better"].seeds is None
    assert found["better"].seeds_true is None


@pytest.mark.parametrize("says", ["better", "learns"])
@pytest.mark.parametrize("error", ["", "rmse_"])
def test_the_number_is_the_mean_over_seeds_and_its_spread_is_told(both, alone, says, error):
    if says == "learns" and error:
        assert both[2][says].rmse_seeds_true is None
        return
    found = vars(both[2][says])
    values = [vars(told[says])[f"{error}value"] for told in alone.values()]
    assert values[0] != values[1]
    assert found[f"{error}value"] == pytest.approx(np.mean(values), rel=1e-12)
    assert found[f"{error}seeds_low"] == min(values)
    assert found[f"{error}seeds_high"] == max(values)
    assert found[f"{error}seeds_true"] == sum(value < 0 for value in values)
    true = [vars(told[says])[f"{error}folds_true"] for told in alone.values()]
    assert (found[f"{error}folds_true"], found["folds"]) == (sum(true), 6)
    assert found["seeds"] == 2


def test_the_interval_is_that_of_the_mean_draw_by_draw(both):
    experiment, curves, told = both
    claim = experiment.claims[0]
    numbers = []
    for apart in by_seed(curves["crimes"], ("ours", "other", "Dummy")):
        rows = resampled_scores(claim, apart, DRAWS)
        rule = rule_of(claim, apart, rows[0])
        numbers.append([rule.statistic(row) for row in rows])
    first, second = np.array(numbers)
    value, *draws = (first + second) / 2
    found = told["better"]
    assert (found.low, found.high) == pytest.approx(interval_of(rule, value, draws), abs=1e-15)
    # Rows are drawn alike: what is hard under one seed is hard under the other.
    errors = [
        [row["ours"]["mae"][0] for row in resampled_scores(claim, apart, DRAWS)[1:]]
        for apart in by_seed(curves["crimes"], ("ours", "other", "Dummy"))
    ]
    assert np.corrcoef(errors)[0, 1] > 0.8


@pytest.mark.parametrize(
    ("ratios", "word"),
    [
        ((0.5, 0.6), "holds"),
        ((0.5, 1.1), "unclear"),
        ((1.5, 1.4), "fails"),
        ((1.5, 0.9), "unclear"),
    ],
)
def test_seeds_that_disagree_leave_a_claim_unclear(both, monkeypatch, ratios, word):
    """Without any noise of rows the interval is a point, on one side of the claim's border."""
    experiment, curves, _ = both
    left = iter(ratios)

    def scores(*_):
        row = {"ours": {"mae": np.full(3, next(left))}, "Dummy": {"mae": np.ones(1)}}
        return [row] * (1 + DRAWS)

    monkeypatch.setattr("tasks.reproduce.claims.resampled_scores", scores)
    experiment = experiment.model_copy(update={"claims": experiment.claims[1:2]})
    (found,) = verdicts_on(experiment, curves, {}, lambda jobs: None, DRAWS)
    assert (found.verdict, found.seeds_true) == (word, sum(ratio < 1 for ratio in ratios))
    assert found.value == pytest.approx(np.mean(ratios) - 1)


@pytest.mark.parametrize(
    ("word", "true", "found"),
    [
        ("holds", 5, "holds"),
        ("holds", 4, "unclear"),
        ("fails", 0, "fails"),
        ("fails", 1, "unclear"),
        ("unclear", 5, "unclear"),
        ("unclear", 0, "unclear"),
    ],
)
def test_what_one_seed_denies_is_unclear(word, true, found):
    assert word_over_seeds(word, true, 5) == found


def test_a_curve_of_one_seed_is_judged_under_that_one(both, alone):
    assert both[2]["once"] == alone[0]["once"]
    assert both[1]["crimes"]["once"].repeats == ()


def test_predictions_agree_if_they_do_under_every_seed(both):
    assert (both[2]["bits"].verdict, both[2]["bits"].seeds_true) == ("holds", 2)
    assert (both[2]["no bits"].verdict, both[2]["no bits"].seeds_true) == ("fails", 0)
    assert both[2]["no bits"].value == both[2]["no bits"].seeds_high


def test_a_fit_that_failed_under_any_seed_is_missing(both, settings):
    experiment, _, _ = both
    studies = opened(experiment, settings)
    whole = seeded_curves(studies, experiment.runs["crimes"])["ours"]
    assert whole.missing == 0
    short = {7: {"plain": replace(studies[7]["plain"], trials=studies[7]["plain"].trials[1:])}}
    found = seeded_curves({**studies, **short}, experiment.runs["crimes"])
    assert found["ours"].missing == 1
    assert len(found["ours"].merged.results) == 2
    (verdict, *_) = verdicts_on(experiment, {"crimes": found}, {}, compute, DRAWS)
    assert (verdict.verdict, verdict.reason) == ("not run", "1 settings of ours failed")
    none = {7: {"plain": replace(studies[7]["plain"], trials=())}}
    lost = seeded_curves({**studies, **none}, experiment.runs["crimes"])
    assert lost["ours"].missing == 3
    assert lost["once"].missing == 0  # it is not drawn under that seed


def test_another_seed_computes_nothing_of_the_others_again(both, settings):
    assert jobs_of(opened(parse_experiment(tree((0, 7))), settings)) == []
    further = jobs_of(opened(parse_experiment(tree((0, 7, 8))), settings))
    assert {job.inputs.splits.seed for job in further} == {8}


def test_a_repeat_that_varies_makes_a_curve_no_constant(both):
    ours, dummy = (both[1]["crimes"][label] for label in ("ours", "Dummy"))
    assert dummy.constant
    assert not replace(dummy, repeats=ours.repeats).constant


def test_tables_hold_the_folds_of_all_seeds(both, tmp_path):
    experiment, curves, told = both
    story = make_result(experiment, curves, {}, list(told.values()), {}, draws=DRAWS)
    write_result(story, experiment, curves, tmp_path / "T")
    frame = pd.read_csv(tmp_path / "T" / "results.csv")
    ours = frame[(frame["curve"] == "ours") & (frame["strength"] == 4)]
    assert list(zip(ours["seed"], ours["fold"], strict=True)) == [
        (seed, fold) for seed in (0, 7) for fold in range(3)
    ]
    (row,) = [r for r in story.table if (r["curve"], r["setting"]) == ("ours", "m=4")]
    assert row["mae"] == pytest.approx(ours["mae"].mean(), rel=1e-12)
    assert row["mae_std"] == pytest.approx(ours["mae"].std(ddof=0), rel=1e-12)
    claims = pd.read_csv(tmp_path / "T" / "claims.csv")
    assert set(claims["seeds"].dropna()) == {2}


def test_page_and_summary_tell_the_spread_over_seeds(both, tmp_path):
    experiment, curves, told = both
    story = make_result(experiment, curves, {}, list(told.values()), {}, draws=DRAWS)
    story = replace(story, name="E2")
    write_result(story, experiment, curves, tmp_path / "E2")
    text, found = write_page([story], tmp_path).read_text(), told["better"]
    assert f"over seeds: {seeds_of(found)}" in text
    assert f"over seeds: {seeds_of(found, rmse=True)}" in text
    assert seeds_of(found).endswith(f"true in {found.seeds_true} of 2")
    assert seeds_of(found) in summary([story])
    plain = replace(story, verdicts=[told["once"]])
    assert "seeds" not in summary([plain])

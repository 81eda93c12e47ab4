"""Which trial the default policy selects: noise decides nothing, a constant hardly ever."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from selection_sample import computed

from fkd import measures
from tasks.report.model import report_data
from tasks.report.narrative import finding_of
from tasks.select.champion import candidates, noise_on_inner_folds, select_champion, select_trial
from tasks.track.recording import model_note

FKS = {"name": "krr_fks", "grid": {"penalty": [0, 2, 20, 400]}}


@pytest.mark.parametrize("measure", ["gdp", "hgr", "pf"])
def test_the_most_accurate_model_is_chosen_if_nothing_depends_on_s(tmp_path, settings, measure):
    select = {"knee_of": measure, "inner_folds": 3}
    study = computed(tmp_path, settings, methods=["dummy", FKS], select=select)
    champion = select_champion(study)
    errors = {r.trial: r.mean("mae", "s") for r in study.results(inner=True)}
    assert champion.trial.method == "krr_fks"
    assert champion.trial == min(errors, key=errors.__getitem__)
    assert champion.within_noise


def test_report_and_tracking_say_that_noise_decided(tmp_path, settings):
    study = computed(tmp_path, settings, methods=["dummy", FKS])
    finding = finding_of(report_data(study, curves=False))
    assert "noise floor" in " ".join(finding.sentences)
    assert "noise floor" in model_note(study, select_champion(study), finding)


def test_a_compromise_is_chosen_if_models_depend_on_s(tmp_path, settings):
    study = computed(tmp_path, settings, methods=["dummy", FKS], unfair=3.0)
    champion = select_champion(study)
    means = {r.trial: r.mean("gdp", "s") for r in study.results(inner=True)}
    unfair = next(t for t in means if t.method == "krr_fks" and t.strength == 0)
    assert champion.trial.method == "krr_fks"
    assert champion.trial.strength > 0
    assert means[champion.trial] < 0.5 * means[unfair]
    assert not champion.within_noise


def test_of_constants_alone_one_is_chosen(tmp_path, settings):
    study = computed(tmp_path, settings, methods=["dummy"])
    assert select_champion(study).trial.method == "dummy"
    assert not select_champion(study).within_noise


def test_a_model_that_is_worse_than_the_constant_loses_to_it(tmp_path, settings):
    worse = {"name": "krr", "alpha": 1e-6, "gamma": 50.0}  # interpolates rows without a signal
    study = computed(tmp_path, settings, methods=[worse, "dummy"], signal=0.0)
    by_method = {r.trial.method: r.mean("mae", "s") for r in candidates(study)}
    assert by_method["krr"] > by_method["dummy"]
    assert select_champion(study).trial.method == "dummy"


def test_a_constant_loses_to_a_model_that_is_hardly_better(tmp_path, settings):
    # Everything that x says of y is s: the front is a line between the two ends.
    study = computed(
        tmp_path,
        settings,
        methods=["dummy", {"name": "krr_fks", "grid": {"penalty": [0]}}],
        unfair=20.0,
    )
    assert select_champion(study).trial.method == "krr_fks"


@pytest.mark.parametrize("measure", ["gdp", "hgr", "pf"])
def test_the_noise_floor_is_that_of_shuffled_predictions(tmp_path, settings, measure):
    study = computed(tmp_path, settings, methods=[FKS], unfair=1.0)
    table, rng, shuffled = study.loaded.table, np.random.default_rng(1), []
    best = min(candidates(study), key=lambda result: result.mean("mae", "s"))
    for fold, record in zip(study.inputs.splits.inner(table).values(), best.records, strict=True):
        test, f = table.take(fold.test), study.store.predictions(record.key)
        own = {
            "gdp": partial(measures.gdp, margins="given"),
            "hgr": partial(measures.hgr, margins="standard"),
            "pf": partial(measures.pairwise_fairness, test.y),
        }[measure]
        s = test.S(["s"])[:, 0]
        shuffled.append([own(f, s[rng.permutation(len(s))]) for _ in range(200)])
    expected = np.quantile(np.mean(shuffled, axis=0), 0.95)
    found = noise_on_inner_folds(study, candidates(study), measure)
    assert found == {"s": pytest.approx(expected, rel=0.3)}


@pytest.fixture
def stub(tmp_path, settings):
    """Return a function that makes results with given errors by fold and GDP by column."""
    study = computed(tmp_path, settings, methods=[FKS], select={"inner_folds": 4})
    results = iter(study.results(inner=True))

    def make(errors, **gdp):
        known = next(results)
        records = tuple(
            replace(record, measures={c: {"mae": mae, "gdp": v} for c, v in gdp.items()})
            for record, mae in zip(known.records, errors, strict=True)
        )
        return replace(known, records=records)

    return make, study.config.select


def test_each_column_has_a_noise_floor_of_its_own(stub):
    make, policy = stub
    unfair = make(4 * [0.10], age=0.10, rare=0.05)
    fairer = make(4 * [0.11], age=0.02, rare=0.05)
    worst = make(4 * [0.20], age=0.01, rare=0.05)
    results, noise = [unfair, fairer, worst], {"age": 0.005, "rare": 0.2}
    assert select_trial(results, policy, noise) is fairer
    assert select_trial(results, policy, {"age": 0.2, "rare": 0.2}) is unfair


def test_the_standard_error_is_that_of_differences_fold_by_fold(stub):
    """Folds differ in difficulty, but one model is worse by a fifth on each of them."""
    make, policy = stub
    folds = np.array([0.05, 0.15, 0.08, 0.12])
    better, worse = make(folds, s=0.100), make(1.2 * folds, s=0.097)
    assert select_trial([better, worse], policy, {"s": 0.01}) is better


def test_any_value_may_be_noise_if_one_row_has_most_of_the_weight(tmp_path, settings):
    study = computed(tmp_path, settings, methods=[FKS])
    fold = next(iter(study.inputs.splits.inner(study.loaded.table).values()))
    w = np.ones(240)
    w[fold.test[0]] = 300
    weights = {"column": "w", "fit": False, "removal": False}
    heavy = computed(tmp_path, settings, methods=[FKS], w=w, weights=weights)
    assert select_champion(heavy).within_noise
    assert noise_on_inner_folds(heavy, candidates(heavy), "gdp")["s"] > 0.2


def test_limits_do_not_look_at_noise(tmp_path, settings):
    study = computed(tmp_path, settings, methods=["dummy", FKS], select={"subject_to": {"gdp": 0}})
    assert select_trial(candidates(study), study.config.select).trial.method == "dummy"

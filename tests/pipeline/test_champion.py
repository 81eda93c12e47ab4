import json
import shutil
import sys
import threading
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from optional import marked
from stored_files import predictions_file, stored
from training_sample import make_training

from configs.errors import UserError
from configs.run import HookConfig, HooksConfig
from fkd.measures import recoverability
from fkd.methods import Method, method, methods
from flows.outcome import Cell, Outcome, SweepFailedError, end_runs
from tasks.plan.trials import Trial
from tasks.select import champion as champion_module
from tasks.select import judgement
from tasks.select.champion import select_champion
from tasks.select.judgement import GateError, broken_limits, recover
from tasks.select.selection import NoChampionError, select_trial
from tasks.select.study import open_study
from tasks.storage.records import PredictedRows

# concept-erasure compiles one of its functions when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


def _with_select(study, settings, **select):
    tree = {**study.config.model_dump(mode="json"), "select": {"inner_folds": 2, **select}}
    return open_study(type(study.config).model_validate(tree), settings)


def reopened(study):
    """The same study, with nothing in memory."""
    return open_study(study.config, study.settings)


def test_the_least_error_under_a_limit_is_chosen_on_inner_folds(quick_study):
    inner = quick_study.results(inner=True)
    allowed = [r for r in inner if r.mean("gdp", "racepctblack") <= 0.04]
    best = min(allowed, key=lambda r: r.mean("mae", "racepctblack"))
    assert select_trial(inner, quick_study.config.select).trial == best.trial
    assert len(allowed) < len(inner)  # the limit bites


def test_a_limit_nobody_meets_is_said_with_the_least_that_can_be_reached(quick_study, settings):
    without_dummy = quick_study.results(inner=True)[1:]
    policy = _with_select(quick_study, settings, subject_to={"gdp": 1e-6}).config.select
    with pytest.raises(NoChampionError, match=r"subject_to.*gdp"):
        select_trial(without_dummy, policy)


def test_the_knee_is_one_of_the_trials(quick_study, settings):
    study = _with_select(quick_study, settings, knee_of="gdp")
    assert select_trial(study.results(inner=True), study.config.select).trial in study.trials


def test_the_champion_predicts_in_the_targets_unit_from_raw_columns(quick_study):
    champion = select_champion(quick_study)
    fold = quick_study.inputs.splits.outer(quick_study.loaded.table)["0"]
    rows = quick_study.loaded.table.take(fold.train[:5])
    X = champion.bundle.encoder.transform(rows)
    low, high = quick_study.loaded.table.target_range
    expected = low + (high - low) * champion.bundle.predictor.predict(X)
    raw = pd.DataFrame(dict(zip(rows.numeric_names, rows.numeric.T, strict=True)))
    assert np.array_equal(champion.bundle.predict(raw[list(champion.example)]), expected)


def test_the_example_is_nobodys_row(quick_study):
    champion = select_champion(quick_study)
    table = quick_study.loaded.table
    train = table.take(quick_study.inputs.splits.held_out_fold(table).train)
    example = champion.example[list(table.numeric_names)].to_numpy()
    assert example.shape == (5, len(table.numeric_names))
    shared = (table.numeric[:, None] == example[None]).mean(axis=2)
    assert shared.max() < 0.5  # many columns have few values: some always agree
    middle = np.quantile(train.numeric, 0.5, axis=0, method="nearest")
    np.testing.assert_array_equal(example[2], middle)
    assert np.isfinite(champion.bundle.predict(champion.example)).all()


def test_reported_numbers_come_from_the_held_out_rows(quick_study):
    champion = select_champion(quick_study)
    result = next(r for r in quick_study.results() if r.trial == champion.trial)
    held_out = result.records[0].measures["racepctblack"]
    assert champion.judgement.held_out.mae[0] == pytest.approx(held_out["mae"])
    found = champion.judgement.held_out.measures["racepctblack"]["gdp"]
    assert found[0] == pytest.approx(held_out["gdp"])
    assert found[1] <= found[0] <= found[2]
    assert champion.judgement.rows_held_out == result.records[0].predicted.rows
    plain = next(r for r in quick_study.results() if r.trial.parameters.get("iterations") == 0)
    without = plain.records[0].measures["racepctblack"]["mae"]
    assert without != held_out["mae"]
    assert champion.judgement.reference.mae[0] == pytest.approx(without)
    assert champion.judgement.changes.mae[0] == pytest.approx(held_out["mae"] - without)


def test_a_champion_is_computed_once(quick_study, monkeypatch):
    first = select_champion(quick_study)
    monkeypatch.setattr(champion_module, "refit", None)
    assert select_champion(quick_study).bundle is first.bundle
    again = select_champion(reopened(quick_study))
    assert (again.key, again.judgement) == (first.key, first.judgement)


def test_a_damaged_champion_is_made_again(quick_study, settings):
    first = select_champion(quick_study)
    path = stored(settings, "champions") / f"{first.key}.arrays"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    again = select_champion(reopened(quick_study))
    assert np.array_equal(again.bundle.predict(again.example), first.bundle.predict(first.example))


@pytest.mark.parametrize("kept", [True, False], ids=["by each row", "by what the record says"])
def test_a_changed_method_whose_version_was_not_raised_is_noticed(quick_study, settings, kept):
    shutil.rmtree(stored(settings, "champions"))
    store = quick_study.store
    for path in stored(settings).rglob("*.record"):
        if (record := store.read(path.stem)).method == "krr_fkd":
            moved = store.predictions(record.key) + 0.01
            predictions_file(store, record.key).unlink()
            store.write(
                replace(record, predicted=PredictedRows.from_predictions(moved)),
                moved if kept else None,
            )
    with pytest.raises(RuntimeError, match="version was not raised"):
        select_champion(quick_study)


def test_without_a_policy_there_is_no_champion_and_no_inner_fold(quick_study, settings):
    tree = {**quick_study.config.model_dump(mode="json"), "select": None}
    study = open_study(type(quick_study.config).model_validate(tree), settings)
    assert study.inputs.splits.inner(study.loaded.table) == {}
    assert study.missing() == []  # the outer folds are those of the run with a champion
    with pytest.raises(NoChampionError, match="select is null"):
        select_champion(study)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gate": {"gdp": 0.1}}, "a gate needs the inner folds"),
        ({"methods": [{"name": "krr", "search": {"alpha": [1, 2]}}]}, "a search needs"),
    ],
)
def test_what_needs_inner_folds_is_refused_without_them(changed, words, quick_config):
    tree = {**quick_config.model_dump(mode="json"), "select": None, **changed}
    with pytest.raises(ValueError, match=words):
        type(quick_config).model_validate(tree)


@pytest.fixture
def beside(quick_study, monkeypatch):
    """A study whose champion is judged as one on very many rows."""
    counted = lambda n, w: n > 0  # noqa: E731
    monkeypatch.setattr(champion_module, "is_counted", counted)
    shutil.rmtree(stored(quick_study.settings, "champions"))
    return open_study(quick_study.config, quick_study.settings)


def test_probes_beside_the_intervals_tell_the_same(quick_study, beside):
    alone = select_champion(quick_study).judgement
    threads = []
    recover = champion_module.recover

    def noted(*arguments):
        threads.append(threading.current_thread())
        return recover(*arguments)

    champion_module.recover = noted
    try:
        assert select_champion(beside).judgement == alone
    finally:
        champion_module.recover = recover
    assert threads != [threading.current_thread()]


@pytest.mark.parametrize("part", ["judge", "recover"])
def test_what_fails_beside_the_other_is_told(beside, monkeypatch, part):
    def failing(*arguments):
        raise RuntimeError(f"no {part}")

    monkeypatch.setattr(champion_module, part, failing)
    with pytest.raises(RuntimeError, match=f"no {part}"):
        select_champion(beside)


def test_warnings_that_one_side_sets_aside_come_back(beside, monkeypatch):
    begun, entered, left, gone = (threading.Event() for _ in range(4))
    before = list(warnings.filters)
    judge, recover = champion_module.judge, champion_module.recover

    def first_to_come_and_to_go(*arguments):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begun.set()
            assert entered.wait(60)
        left.set()
        assert gone.wait(60)
        return judge(*arguments)

    def second(*arguments):
        assert begun.wait(60)
        with warnings.catch_warnings():
            entered.set()
            assert left.wait(60)
        gone.set()  # with what the first had set aside
        return recover(*arguments)

    monkeypatch.setattr(champion_module, "judge", first_to_come_and_to_go)
    monkeypatch.setattr(champion_module, "recover", second)
    select_champion(beside)
    assert list(warnings.filters) == before


REPRESENTING = [name for name, declared in methods().items() if declared.represent]
QUICK = {"nn_frem": {"epochs": 3, "batch_rows": 40}}


def _trial(declared, **parameters):
    setting = declared.parameters(**QUICK.get(declared.name, {}), **parameters)
    return Trial(declared.name, declared.version, json.dumps(declared.describe(setting)), "key")


@pytest.mark.parametrize("name", marked(n for n in REPRESENTING if method(n).strength))
def test_with_nothing_removed_as_much_is_guessed_after_as_before(rng, name):
    declared, training = method(name), make_training(rng, n=120)
    # One column is small enough to be removed whole from the inputs of the linear method.
    new = make_training(rng, n=100)
    strength = declared.strength
    found = recover(_trial(declared, **{strength: 0}), training, new.X, new.S[:, :1])
    removed = recover(_trial(declared, **{strength: 3}), training, new.X, new.S[:, :1])
    assert [probe.before for probe in found] == [probe.after for probe in found]
    assert [probe.before for probe in removed] == [probe.before for probe in found]
    assert [probe.after for probe in removed] != [probe.after for probe in found]


@pytest.mark.parametrize("name", marked(n for n in REPRESENTING if not method(n).strength))
def test_without_a_strength_the_features_before_are_those_that_are_erased(rng, name):
    from fkd.baselines.erasure import leace

    declared, training = method(name), make_training(rng, n=120)
    new, p = make_training(rng, n=100), declared.parameters()
    learnt_on = declared.features_before(training, p, training.X)
    before = declared.features_before(training, p, new.X)
    erased = leace(learnt_on, training.S)(before)
    np.testing.assert_allclose(declared.represent(training, p, new.X), erased, atol=1e-6)
    probes = recover(_trial(declared), training, new.X, new.S[:, :1])
    untouched = recoverability(before, new.S[:, :1], random_state=training.seed)
    assert [probe.before for probe in probes] == [probe.after for probe in untouched]
    assert all(probe.before > probe.after + 0.1 for probe in probes)


def test_a_representation_must_say_what_it_was_before():
    plain = method("leace")
    with pytest.raises(ValueError, match="unremoved of leace must be given"):
        Method("leace", "", plain.parameters, plain.fit, represent=plain.represent)


def test_a_method_without_representation_has_nothing_to_guess_from(rng):
    training = make_training(rng)
    assert recover(_trial(method("krr")), training, training.X, training.S) == ()


def test_probes_look_at_as_many_rows_as_they_are_told(quick_study, monkeypatch):
    test = quick_study.loaded.table
    assert judgement.probed_rows(test, 0) is test
    monkeypatch.setattr(judgement, "MAX_ROWS", 50)
    seen = judgement.probed_rows(test, 0)
    assert seen.n == 50
    known = {row.tobytes() for row in test.numeric}
    assert all(row.tobytes() in known for row in seen.numeric)
    assert (judgement.probed_rows(test, 0).target == seen.target).all()
    assert (judgement.probed_rows(test, 1).target != seen.target).any()


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

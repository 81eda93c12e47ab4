"""A signal planted in test rows must be nowhere in what is learnt."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from own_sample import write_rents

from configs.load import load_config
from tasks.fit.job import fitted_models
from tasks.plan.training import make_training, model_inputs
from tasks.plan.trials import record_key
from tasks.select.champion import select_champion
from tasks.select.study import open_study, search_winner
from tasks.storage.records import TrialStore
from tasks.storage.store import open_store

METHODS = (
    "methods=[{name: krr_fkd, iterations: 3, approximation: {kind: nystroem, landmarks: 40}}, "
    "{name: krr_fkl, penalty: 0.5, approximation: {kind: nystroem, landmarks: 40}}, "
    "residual_y, dummy]"
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    from tasks.storage.settings import Settings

    home = tmp_path_factory.mktemp("leakage") / "home"
    return open_study(load_config("default", [METHODS]), Settings(home, None, None, None))


def planted(table, rows, what):
    """The table with wild values in some rows of one of its parts."""
    if what == "target":
        changed = table.target.copy()
        changed[rows] = table.target_range[1]
        return replace(table, target=changed)
    changed = getattr(table, what).copy()
    if what == "sensitive":
        changed[rows] = table.sensitive_range[:, 1]
    else:
        changed[rows] = 1e3 * (1 + np.arange(len(rows)))[:, None]
    return replace(table, **{what: changed})


@pytest.mark.parametrize("what", ["numeric", "target", "sensitive"])
@pytest.mark.parametrize("scale", ["minmax", "zscore"])
def test_nothing_is_learnt_from_test_rows(study, what, scale):
    table, inputs = study.loaded.table, replace(study.inputs, scale=scale)
    fold = inputs.splits.outer(table)["1"]
    other = planted(table, fold.test, what)
    before, encoder = make_training(table, fold, inputs)
    after, same = make_training(other, fold, inputs)
    for name in ("X", "y", "S"):
        assert_array_equal(getattr(after, name), getattr(before, name))
    assert encoder.feature_names == same.feature_names
    assert_array_equal([same.offset, same.span], [encoder.offset, encoder.span])


@pytest.mark.parametrize("what", ["numeric", "target", "sensitive"])
def test_a_signal_in_training_rows_is_learnt(study, what):
    table, inputs = study.loaded.table, replace(study.inputs, scale="minmax")
    fold = inputs.splits.outer(table)["1"]
    before, encoder = make_training(table, fold, inputs)
    after, other = make_training(planted(table, fold.train[:9], what), fold, inputs)
    name = {"numeric": "X", "target": "y", "sensitive": "S"}[what]
    assert np.abs(getattr(after, name) - getattr(before, name)).max() > 0.01
    assert bool((other.span != encoder.span).any()) is (what == "numeric")


def test_medians_are_those_of_the_training_rows(settings, tmp_path):
    study = open_study(load_config(write_rents(tmp_path)), settings)
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.outer(table)["1"]
    numeric = table.numeric.copy()
    numeric[fold.test] = 1e6
    numeric[fold.test[::2]] = np.nan
    before, encoder = make_training(table, fold, inputs)
    after, same = make_training(replace(table, numeric=numeric), fold, inputs)
    assert_array_equal(same.fill, encoder.fill)
    assert_array_equal(encoder.fill, np.nanmedian(table.numeric[fold.train], axis=0))
    assert same.feature_names == encoder.feature_names
    assert_array_equal(after.X, before.X)
    assert np.isnan(table.numeric[fold.train]).any()


def test_levels_are_those_of_the_training_rows(settings, tmp_path):
    path = tmp_path / "own.csv"
    lines = [f"{i},{i % 3},{'rare' if i == 7 else 'ab'[i % 2]},{i % 5}" for i in range(40)]
    path.write_text("\n".join(["y,s,kind,x", *lines]))
    own = (
        f"data={{problem: table, source: file, path: '{path}', target: y, sensitive: [s], "
        "numeric: [x], categorical: [kind]}"
    )
    opened = open_study(load_config("default", [own, "methods=[dummy]"]), settings)
    table, splits = opened.loaded.table, opened.inputs.splits
    seen = {
        label: "kind=rare" in make_training(table, fold, opened.inputs)[1].feature_names
        for label, fold in splits.outer(table).items()
    }
    tested = {label: 7 in fold.test for label, fold in splits.outer(table).items()}
    assert seen == {label: not test for label, test in tested.items()}
    assert sum(tested.values()) == 1


@pytest.mark.parametrize("what", ["target", "sensitive"])
def test_no_method_knows_the_test_rows(study, what):
    """Predictions of untouched rows stay the same bits, whatever the others' labels are."""
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.outer(table)["2"]

    def predicted(rows):
        training, encoder = make_training(rows, fold, inputs)
        found = []
        for trial in study.trials:
            (predictor,) = fitted_models(training, trial.method, [trial])
            X = model_inputs(trial.method, encoder, table.take(fold.test), inputs)
            found.append(predictor.predict(X))
        return found

    before = predicted(table)
    assert_array_equal(predicted(planted(table, fold.test, what)), before)
    changed = predicted(planted(table, fold.train[:200], what))
    felt = {
        trial.method
        for trial, a, b in zip(study.trials, changed, before, strict=True)
        if np.abs(a - b).max() > 1e-6
    }
    # The dummy does not look at S.
    assert felt == {t.method for t in study.trials} - ({"dummy"} if what == "sensitive" else set())


def _rewritten(study, folds, better):
    """Give stored records of some folds measures under which another trial is the best."""
    table, inputs = study.loaded.table, study.inputs
    store = TrialStore(open_store(study.settings))
    for trial in study.trials:
        for fold in folds(table).values():
            record = store.read(record_key(trial, fold, inputs))
            mae = 1e-3 if trial == better else 0.9
            measures = {
                column: {**values, "mae": mae, "gdp": 1e-4}
                for column, values in record.measures.items()
            }
            store.write(replace(record, measures=measures))


def test_outer_folds_do_not_choose_the_champion(quick_study):
    chosen = select_champion(quick_study).trial
    other = next(t for t in quick_study.trials if t != chosen and t.method != "dummy")
    _rewritten(quick_study, quick_study.inputs.splits.outer, other)
    assert select_champion(quick_study).trial == chosen
    _rewritten(quick_study, quick_study.inputs.splits.inner, other)
    assert select_champion(quick_study).trial == other


def test_outer_folds_do_not_decide_a_search(quick_study):
    study = quick_study

    def best():
        return search_winner(study.trials, study.inputs, study.loaded.table, study.store, by="mae")

    chosen = best()
    other = next(t for t in study.trials if t != chosen)
    _rewritten(study, study.inputs.splits.outer, other)
    assert best() == chosen
    _rewritten(study, study.inputs.splits.inner, other)
    assert best() == other

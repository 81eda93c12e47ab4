"""Weights of rows: the column, where they count, keys and sums."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from optional import needs

from configs.errors import UserError
from configs.load import dump_config, load_config
from fkd.baselines.base import LEACE, NEURAL
from fkd.core.conditioning import Functions
from fkd.core.feature_maps import KernelSettings
from fkd.core.moments import BasisMoments, Moments
from fkd.core.sensitive_basis import BasisSettings
from fkd.core.weights import RowWeights
from fkd.measures import gdp, survey_weights
from tasks.fit import job as evaluate
from tasks.fit.job import RowScores, fitted_models, run_job, training_for
from tasks.kernels import streaming
from tasks.kernels import streaming as leaves
from tasks.kernels.shared_map import SharedMap, shared_encoder, store_map
from tasks.kernels.shared_training import feature_source, shared_sums, shared_training
from tasks.plan.training import fit_weights, make_training, measure_weights
from tasks.plan.trials import record_key
from tasks.select.champion import select_champion
from tasks.select.study import open_study
from tasks.track.recording import parent_details

# Crimes keeps the number of UCI's own fold, 1 to 10: any column of numbers can be weights.
COLUMN = "weights.column=fold"
KRR = "methods=[{name: krr_fkd, grid: {iterations: [0, 3]}}]"
SMALL = ("folds.k=2", "select.inner_folds=2", "data.sample=140")
ALONE = {
    part: [COLUMN, *(f"weights.{name}={str(name == part).lower()}" for name in PARTS)]
    for PARTS in [("removal", "fit", "measures")]
    for part in PARTS
}


def study_of(settings, *overrides, methods=KRR):
    return open_study(load_config("default", [*SMALL, methods, *overrides]), settings)


def with_weights(study, column):
    """The same study with another column of weights, in this process alone."""
    table = study.loaded.table
    changed = replace(table, extra={**table.extra, "fold": np.asarray(column)})
    return replace(study, loaded=replace(study.loaded, table=changed))


def records(study):
    """What is stored of every trial on every split, computed first."""
    for job in study.missing():
        run_job(job)
    folds = study.inputs.splits.all(study.loaded.table).values()
    keys = [record_key(trial, fold, study.inputs) for trial in study.trials for fold in folds]
    return [(study.store.read(key), study.store.predictions(key)) for key in keys]


# --- the block -----------------------------------------------------------------------------------


def test_a_configuration_without_weights_is_written_without_them(settings):
    config = load_config("default", [*SMALL])
    assert "weights" not in config.model_dump(mode="json")
    assert "weights" not in dump_config(config)
    assert study_of(settings).inputs.identity()["weights"] is None
    assert config.digest != load_config("default", [*SMALL, KRR, COLUMN]).digest


def test_weights_are_written_and_read(tmp_path):
    config = load_config("default", [*SMALL, KRR, *ALONE["fit"]])
    path = tmp_path / "again.yaml"
    path.write_text(dump_config(config))
    assert load_config(str(path)).weights == config.weights


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["weights.column=flod"], "the nearest is 'fold'"),
        (["weights={}"], "column"),
        ([COLUMN, "weights.removed=true"], "removed"),
        (
            [COLUMN, *(f"weights.{n}=false" for n in ("removal", "fit", "measures"))],
            "must be used in",
        ),
        pytest.param([COLUMN, "methods=[leace]"], "leace, which does not", marks=needs(LEACE)),
        pytest.param([COLUMN, "methods=[nn_hgr]"], "nn_hgr, which does not", marks=needs(NEURAL)),
        ([COLUMN, "weights.fit=false", "methods=[krr_fkl]"], "krr_fkl, which removes and fits"),
    ],
)
def test_invalid_weights_are_refused(overrides, words):
    with pytest.raises(UserError, match=words):
        load_config("default", overrides)


@pytest.mark.needs("torch", "concept_erasure")
def test_methods_without_weights_can_be_measured_with_weights():
    config = load_config("default", [*ALONE["measures"], "methods=[leace]"])
    assert config.weights is not None


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (-1.0, "-1 in 1 of 140 rows"),
        (np.nan, "nan in 1 of 140 rows"),
        (np.inf, "inf in 1 of 140 rows"),
        ("heavy", "the word 'heavy'"),
        ("", "a missing value"),
    ],
)
def test_a_column_that_holds_no_weights_is_refused(settings, column, words):
    study = study_of(settings)
    values = np.array([column, *["2"] * 139]) if isinstance(column, str) else np.full(140, 2.0)
    if not isinstance(column, str):
        values[3] = column
    loaded = with_weights(study, values).loaded
    with pytest.raises(UserError, match=words):
        open_study(load_config("default", [*SMALL, KRR, COLUMN]), settings, loaded)


def test_weights_of_zero_everywhere_or_on_one_side_of_a_fold_are_refused(settings):
    study = study_of(settings)
    config = load_config("default", [*SMALL, KRR, COLUMN])
    with pytest.raises(UserError, match="0 in all of 140"):
        open_study(config, settings, with_weights(study, np.zeros(140)).loaded)
    w = np.ones(140)
    w[study.inputs.splits.outer(study.loaded.table)["1"].test] = 0
    with pytest.raises(UserError, match=r"fold (0|1) (train|test)s on, got 0"):
        open_study(config, settings, with_weights(study, w).loaded)


# --- what rows count for -------------------------------------------------------------------------


def test_weights_have_a_mean_of_one_over_the_table(settings):
    study = study_of(settings, COLUMN)
    table, raw = study.loaded.table, study.loaded.table.extra["fold"]
    weights = fit_weights(table, study.inputs.weights)
    assert weights.alike
    assert_allclose(weights.fit, raw / raw.mean(), rtol=1e-14)
    assert_array_equal(measure_weights(table, study.inputs.weights), weights.fit)


def test_each_option_weights_its_part_only(settings):
    for part, overrides in ALONE.items():
        study = study_of(settings, *overrides)
        table, inputs = study.loaded.table, study.inputs
        fits = fit_weights(table, inputs.weights)
        known = {
            "removal": fits.removal,
            "fit": fits.fit,
            "measures": measure_weights(table, inputs.weights),
        }
        assert [name for name, w in known.items() if w is not None] == [part]


def test_rows_of_weight_zero_do_not_train(settings):
    study = study_of(settings, *ALONE["removal"])
    w = np.tile([0.0, 1.0, 3.0, 2.0], 35)
    study = with_weights(study, w)
    table, fold = study.loaded.table, study.inputs.splits.all(study.loaded.table)["1"]
    training, _ = make_training(table, fold, study.inputs)
    there = fold.train[w[fold.train] > 0]
    assert_array_equal(training.y, table.y[there])
    assert_allclose(training.weights.removal, survey_weights(w)[there])
    assert_array_equal(training.weights.fit, np.ones(len(there)))


def test_a_fold_is_trained_as_one_with_repeated_rows(settings):
    # Ridges that grow with the rows, as weights scaled to a mean of one are fewer than repeated.
    methods = "methods=[{name: krr_fkd, ridges: per_row, grid: {iterations: [0, 3]}}]"
    study = study_of(settings, COLUMN, methods=methods)
    table, fold = study.loaded.table, study.inputs.splits.all(study.loaded.table)["0"]
    again = np.repeat(fold.train, table.extra["fold"][fold.train].astype(int))
    weighed, encoder = make_training(table, fold, study.inputs)
    plain = replace(study.inputs, weights=None)
    repeated, _ = make_training(table, replace(fold, train=again), plain)
    X = encoder.transform(table.take(fold.test))
    found, expected, once = (
        [p.predict(X) for p in fitted_models(rows, "krr_fkd", study.trials)]
        for rows in (weighed, repeated, make_training(table, fold, plain)[0])
    )
    assert_allclose(found, expected, atol=1e-6)
    assert np.abs(np.array(found) - once).max(axis=1).min(axis=0) > 1e-4


def test_measures_are_those_of_repeated_rows(settings, rng):
    table = study_of(settings).loaded.table
    w = rng.integers(0, 4, size=table.n).astype(float)
    again = table.take(np.repeat(np.arange(table.n), w.astype(int)))
    y_pred = 0.7 * table.y + 0.1 * rng.uniform(size=table.n)
    columns = table.sensitive_names[:1]
    found = RowScores(table, columns, w).of(y_pred)
    repeated = np.repeat(y_pred, w.astype(int))
    expected = RowScores(again, columns).of(repeated)
    plain = RowScores(table, columns).of(y_pred)
    for name, value in expected[columns[0]].items():
        assert found[columns[0]][name] == pytest.approx(value, rel=1e-9)
        assert plain[columns[0]][name] != pytest.approx(value, rel=1e-4)


# --- keys and records ----------------------------------------------------------------------------


def test_weights_of_one_are_no_weights(settings):
    ones = with_weights(study_of(settings, COLUMN), np.full(140, 7.0))
    w = fit_weights(ones.loaded.table, ones.inputs.weights)
    assert w == RowWeights()
    assert measure_weights(ones.loaded.table, ones.inputs.weights) is None
    assert ones.held_out_weights() is None


def test_every_option_of_weights_is_part_of_a_key(settings):
    blocks = ((), (COLUMN,), *ALONE.values(), (COLUMN, "weights.measures=false"))
    keys = [study_of(settings, *block).trials[0].key for block in blocks]
    assert len(set(keys)) == len(blocks)


def test_other_weights_in_measures_need_no_fit(settings, monkeypatch):
    plain = records(study_of(settings))
    weighed = records(study_of(settings, COLUMN))
    monkeypatch.setattr(evaluate, "training_for", None)  # a fit would call it
    for fitted, overrides in ((plain, ALONE["measures"]), (weighed, ALONE_FITS)):
        measured = records(study_of(settings, *overrides))
        for (one, y_one), (two, y_two) in zip(fitted, measured, strict=True):
            assert_array_equal(y_one, y_two)
            assert one.seconds == two.seconds
            assert one.key != two.key
            for column, values in one.measures.items():
                assert all(two.measures[column][name] != values[name] for name in values)


ALONE_FITS = (COLUMN, "weights.measures=false")


def test_a_run_measures_and_fits_by_its_weights(settings):
    study = study_of(settings, COLUMN)
    table, column = study.loaded.table, study.inputs.measure_on[0]
    fold = study.inputs.splits.all(table)["1"]
    records(study)
    key = record_key(study.trials[1], fold, study.inputs)
    record, y_pred = study.store.read(key), study.store.predictions(key)
    w = survey_weights(table.extra["fold"])[fold.test]
    test = table.take(fold.test)
    expected = gdp(y_pred, test.S([column])[:, 0], margins="given", sample_weight=w)
    assert record.measures[column]["gdp"] == pytest.approx(expected, rel=1e-12)
    assert record.measures[column]["mae"] == pytest.approx(
        np.average(np.abs(y_pred - test.y), weights=w), rel=1e-12
    )
    training, encoder = training_for(study.trials, table, fold, study.inputs)
    *_, last = fitted_models(training, "krr_fkd", study.trials)
    assert_allclose(last.predict(encoder.transform(test)), y_pred, atol=1e-9)


def test_a_champion_is_judged_by_weights(settings):
    study = study_of(settings, COLUMN)
    records(study)
    champion = select_champion(study)
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    record = study.store.read(record_key(champion.trial, fold, inputs))
    for column, values in record.measures.items():
        judged = champion.judgement.held_out.measures[column]
        for name in ("hgr", "gdp", "pf"):
            assert judged[name][0] == pytest.approx(values[name], rel=1e-9)
    assert champion.judgement.held_out.mae[0] == pytest.approx(values["mae"], rel=1e-9)
    assert_array_equal(study.held_out_weights(), survey_weights(table.extra["fold"])[fold.test])
    assert parent_details(study).params["weights"] == "fold in removal, fit, measures"


# --- sums under a shared map ---------------------------------------------------------------------

RBF = Functions(BasisSettings())


def shared_study(settings, name="krr_fks", *overrides, **changes):
    approximation = {"kind": "nystroem", "landmarks": 40, "shared": True}
    entry = {"name": name, "approximation": approximation, **changes}
    words = ["folds.reserve=0.3", "folds.k=3", "select.inner_folds=2"]
    return open_study(
        load_config("default", [*words, f"methods={json.dumps([entry])}", *overrides]), settings
    )


@pytest.fixture
def _small_tasks(monkeypatch):
    monkeypatch.setattr(leaves, "TASK_ROWS", 37)
    monkeypatch.setattr("fkd.core.moments.BLOCK_ROWS", 16)


def here(function, jobs, keep):
    for job in jobs:
        keep(job, function(job))


@pytest.mark.usefixtures("_small_tasks")
@pytest.mark.parametrize("kept", [{"fit": True}, {"removal": True}, {"fit": True, "removal": True}])
def test_sums_over_blocks_equal_sums_over_weighted_rows(settings, kept):
    switches = [f"weights.{part}={str(part in kept).lower()}" for part in ("removal", "fit")]
    study = shared_study(settings, "krr_fks", COLUMN, *switches, grid={"penalty": [0.0, 5.0]})
    inputs = study.inputs
    needs = shared_sums(study.missing())
    assert len(needs) == (1 if len(kept) == 2 else 2)
    streaming.stream_moments(here, needs)
    table = inputs.table
    fold = inputs.splits.all(table)["0.1"]
    w = survey_weights(table.extra["fold"])
    reserved, train = inputs.splits.reserved(table), table.take(fold.train)
    training, encoder = shared_training(table, fold, inputs)
    p = study.trials[1].setting()
    kernel = KernelSettings(gamma=p.gamma, approximation=p.approximation)
    feature_map, fitted = training.feature_map(kernel), training.moments(kernel)
    G, S = feature_map.transform(encoder.transform(train)), train.S(inputs.sensitive)
    by_fit, by_removal = (w[fold.train] if part in kept else None for part in ("fit", "removal"))
    for ours, by in (
        (fitted, by_fit),
        (training.moments(kernel, "removal"), by_removal),
        (training.moments(kernel, "once"), None),
    ):
        expected = Moments.from_rows(G, S, train.y, by)
        for name, value in vars(expected).items():
            assert_allclose(getattr(ours, name), value, rtol=1e-7, atol=1e-7 * expected.n)
    part = table.take(reserved)
    columns = RBF.columns(
        part.S(inputs.sensitive), part.y, w[reserved] if "removal" in kept else None
    )
    products = training.basis_moments(kernel, RBF)
    expected = BasisMoments.from_rows(G, *columns(S, train.y), by_removal)
    assert_allclose(products.covariance(), expected.covariance(), atol=1e-8)
    assert products.n == pytest.approx(expected.n)


def test_sums_without_weights_keep_their_names(settings):
    plain = shared_study(settings, grid={"penalty": [5.0]})
    alone = shared_study(settings, "krr_fks", *ALONE["removal"], grid={"penalty": [5.0]})
    both = shared_study(settings, "krr_fks", COLUMN, grid={"penalty": [5.0]})
    p = plain.trials[0].setting()
    stored = [
        store_map(SharedMap.of(study.inputs, p.gamma, p.approximation))
        for study in (plain, alone, both)
    ]
    assert len({one.checksum for one in stored}) == 1
    paths = {
        (name, part): streaming.sums_name(streaming.Sums(one, "float64", part), 0, None)
        for name, one in zip(("plain", "alone", "both"), stored, strict=True)
        for part in ("fit", "removal", "once")
    }
    assert paths["alone", "fit"] == paths["both", "once"] == paths["plain", "fit"]
    assert paths["alone", "removal"] != paths["plain", "removal"]
    assert paths["both", "fit"] not in (paths["plain", "fit"], paths["alone", "fit"])


def test_the_weights_of_a_leaf_are_in_its_key(settings, monkeypatch):
    study = shared_study(settings, "krr_fks", COLUMN, grid={"penalty": [5.0]})
    p = study.trials[0].setting()
    stored = store_map(SharedMap.of(study.inputs, p.gamma, p.approximation))
    (leaf, *_) = streaming.cell_leaves(streaming.Sums(stored, "float64"), (RBF,), 0)
    rows = leaves.leaf_rows(leaf)
    keys = [
        leaves._key(replace(leaf, sums=replace(leaf.sums, part=part)), *rows)
        for part in ("fit", "once")
    ]
    known = leaves.study_weights(study.inputs)
    nudged = known.fit.copy()
    nudged[leaves._positions(leaf)[0]] *= 1.5
    monkeypatch.setattr(leaves, "study_weights", lambda _: RowWeights(nudged, nudged))
    keys.append(leaves._key(leaf, *rows))
    assert len(set(keys)) == 3


@pytest.mark.usefixtures("_small_tasks")
def test_features_on_disk_come_with_the_weights_of_their_rows(settings):
    study = shared_study(settings, "svr_fkd", COLUMN, solver="batched", grid={"iterations": [0, 4]})
    table, inputs, p = study.loaded.table, study.inputs, study.trials[0].setting()
    stored = store_map(SharedMap.of(inputs, p.gamma, p.approximation))
    fold = inputs.splits.all(table)["1"]
    blocks = list(feature_source(stored, fold.train)())
    assert len(blocks) > 3
    w, y = survey_weights(table.extra["fold"]), table.y
    found = np.sort(np.concatenate([block.weights + 100 * block.y for block in blocks]))
    assert_allclose(found, np.sort(w[fold.train] + 100 * y[fold.train]))
    # libsvm on the same map, of which it is asked for X itself.
    training, _ = shared_training(table, fold, inputs)
    X = shared_encoder(inputs).transform(table.take(fold.test))
    passes = [f.predict(X) for f in fitted_models(training, "svr_fkd", study.trials)]
    libsvm = shared_study(settings, "svr_fkd", COLUMN, solver="libsvm", grid={"iterations": [0, 4]})
    other = [f.predict(X) for f in fitted_models(training, "svr_fkd", libsvm.trials)]
    plain, _ = shared_training(table, fold, replace(inputs, weights=None))
    once = [f.predict(X) for f in fitted_models(plain, "svr_fkd", study.trials)]
    # Both stop short of their optimum, by far less than weights move it.
    far, near = (np.abs(np.subtract(passes, one)).mean(axis=1) for one in (once, other))
    assert (near < 0.25 * far).all()

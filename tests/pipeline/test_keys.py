"""Keys of trials and records: everything that decides numbers changes them."""

import dataclasses
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from stored_files import record_file

from configs.data import DataConfig, FoldsConfig
from configs.load import load_config
from configs.run import WeightsConfig
from fkd.measures import REPORTED
from fkd.methods import Approximation, methods
from tasks.data.load import load_table
from tasks.fit.job import run_job
from tasks.kernels import shared_map, streaming
from tasks.kernels.shared_map import SharedMap, store_map
from tasks.plan.splits import Splits
from tasks.plan.trials import Inputs, make_trials, record_key
from tasks.reproduce import resample
from tasks.reproduce.resample import Resampling
from tasks.select import champion
from tasks.select.study import open_study
from tasks.storage.records import predictions_name
from tasks.storage.settings import Settings

SPLITS = Splits(FoldsConfig(k=5, reserve=0.2), seed=0, inner_folds=4)
# One other value for each field that decides numbers.
OTHER = {
    "table_digest": "b" * 64,
    "sensitive": ("racePctWhite",),
    "measure_on": ("racepctblack", "racePctWhite"),
    "scale": "zscore",
    "scale_on": "all",
    "splits": replace(SPLITS, seed=1),
    "seed": 1,
    "blas_threads": 2,
    "versions": (*((n, 1) for n in REPORTED), ("encoder", 1), ("record", 9)),
    "weights": WeightsConfig(column="population"),
}
OTHER_SPLITS = {
    "folds": FoldsConfig(k=4, reserve=0.2),
    "seed": 1,
    "inner_folds": 3,
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    home = tmp_path_factory.mktemp("keys") / "home"
    config = load_config("default", ["folds.reserve=0.2", "methods=[dummy, krr_fkd]"])
    return open_study(config, Settings(home, None, None, None))


@pytest.fixture(scope="module")
def inputs(study):
    return replace(study.inputs, splits=SPLITS, scale="minmax")


def trial(inputs, *, shared=False, **parameters):
    declared = methods()["krr_fkd"]
    setting = declared.parameters(
        approximation=Approximation("nystroem", 50, shared=shared), **parameters
    )
    (found,) = make_trials("krr_fkd", [setting], inputs)
    return found


def test_every_field_has_another_value_here():
    assert {f.name for f in fields(Inputs)} == {"settings", "predictions", *OTHER}
    assert {f.name for f in fields(Splits)} == set(OTHER_SPLITS)


@pytest.mark.parametrize("name", OTHER)
def test_every_common_input_is_in_the_key_of_a_trial(inputs, name):
    changed = replace(inputs, **{name: OTHER[name]})
    assert getattr(changed, name) != getattr(inputs, name)
    assert trial(changed).key != trial(inputs).key


@pytest.mark.parametrize("name", sorted(set(OTHER) - {"splits"}))
def test_every_common_input_is_in_the_key_of_a_record(study, inputs, name):
    fold = SPLITS.outer(study.loaded.table)["0"]
    changed = replace(inputs, **{name: OTHER[name]})
    assert record_key(trial(changed), fold, changed) != record_key(trial(inputs), fold, inputs)


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_whether_predictions_are_kept_is_in_no_key(study, inputs, policy):
    fold = SPLITS.outer(study.loaded.table)["0"]
    changed = replace(inputs, predictions=policy)
    assert trial(changed).key == trial(inputs).key
    assert record_key(trial(changed), fold, changed) == record_key(trial(inputs), fold, inputs)
    assert trial(changed, shared=True).key == trial(inputs, shared=True).key


def raised(inputs, name, version=7):
    """The inputs of a run whose code has another version of a measure, the encoder or records."""
    return replace(inputs, versions=tuple({**dict(inputs.versions), name: version}.items()))


@pytest.mark.parametrize("name", [*REPORTED, "encoder", "record"])
def test_every_version_is_in_the_keys(study, inputs, name):
    fold = SPLITS.outer(study.loaded.table)["0"]
    changed = raised(inputs, name)
    assert trial(changed).key != trial(inputs).key
    assert record_key(trial(changed), fold, changed) != record_key(trial(inputs), fold, inputs)


MEASURED = ("measure_on", "weights of measures", *REPORTED)


@pytest.mark.parametrize("name", [*OTHER, *MEASURED])
def test_the_key_of_a_fit_does_not_contain_its_measures(study, inputs, name):
    fold = SPLITS.outer(study.loaded.table)["0"]
    if name == "splits":
        return  # the rows of a fold decide, see below
    if name in REPORTED:
        changed = raised(inputs, name)
    elif name == "weights of measures":
        weights = WeightsConfig(column="population", removal=False, fit=False)
        changed = replace(inputs, weights=weights)
    else:
        changed = replace(inputs, **{name: OTHER[name]})
    fits = [predictions_name(record_key(trial(i), fold, i)) for i in (inputs, changed)]
    assert (fits[0] == fits[1]) is (name in MEASURED)


def test_the_version_of_the_method_is_in_the_keys(study, inputs, monkeypatch):
    fold = SPLITS.outer(study.loaded.table)["0"]
    before = trial(inputs)
    old = before.key, record_key(before, fold, inputs)
    monkeypatch.setitem(methods(), "krr_fkd", replace(methods()["krr_fkd"], version=99))
    after = trial(inputs)
    assert not {after.key, record_key(after, fold, inputs)} & set(old)


def another(parameter, value):
    """A value of a parameter that is not this one."""
    if parameter.name == "approximation":
        return Approximation("nystroem", 51)
    if "choices" in parameter.metadata:
        return next(choice for choice in parameter.metadata["choices"] if choice != value)
    return not value if isinstance(value, bool) else value + 1


@pytest.mark.parametrize(
    ("method", "parameter"),
    [
        pytest.param(name, parameter, id=f"{name}-{parameter.name}")
        for name in ("krr_fkd", "svr_fkd", "krr_fks", "svr_fks")
        for parameter in fields(methods()[name].parameters)
    ],
)
def test_every_parameter_is_in_the_keys(study, inputs, method, parameter):
    fold = SPLITS.outer(study.loaded.table)["0"]
    setting = methods()[method].parameters()
    changed = replace(
        setting, **{parameter.name: another(parameter, getattr(setting, parameter.name))}
    )
    before, after = make_trials(method, [setting, changed], inputs)
    assert after.key != before.key
    assert record_key(after, fold, inputs) != record_key(before, fold, inputs)


def test_rows_are_in_the_key_of_a_record(study, inputs):
    table = study.loaded.table
    keys = {record_key(trial(inputs), fold, inputs) for fold in SPLITS.all(table).values()}
    assert len(keys) == 9


@pytest.mark.parametrize("name", OTHER_SPLITS)
def test_splits_decide_the_sums_under_a_shared_map_only(study, inputs, name):
    fold = SPLITS.outer(study.loaded.table)["0"]
    changed = replace(inputs, splits=replace(SPLITS, **{name: OTHER_SPLITS[name]}))
    for shared in (False, True):
        old, new = trial(inputs, shared=shared), trial(changed, shared=shared)
        assert (record_key(new, fold, changed) != record_key(old, fold, inputs)) is shared
        # A trial is its folds; inner ones do not enter unless sums are taken over their cells.
        assert (new.key != old.key) is (shared or name != "inner_folds")


@pytest.fixture
def shared(inputs):
    return SharedMap(inputs, 0.05, Approximation("nystroem", 50, shared=True))


# Landmarks are chosen among rows that count once each, whatever their weights.
MAP_INPUTS = sorted(set(OTHER) - {"sensitive", "measure_on", "versions", "weights"})


@pytest.mark.parametrize("name", MAP_INPUTS)
def test_every_input_of_a_map_is_in_its_key(shared, name):
    changed = replace(shared, inputs=replace(shared.inputs, **{name: OTHER[name]}))
    assert changed.key != shared.key


@pytest.mark.parametrize(
    "change",
    [
        {"gamma": 0.1},
        {"approximation": Approximation("nystroem", 51, shared=True)},
        {"approximation": Approximation("fourier", 50, shared=True)},
        {"approximation": Approximation("nystroem", 50, "uniform", shared=True)},
    ],
)
def test_every_setting_of_a_map_is_in_its_key(shared, change):
    assert replace(shared, **change).key != shared.key


def test_versions_and_folds_are_in_the_key_of_a_map(shared, monkeypatch):
    inputs = shared.inputs
    others = [
        raised(inputs, "encoder"),
        replace(inputs, splits=replace(SPLITS, folds=OTHER_SPLITS["folds"])),
        replace(inputs, splits=replace(SPLITS, seed=5)),
        replace(inputs, seed=5),
    ]
    keys = {shared.key, *(replace(shared, inputs=other).key for other in others)}
    monkeypatch.setattr(shared_map, "VERSION", 99)
    assert len({*keys, shared.key}) == 6


def test_what_is_removed_or_measured_does_not_make_another_map(shared):
    for name in ("sensitive", "measure_on"):
        changed = replace(shared.inputs, **{name: OTHER[name]})
        assert replace(shared, inputs=changed).key == shared.key


def test_every_input_of_moments_is_in_their_key(shared, monkeypatch):
    stored = store_map(shared)

    def path(stored, cell=0, precision="float64"):
        return streaming.sums_name(streaming.Sums(stored, precision), cell, None)

    def with_inputs(**changes):
        return replace(stored, shared=replace(shared, inputs=replace(shared.inputs, **changes)))

    found = {
        path(stored),
        path(stored, 1),
        path(stored, precision="float32"),
        path(stored, precision="rows"),
        path(replace(stored, checksum="0" * 64)),
        path(with_inputs(sensitive=("racePctWhite",))),
        path(with_inputs(scale="zscore")),
        path(with_inputs(seed=1)),
        path(replace(stored, shared=replace(shared, gamma=0.3))),
    }
    monkeypatch.setattr(streaming, "VERSION", 99)
    assert len({*found, path(stored)}) == 10


def test_every_input_of_a_champion_is_in_its_key(quick_study, monkeypatch):
    study = quick_study
    first, second, *_ = study.trials
    before = champion.champion_key(study, first)
    keys = {before, champion.champion_key(study, second)}
    tree = study.config.model_dump(mode="json")
    tree["select"]["inner_folds"] = 3
    other = replace(study, config=type(study.config).model_validate(tree))
    keys.add(champion.champion_key(other, first))
    with monkeypatch.context() as patch:
        patch.setattr(champion, "VERSION", 99)
        keys.add(champion.champion_key(study, first))
    with monkeypatch.context() as patch:
        patch.setattr(champion, "__version__", "99")
        keys.add(champion.champion_key(study, first))
    name = first.method
    monkeypatch.setitem(methods(), name, replace(methods()[name], version=99))
    keys.add(champion.champion_key(study, first))
    assert len(keys) == 6


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.csv"
    lines = [f"{i},{i % 3},{i % 7},{i % 5},{'ab'[i % 2]},{i % 4}" for i in range(40)]
    path.write_text("\n".join(["y,s,t,x,kind,year", *lines]))
    return {
        "problem": "table",
        "path": str(path),
        "target": "y",
        "sensitive": ["s"],
        "numeric": ["x", "t"],
        "categorical": ["kind"],
        "keep": ["year"],
    }


@pytest.mark.parametrize(
    "change",
    [
        {"target": "t", "numeric": ["x"]},
        {"sensitive": ["s", "t"]},
        {"measure_on": ["t"]},
        {"numeric": ["x"]},
        {"categorical": [], "numeric": ["x", "t"]},
        {"keep": []},
        {"sample": 20},
        {"drop": ["x"]},
    ],
    ids=str,
)
def test_every_choice_of_columns_is_in_the_digest_of_a_table(settings, own, change):
    before = load_table(DataConfig.model_validate(own), settings).digest
    after = load_table(DataConfig.model_validate({**own, **change}), settings).digest
    assert after != before


def test_the_content_of_a_file_is_in_the_digest_of_a_table(settings, own):
    before = load_table(DataConfig.model_validate(own), settings).digest
    path = Path(own["path"])
    path.write_text(path.read_text().replace("39,", "38,"))
    assert load_table(DataConfig.model_validate(own), settings).digest != before


def test_scales_are_no_part_of_the_digest_of_a_table(settings, own):
    before = load_table(DataConfig.model_validate(own), settings).digest
    for change in ({"scale": "zscore"}, {"scale_on": "all"}):
        assert load_table(DataConfig.model_validate({**own, **change}), settings).digest == before


@pytest.mark.parametrize(
    "change", [{"labels": "codes"}, {"states": ["WY"]}, {"year": [2017]}], ids=str
)
def test_every_choice_of_a_census_table_is_in_its_digest(settings, change):
    synthetic = {
        "problem": "acs_income",
        "source": "synthetic",
        "synthetic": {"rows": 300},
        "sample": 50,
    }
    before = load_table(DataConfig.model_validate(synthetic), settings).digest
    assert load_table(DataConfig.model_validate({**synthetic, **change}), settings).digest != before


@pytest.mark.parametrize(
    "change",
    [
        {"record_keys": ("a", "c")},
        {"column": "racePctWhite"},
        {"score": "gdp"},
        {"draws": 11},
    ],
    ids=str,
)
def test_every_input_of_resampled_scores_is_in_their_key(inputs, change):
    job = Resampling(inputs, ("a", "b"), "racepctblack", "hgr", 10)
    assert replace(job, **change).name != job.name


@pytest.mark.parametrize("name", ["_VERSION", "_SEED"])
def test_version_and_seed_are_in_the_key_of_resampled_scores(inputs, monkeypatch, name):
    job = Resampling(inputs, ("a", "b"), "racepctblack", "hgr", 10)
    before = job.name
    monkeypatch.setattr(resample, name, 99)
    assert job.name != before


def _keys(study):
    table = study.loaded.table
    return {
        record_key(trial, fold, study.inputs)
        for trial in study.trials
        for fold in study.inputs.splits.outer(table).values()
    }


def test_trials_that_share_a_factorisation_are_one_job(settings):
    study = open_study(load_config(), settings)
    assert len(study.trials) == 24
    jobs = study.missing()
    splits = 5 + 4  # outer with inner folds
    assert len(jobs) == 2 * splits  # the dummy by itself, all fair methods on one kernel
    assert sorted({len(job.trials) for job in jobs}) == [1, 23]


def test_nothing_is_missing_once_computed(quick_study):
    assert quick_study.missing() == []
    assert len(quick_study.results()) == len(quick_study.trials)


def test_a_larger_grid_asks_for_the_new_setting_only(quick_study, settings):
    larger = quick_study.config.model_dump(mode="json")
    larger["methods"][1]["grid"]["iterations"].append(6)
    study = open_study(type(quick_study.config).model_validate(larger), settings)
    assert {t.parameters["iterations"] for j in study.missing() for t in j.trials} == {6}


@pytest.mark.parametrize(
    "change",
    ["seed=1", "cluster.blas_threads=2", "methods.1.ridge=0.2", "data.drop=[]", "folds.k=4"],
)
def test_whatever_decides_the_numbers_is_in_the_key(settings, change):
    plain = open_study(load_config("default", ["methods=[dummy, krr_fkd]"]), settings)
    other = open_study(load_config("default", ["methods=[dummy, krr_fkd]", change]), settings)
    krr = _keys(plain) - _keys(other)
    assert krr


@pytest.mark.parametrize("change", ["cluster.workers=1", "cluster.retries=1", "name=other"])
def test_where_a_run_is_computed_is_not_in_the_key(settings, change):
    assert _keys(open_study(load_config(), settings)) == _keys(
        open_study(load_config("default", [change]), settings)
    )


def test_a_raised_version_of_a_method_makes_its_trials_new(quick_study, monkeypatch):
    declared = methods()["krr_fkd"]
    raised = dataclasses.replace(declared, version=declared.version + 1)
    monkeypatch.setitem(methods(), "krr_fkd", raised)
    assert {t.method for job in quick_study.missing() for t in job.trials} == {"krr_fkd"}


def test_a_trials_numbers_do_not_depend_on_its_neighbours(settings):
    def computed(overrides):
        study = open_study(load_config("default", overrides), settings)
        (job, *_) = [j for j in study.missing() if j.split == "0"]
        run_job(job)
        wanted = study.trials[0]
        fold = study.inputs.splits.outer(study.loaded.table)["0"]
        key = record_key(wanted, fold, study.inputs)
        record_file(study.store, key).unlink()
        return study.store.predictions(key)

    alone = computed(["methods=[{name: svr_fkd, iterations: 5}]"])
    together = computed(["methods=[{name: svr_fkd, grid: {iterations: [5, 30, 0]}}, krr_fkd]"])
    assert np.array_equal(alone, together)

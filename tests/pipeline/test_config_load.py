import os

import pytest
import yaml
from optional import needs
from own_sample import write_rents

from configs.errors import UserError
from configs.load import dump_config, load_config, parse_config, shipped
from configs.methods import MethodConfig
from fkd.baselines.base import LEACE

KRR_PAPER_CRIMES = [0, 5, 10, 18]


def _methods(config):
    return {entry.name: entry for entry in config.methods}


def test_the_default_configuration_is_the_paper_on_embedded_crimes():
    config = load_config()
    assert (config.data.problem, config.data.source, config.folds.k) == ("crimes", "embedded", 5)
    assert [entry.name for entry in config.methods] == ["dummy", "krr_fkd", "svr_fkd", "svr_fks"]
    settings = _methods(config)["krr_fkd"].settings("crimes")
    assert [p.iterations for p in settings] == KRR_PAPER_CRIMES
    assert {(p.gamma, p.alpha, p.ridge) for p in settings} == {(0.05, 0.25, 0.1)}
    svr = _methods(config)["svr_fkd"].settings("crimes")
    assert [p.iterations for p in svr] == [0, 5, 30, 45, 60, 80]
    assert {(p.gamma, p.C, p.epsilon, p.ridge) for p in svr} == {(0.05, 0.75, 0.01, 0.05)}


WITH_LEACE = ("country_income", "country_travel_time")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=needs(LEACE if name in WITH_LEACE else None)) for name in shipped()],
)
def test_every_shipped_configuration_survives_a_round_trip(name):
    config = load_config(name)
    assert parse_config(yaml.safe_load(dump_config(config)), "dump") == config


def test_a_name_a_file_name_and_a_path_mean_the_same(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(dump_config(load_config()))
    assert load_config("default") == load_config("configs/default.yaml") == load_config(path)


def test_parameters_and_grids_of_an_entry_override_the_papers(tmp_path):
    config = parse_config(
        {
            "methods": [
                {
                    "name": "krr_fkd",
                    "alpha": 1,
                    "grid": {"iterations": [0, 3], "gamma": [0.1, 0.2]},
                    "approximation": {"kind": "nystroem", "landmarks": 50},
                }
            ]
        },
        "test",
    )
    settings = config.methods[0].settings("crimes")
    assert [(p.iterations, p.gamma) for p in settings] == [(0, 0.1), (0, 0.2), (3, 0.1), (3, 0.2)]
    assert {p.alpha for p in settings} == {1.0}
    assert settings[0].approximation.landmarks == 50
    assert parse_config(config.model_dump(mode="json"), "dump") == config


def test_fixing_a_grid_parameter_leaves_one_setting():
    config = parse_config({"methods": [{"name": "krr_fkd", "iterations": 7}]}, "test")
    assert [p.iterations for p in config.methods[0].settings("crimes")] == [7]


def test_a_problem_without_published_values_takes_parameters_of_acs_income_on_a_short_grid():
    found = MethodConfig.model_validate("svr_fkd").settings("mine")
    assert [p.iterations for p in found] == [0, 1, 2, 4, 8, 16]
    assert {(p.C, p.epsilon) for p in found} == {(0.5, 0.005)}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("sed=1", ["seed"]),
        ("folds.kk=3", ["folds.kk", "'k'"]),
        ("folds.k=many", ["folds.k", "integer", "'many'"]),
        ("folds.k=1", ["folds.k", "2"]),
        ("data.sensitiv=[x]", ["data.sensitiv", "sensitive"]),
        ("methods.1.gama=3", ["krr_fkd", "gama", "'gamma'"]),
        ("methods.1.gamma=-1", ["krr_fkd", "gamma", "above 0", "-1"]),
        ("methods.1.gamma=.nan", ["krr_fkd", "gamma", "finite"]),
        ("methods.1.approximation.landmrks=3", ["krr_fkd", "landmrks", "'landmarks'"]),
        ("methods.1.approximation.kind=nystrom", ["kind", "'nystroem'"]),
        ("methods.1.grid.itertions=[1]", ["krr_fkd", "itertions", "'iterations'"]),
        ("methods.1.grid.iterations=[-1]", ["krr_fkd", "iterations"]),
        ("methods.1.grid.iterations=[]", ["iterations", "at least one"]),
        ("methods=[svr_fkdd]", ["svr_fkdd", "'svr_fkd'"]),
        ("methods=[]", ["methods"]),
        ("cluster={workers: 1, address: tcp://127.0.0.1:1}", ["address", "workers"]),
        ("select.knee_of=gdp", ["knee_of", "subject_to"]),
        ("select.subject_to={gpd: 1}", ["gdp"]),
        ("select.subject_to={dcor: 0.3}", ["hgr, gdp, pf", "dcor", "reported=False"]),
        ("name=../x", ["name"]),
    ],
)
def test_a_wrong_key_or_value_is_one_sentence_with_the_nearest_valid_word(override, words):
    with pytest.raises(UserError) as caught:
        load_config("default", [override])
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("source", ["defualt", "nowhere/x.yaml"])
def test_a_missing_file_is_named(source):
    with pytest.raises(UserError, match=source.split("/")[-1].removesuffix(".yaml")):
        load_config(source)


@pytest.mark.parametrize("text", ["- a\n- b\n", "{", "", "just words"])
def test_a_file_that_is_no_configuration_is_refused(tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"bad\.yaml"):
        load_config(path)


def test_the_digest_ignores_where_numbers_are_computed_and_kept():
    plain = load_config()
    elsewhere = ["cluster.workers=1", "tracking.experiment=other", "predictions=drop"]
    moved = load_config("default", elsewhere)
    assert plain.digest == moved.digest
    assert plain.digest != load_config("default", ["cluster.blas_threads=2"]).digest


def test_another_grid_is_another_configuration_of_the_same_experiment():
    plain = load_config()
    other = load_config("default", ["methods=[dummy]"])
    assert plain.digest != other.digest
    assert plain.experiment == other.experiment


def test_a_run_without_methods_is_told_what_to_write():
    for methods in ({}, {"methods": None}, {"methods": []}):
        with pytest.raises(
            UserError, match=r"methods: at least one .*`methods: \[krr_fkd, dummy\]"
        ):
            parse_config({"name": "mine", **methods}, "mine.yaml")


def test_a_data_file_is_looked_for_beside_the_yaml_then_from_here(tmp_path, monkeypatch):
    source = write_rents(tmp_path / "files")
    beside = str(tmp_path / "files" / "mieten.csv")
    for folder in (tmp_path, tmp_path / "files"):
        monkeypatch.chdir(folder)
        assert load_config(source).data.path == beside
        assert load_config(os.path.relpath(source)).data.path == beside
    (tmp_path / "other.csv").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert load_config(source, ["data.path=other.csv"]).data.path == str(tmp_path / "other.csv")
    (tmp_path / "files" / "mieten.csv").rename(tmp_path / "mieten.csv")
    assert load_config(source).data.path == str(tmp_path / "mieten.csv")


def test_a_moved_data_file_is_the_same_configuration(tmp_path):
    here, there = (load_config(write_rents(tmp_path / name)) for name in ("here", "there"))
    assert here.data.path != there.data.path
    assert here.digest == there.digest


def test_a_table_in_place_of_a_configuration_is_told_apart(tmp_path):
    path = write_rents(tmp_path).with_suffix(".csv")
    with pytest.raises(UserError, match=r"must be a configuration, got a table.*fkd init"):
        load_config(path)


def test_a_misspelt_only_method_is_one_fault():
    with pytest.raises(UserError, match="nearest is 'krr_fkd'") as caught:
        parse_config({"methods": ["krr_fdk"]}, "mine.yaml")
    assert "at least" not in str(caught.value)

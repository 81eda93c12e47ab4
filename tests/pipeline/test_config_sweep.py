import pytest

from configs.errors import UserError
from configs.load import expand, load_config, load_configs


def _expand(sweep, **tree):
    return expand({"name": "crimes", **tree, "sweep": sweep}, "file.yaml")


def test_a_file_without_a_sweep_is_one_run():
    assert expand({"name": "crimes", "seed": 3}, "file.yaml") == [{"name": "crimes", "seed": 3}]


def test_every_combination_is_a_run_named_after_its_values():
    runs = _expand({"data.states": [["MT"], ["ID", "NM"]], "data.year": [2018, 2019]}, data={})
    assert [run["name"] for run in runs] == [
        "crimes-MT-2018",
        "crimes-MT-2019",
        "crimes-ID_NM-2018",
        "crimes-ID_NM-2019",
    ]
    assert runs[2]["data"] == {"states": ["ID", "NM"], "year": 2018}
    assert all("sweep" not in run for run in runs)
    assert {run["tracking"]["experiment"] for run in runs} == {"crimes"}
    assert [run["tracking"]["model"] for run in runs] == [run["name"] for run in runs]


def test_names_in_mlflow_may_be_given():
    runs = _expand({"seed": [0, 1]}, tracking={"experiment": "mine"})
    assert [run["tracking"]["experiment"] for run in runs] == ["mine", "mine"]
    assert [run["tracking"]["model"] for run in runs] == ["crimes-0", "crimes-1"]


def test_the_runs_share_nothing_that_one_could_change_for_another():
    first, second = _expand({"data.year": [2018, 2019]}, data={"states": ["MT"]})
    first["data"]["year"] = 1900
    assert second["data"]["year"] == 2019


def test_problems_may_be_swept_as_whole_blocks():
    runs = _expand({"data": [{"problem": "crimes"}, {"problem": "acs_income", "states": ["MT"]}]})
    assert [run["name"] for run in runs] == ["crimes-crimes", "crimes-acs_income_MT"]


def test_a_name_stays_short_however_many_values_it_tells_apart():
    many = [[f"state{i}" for i in range(50)], [f"state{i}" for i in range(51)]]
    names = [run["name"] for run in _expand({"data.states": many}, data={})]
    assert max(map(len, names)) <= 60
    assert len(set(names)) == 2


@pytest.mark.parametrize("sweep", [["seed"], {"seed": 3}, {"seed": []}, "seed"])
def test_what_is_no_map_of_lists_is_refused_with_an_example(sweep):
    with pytest.raises(UserError, match=r"file\.yaml: sweep must map paths to lists.*data\.states"):
        _expand(sweep)


def test_equal_values_are_refused():
    with pytest.raises(UserError, match="must differ"):
        _expand({"seed": [1, 1]})


def test_a_sweep_is_validated_run_by_run(tmp_path):
    file = tmp_path / "sweep.yaml"
    file.write_text("name: s\nmethods: [dummy]\nsweep: {seed: [0, 1], folds.k: [2, 3]}\n")
    configs = load_configs(file)
    assert [(c.seed, c.folds.k) for c in configs] == [(0, 2), (0, 3), (1, 2), (1, 3)]
    with pytest.raises(UserError, match=r"describes 4 runs\. Use `fkd sweep"):
        load_config(file)
    with pytest.raises(UserError, match="'k'"):
        load_configs(file, ["sweep={folds.kk: [2]}"])

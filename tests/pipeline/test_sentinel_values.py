"""Codes for missing values: detected in columns, refused by a run, a warning of the library."""

import warnings

import numpy as np
import pandas as pd
import pytest
import yaml
from dask_process import THREADS
from numpy.testing import assert_array_equal

import fkd
from configs.data import DataConfig
from configs.errors import UserError
from configs.load import parse_config
from fkd import FairKernelRidge, FairnessWarning
from fkd.baselines import NullspaceProjection, ResidualTargetRidge
from fkd.core.sentinel_values import sentinel_values
from fkd.measures import hgr
from flows.cli import main
from tasks.data.load import load_table
from tasks.storage.settings import read_settings

WITHOUT_CODES = {
    "log-normal": lambda rng, n: rng.lognormal(0, 2, n),
    "incomes": lambda rng, n: np.round(rng.lognormal(10.5, 0.9, n), -2),
    "Pareto": lambda rng, n: rng.pareto(1, n) + 1,
    "whole Pareto": lambda rng, n: np.floor(5 * (rng.pareto(1, n) + 1)),
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "Poisson mixture": lambda rng, n: rng.poisson(np.where(rng.random(n) < 0.95, 2, 30)),
    "rare large counts": lambda rng, n: rng.poisson(np.where(rng.random(n) < 0.99, 2, 100)),
    "negative binomial": lambda rng, n: rng.negative_binomial(0.1, 0.01, n),
    "90 % zeros": lambda rng, n: np.where(rng.random(n) < 0.9, 0, np.floor(rng.lognormal(3, 2, n))),
    "ages": lambda rng, n: rng.integers(0, 111, n),
    "few old": lambda rng, n: np.where(
        rng.random(n) < 0.01, rng.integers(90, 116, n), rng.integers(18, 66, n)
    ),
    "shares": lambda rng, n: rng.beta(0.05, 5, n),
    "years": lambda rng, n: rng.integers(1900, 2025, n),
    "temperatures": lambda rng, n: np.round(rng.normal(15, 8, n)),
    "incomes with zeros": lambda rng, n: np.where(
        rng.random(n) < 0.1, 0, np.round(rng.lognormal(10.5, 0.9, n), -2)
    ),
    "wages with zeros": lambda rng, n: np.where(rng.random(n) < 0.03, 0, rng.uniform(800, 1200, n)),
    "half degrees": lambda rng, n: np.round(2 * rng.normal(10, 5, n)) / 2,
    "tenths of degrees": lambda rng, n: np.round(rng.normal(10, 5, n), 1),
    "counts": lambda rng, n: rng.poisson(4, n),
    "z-scores": lambda rng, n: np.round(rng.normal(0, 1, n), 2),
    "two values": lambda rng, n: rng.integers(0, 2, n),
    "marks": lambda rng, n: rng.integers(1, 11, n),
}
WITH_CODES = {
    "ages": lambda rng, n: rng.integers(18, 81, n).astype(float),
    "shares": lambda rng, n: rng.beta(2, 5, n),
    "incomes": lambda rng, n: np.round(rng.lognormal(10.5, 0.7, n)),
    "birth years": lambda rng, n: rng.integers(1940, 2006, n).astype(float),
}


@pytest.mark.parametrize("family", WITHOUT_CODES)
def test_columns_without_codes_raise_no_alarm(family):
    rng = np.random.default_rng(4)
    alarms = draws = 0
    for n, times in ((20, 700), (60, 300), (600, 200)):
        for _ in range(times):
            alarms += len(sentinel_values(WITHOUT_CODES[family](rng, n))[0]) > 0
            draws += 1
    # `python -m benchmarks sentinel_values` counts more draws of more families.
    assert alarms <= 2, f"{alarms} of {draws}"


@pytest.mark.parametrize(
    ("family", "codes"),
    [
        ("ages", (999, 9999, 99999, -9, -99, -999, -9999, 1e6, 99999999)),
        ("ages", (999.9, -99.9, 9999.99, 1111, 2222)),
        ("shares", (99, 999, 9999, 99999, -9, -99, -999, -9999, 1e6, 99999999, 99.9)),
        ("incomes", (-9, -99, -999, -9999, 99999999)),
        ("birth years", (0, 9999)),
    ],
)
def test_codes_are_found_with_their_rows(family, codes):
    rng = np.random.default_rng(1)
    for code in codes:
        for _ in range(20):
            column = WITH_CODES[family](rng, 600)
            rows = np.sort(rng.choice(600, 3, replace=False))
            column[rows] = code
            found, where = sentinel_values(column)
            assert_array_equal(found, [code])
            assert_array_equal(where, rows)


def test_several_codes_are_found_together_even_in_many_rows():
    age = np.random.default_rng(0).integers(18, 81, 600).astype(float)
    age[::10], age[1], age[2], age[3] = 9999, 9998, 99999, -9999
    assert_array_equal(sentinel_values(age)[0], [-9999, 9998, 9999, 99999])


@pytest.mark.parametrize("codes", [range(996, 1000), range(9994, 10000)])
def test_a_series_of_codes_is_found(codes):
    age = np.random.default_rng(0).integers(18, 81, 600).astype(float)
    age[: len(codes)] = codes
    assert_array_equal(sentinel_values(age)[0], codes)


def test_unit_and_offset_do_not_hide_an_isolated_value():
    age = np.append(np.random.default_rng(0).integers(18, 81, 600), 123456.0)
    for column in (age, -age, age / 7e9, 1e6 - age):
        assert_array_equal(sentinel_values(column)[1], [600])


def test_a_single_cold_day_is_no_code():
    assert not len(sentinel_values(np.append(np.arange(0, 20, 0.5), -7))[0])


def test_missing_values_and_constants_are_no_codes():
    age = np.random.default_rng(0).integers(18, 81, 600).astype(float)
    age[:5], age[7] = np.nan, 9999
    assert_array_equal(sentinel_values(age)[1], [7])
    for column in (np.full(30, 999.0), np.full(30, np.nan), np.empty(0), np.array([-9.0, -9.0])):
        assert not len(sentinel_values(column)[0])


def test_embedded_columns_raise_no_alarm(settings):
    table = load_table(DataConfig(problem="crimes"), read_settings()).table
    for column in (table.target, *table.sensitive.T, *table.numeric.T):
        assert not len(sentinel_values(column)[0])


def people(n=600):
    """Wages that depend on age through an input."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n).astype(float)
    hours, tenure = rng.normal(40, 5, n), 0.5 * age + rng.normal(0, 10, n)
    wage = np.round(20 * hours + 8 * age + rng.normal(0, 60, n), 2)
    return pd.DataFrame({"age": age, "hours": hours, "tenure": tenure, "wage": wage})


@pytest.fixture
def coded():
    frame = people()
    frame.loc[[41, 307], "age"] = [9999, 99999]
    return frame


@pytest.fixture
def here(tmp_path, monkeypatch, settings):
    monkeypatch.chdir(tmp_path)
    return tmp_path


DATA = {
    "problem": "table",
    "path": "own.csv",
    "target": "wage",
    "sensitive": ["age"],
    "numeric": ["hours", "tenure"],
}


def run(folder, frame, *words, **data):
    """Return the exit code of a run."""
    frame.to_csv(folder / "own.csv", index=False)
    plain = {
        "name": "own",
        "data": {**DATA, **data},
        "methods": [{"name": "krr_fkd", "grid": {"iterations": [0]}}],
        "folds": {"k": 2},
        "select": None,
        "cluster": THREADS,
    }
    (folder / "own.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        main(["run", "own.yaml", *words])
    return end.value.code


def test_a_run_refuses_codes_and_runs_without_them(here, coded, settings, capsys):
    assert run(here, coded) == 2
    printed = " ".join(capsys.readouterr().err.split())
    for part in ("column age", "9999, 99999", "2 rows", "line 43", "line 309"):
        assert part in printed
    assert "missing_words: [9999, 99999]" in printed
    assert "ranges: {age: [18, 99999]}" in printed
    results = settings.home / "experiments" / "own" / "results.csv"
    assert not results.exists()

    assert run(here, coded, missing_words=[9999, 99999]) == 0
    real = pd.read_csv(results)["hgr"].mean()
    assert run(here, coded, ranges={"age": [0, 100_000]}) == 0
    assert pd.read_csv(results)["hgr"].mean() < 0.35 < 0.4 < real


def load(folder, frame, **data):
    frame.to_csv(folder / "own.csv", index=False)
    return load_table(DataConfig.model_validate({**DATA, **data}), read_settings())


def test_the_target_a_measured_column_and_a_sample_are_checked(here):
    frame = people()
    frame.loc[3, "wage"] = -999
    with pytest.raises(UserError, match=r"column wage .*-999 in 1 row \(line 5\)"):
        load(here, frame)
    frame.loc[3, "wage"] = 99999999999
    with pytest.raises(UserError, match=r"\[99999999999\] .*, 99999999999\]"):
        load(here, frame)
    # Even if no row of the sample has it, the unit of the column does.
    with pytest.raises(UserError, match="column wage"):
        load(here, frame, sample=10)
    frame = people()
    frame.loc[:8, "hours"] = 99999
    assert load(here, frame).table.n == 600  # an input
    with pytest.raises(UserError, match=r"column hours .* in 9 rows .*\.\.\."):
        load(here, frame, measure_on=["age", "hours"])


def test_a_short_code_counts_from_three_rows_on(here):
    frame = people()
    frame.loc[[3, 50], "age"] = -9
    assert load(here, frame).table.n == 600
    frame.loc[70, "age"] = -9
    with pytest.raises(UserError, match=r"column age .*-9 in 3 rows"):
        load(here, frame)


def test_a_prepared_table_is_checked_again(here, coded):
    digest = load(here, coded, ranges={"age": [0, 1e5]}).digest
    with pytest.raises(UserError, match="column age"):
        load(here, coded)
    assert load(here, coded, ranges={"age": [18, 99999]}).digest == digest


def test_values_outside_a_declared_range_are_refused(here):
    frame = people()
    frame.loc[5, "age"], frame.loc[6, "hours"] = 121, -1
    assert load(here, frame).table.n == 600
    with pytest.raises(UserError, match=r"column age .*\[0, 120\].* 121 in 1 row \(line 7\)"):
        load(here, frame, ranges={"age": [0, 120]})
    with pytest.raises(UserError, match=r"column hours .*data\.ranges.* -1 "):
        load(here, frame, ranges={"hours": [0, 80]})
    assert load(here, frame, ranges={"age": [0, 121], "hours": [-1, 80]}).table.n == 600


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ({"aeg": [0, 120]}, "data.ranges .*nearest is 'age'"),
        ({"age": [120, 0]}, "low < high"),
        ({"age": [5, 5]}, "low < high"),
        ({"age": ["a", 5]}, "ranges"),
        ({"age": [True, 5]}, "ranges"),
        ({"age": [0, float("inf")]}, "ranges"),
        ({"age": [1, 2, 3]}, "ranges"),
        ({"age": 5}, "ranges"),
    ],
)
def test_an_invalid_range_is_refused(ranges, words):
    with pytest.raises(ValueError, match=words):
        DataConfig.model_validate({**DATA, "ranges": ranges})


def test_ranges_apply_to_users_tables_and_are_not_in_the_digest():
    with pytest.raises(ValueError, match=r"data\.ranges"):
        DataConfig(problem="crimes", ranges={"racepctblack": (0, 1)})
    plain = {"name": "own", "data": DATA, "methods": ["dummy"]}
    bare = parse_config(plain, "own.yaml")
    ranged = parse_config({**plain, "data": {**DATA, "ranges": {"age": [0, 9]}}}, "own.yaml")
    assert bare.digest == ranged.digest
    assert ranged.data.model_dump()["ranges"] == {"age": (0, 9)}


def test_init_proposes_the_remedy(here, coded, capsys):
    coded.to_csv("own.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["init", "own.csv", "--target", "wage", "--sensitive", "age"])
    assert end.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "age holds 9999, 99999" in printed
    assert "data.ranges" in printed
    text = (here / "own.yaml").read_text(encoding="utf-8")
    assert "# ranges: {age: [18.0, 99999.0]}" in text
    tree = yaml.safe_load(text)
    assert tree["data"]["missing_words"] == ["9999", "99999"]
    assert load_table(DataConfig.model_validate(tree["data"]), read_settings()).table.n == 598


@pytest.fixture
def shared_code():
    """Pupils: 99 is a code in age and a real value of the input score."""
    rng = np.random.default_rng(0)
    age, score = rng.integers(6, 19, 600).astype(float), rng.integers(60, 131, 600)
    age[[3, 50, 70]], score[100:135] = 99, 99
    wage = np.round(rng.normal(900, 90, 600), 2)
    return pd.DataFrame({"age": age, "score": score, "wage": wage})


def test_init_does_not_set_a_code_that_is_real_elsewhere(here, shared_code, capsys):
    shared_code.loc[9, "age"] = 9999
    count = (shared_code["score"] == 99).sum()
    shared_code.to_csv("own.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["init", "own.csv", "--target", "wage", "--sensitive", "age"])
    assert end.value.code == 0
    reason = f"99 in {count} rows of score"
    assert reason in " ".join(capsys.readouterr().out.split())
    text = (here / "own.yaml").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if reason in line and line.startswith("  #")]
    data = DataConfig.model_validate(yaml.safe_load(text)["data"])
    assert data.missing_words == ("9999",)
    with pytest.raises(UserError, match=r"column age .*99 in 3 rows .*data\.ranges"):
        load_table(data, read_settings())


def test_init_sets_a_code_that_is_also_one_elsewhere(here, shared_code):
    shared_code["score"] = shared_code["score"].where(shared_code.index > 9, 9999)
    shared_code["age"] = shared_code["age"].replace(99, 9999)
    shared_code.to_csv("own.csv", index=False)
    with pytest.raises(SystemExit):
        main(["init", "own.csv", "--target", "wage", "--sensitive", "age"])
    tree = yaml.safe_load((here / "own.yaml").read_text(encoding="utf-8"))
    assert tree["data"]["missing_words"] == ["9999"]


def test_the_error_names_other_columns_with_the_code(here, shared_code):
    count = (shared_code["score"] == 99).sum()
    with pytest.raises(UserError, match=rf"missing_words.*score in {count} rows"):
        load(here, shared_code, numeric=["score"])


def test_init_prints_nothing_on_columns_without_codes(here, capsys):
    people().to_csv("own.csv", index=False)
    with pytest.raises(SystemExit):
        main(["init", "own.csv", "--target", "wage", "--sensitive", "age"])
    assert "ranges" not in capsys.readouterr().out + (here / "own.yaml").read_text()


def test_an_audit_warns_first(here, coded, capsys):
    with pytest.warns(FairnessWarning) as caught_warnings:
        found = fkd.audit(coded["wage"], coded["tenure"], coded[["age"]], replicates=20)
    assert found.notes == tuple(str(warning.message) for warning in caught_warnings)
    assert "column age holds 9999, 99999 in 2 of 600 rows" in found.notes[0]
    coded.assign(prediction=coded["tenure"]).to_csv("p.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["audit", "p.csv", "--target", "wage", "--sensitive", "age"])
    assert end.value.code == 0
    assert "9999" in capsys.readouterr().out.split("HGR")[0]
    page = (here / "audit.html").read_text(encoding="utf-8")
    assert 0 < page.index("9999, 99999") < page.index('id="numbers"')


@pytest.mark.parametrize(
    "make",
    [
        FairKernelRidge,
        lambda: FairKernelRidge(unfairness={"hgr": 0.3}),
        fkd.FairSVR,
        fkd.FairKernelDecomposition,
        ResidualTargetRidge,
        NullspaceProjection,
    ],
)
def test_a_fit_warns_once(make, coded):
    X = coded[["hours", "tenure"]].iloc[:200]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make().fit(X, coded["wage"][:200], sensitive_features=coded[["age"]][:200])
    caught_warnings = [w for w in caught if "'age' holds 9999 in 1 of 200 rows" in str(w.message)]
    assert [w.category for w in caught_warnings] == [FairnessWarning]
    assert caught_warnings[0].filename == __file__


def test_a_fit_warns_of_the_target_and_of_further_rows(coded):
    frame = people()
    X, y = frame[["hours", "tenure"]], frame["wage"].copy()
    y[4] = 99999999
    with pytest.warns(FairnessWarning, match="y holds 99999999 in 1 of 600 rows"):
        FairKernelRidge(held_out=0.0).fit(X, y, sensitive_features=frame["age"])
    model = FairKernelRidge(approximation="nystroem", landmarks=20, random_state=0)
    rows = slice(0, 300)
    model.partial_fit(X[rows], frame["wage"][rows], sensitive_features=frame["age"][rows])
    rest = slice(300, 600)
    with pytest.warns(FairnessWarning, match="99999"):
        model.partial_fit(X[rest], frame["wage"][rest], sensitive_features=coded["age"][rest])


def test_weights_are_ignored_but_rows_of_weight_zero_are_removed(coded):
    X, y, s = coded[["hours", "tenure"]], coded["wage"], coded["age"]
    weights = np.where(s > 999, 0.0, 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FairnessWarning)
        FairKernelRidge(held_out=0.0, iterations=0).fit(
            X, y, sensitive_features=s, sample_weight=weights
        )


def test_two_codes_hide_dependence(coded):
    plain = people()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        assert hgr(coded["tenure"], coded["age"]) < 0.2 < 0.4 < hgr(plain["tenure"], plain["age"])

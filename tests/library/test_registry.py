"""Declared measures: one contract for all of them, and their intervals."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from fkd.measures import (
    MEASURES,
    REPORTED,
    BinnedRows,
    Nodes,
    compare,
    hgr,
    interval,
    pairwise_fairness,
)
from fkd.measures.registry import get_measure

resampling = import_module("fkd.measures.resampling")
PARITY = replace(MEASURES["pf"], name="pf dp", options={"criterion": "dp"})
every_measure = pytest.mark.parametrize(
    "measure", [*MEASURES.values(), PARITY], ids=lambda measure: measure.name
)
declared = pytest.mark.parametrize("measure", MEASURES.values(), ids=lambda measure: measure.name)


def seeded(replicates=40):
    return {"rng": np.random.default_rng(3), "replicates": replicates}


def ends(found):
    return np.array([found.estimate, found.low, found.high])


def value(measure, f, S, **options):
    """A measure against a truth that falls once, so that pairs exist in both directions."""
    y = np.roll(np.arange(len(f), dtype=float), 1)
    return measure(*measure.columns(y, f, S), **options)


@pytest.fixture
def f(rng):
    return rng.normal(size=60)


@pytest.fixture
def S(rng):
    return rng.uniform(size=(60, 2)) * [1.0, 0.3] + [0.0, 0.6]


@pytest.fixture
def rows(rng):
    """Truth, prediction and attribute."""
    s = rng.uniform(size=400)
    y = s + rng.normal(size=400)
    return y, s + 0.5 * rng.normal(size=400), s


# Declarations


def test_measures_are_declared_by_their_names():
    assert all(name == measure.name for name, measure in MEASURES.items())
    assert [*REPORTED] == ["hgr", "gdp", "pf"]
    assert all(MEASURES[name] is measure for name, measure in REPORTED.items())
    assert MEASURES["pf"].family == "separation"
    assert {m.name for m in MEASURES.values() if m.needs_truth} == {"pf"}


def test_unknown_name_is_refused():
    assert get_measure("pairwise_fairness") is MEASURES["pf"]
    assert get_measure("gdp") is MEASURES["gdp"]
    with pytest.raises(ValueError, match=r"^measure must .*hgr.*'hrg'"):
        get_measure("hrg")


@declared
def test_call_is_the_function_with_its_options(measure, rows, rng):
    columns, w = measure.columns(*rows), rng.uniform(0.5, 2, size=400)
    assert measure(*columns) == measure.function(*columns, **measure.options)
    weighted = measure(*columns, sample_weight=w)
    assert weighted == measure.function(*columns, **measure.options, sample_weight=w)
    assert weighted != measure(*columns)


@declared
def test_values_are_in_the_range_and_lower_is_fairer(measure, rows, rng):
    y, f, s = rows
    assert measure.direction == "lower"
    unfair, fair = (measure(*measure.columns(y, g, s)) for g in (f, y - s))
    for found in (unfair, fair, measure(*measure.columns(y, s, s))):
        assert measure.range[0] <= found <= measure.range[1]
    assert fair < unfair
    assert measure(*measure.columns(y, np.ones(400), s)) == measure.range[0] == 0.0


@pytest.mark.parametrize("changes", [{"range": (-1.0, 1.0)}, {"direction": "higher"}])
def test_reported_measures_are_fairest_at_zero(changes):
    with pytest.raises(ValueError, match="hgr must begin at 0"):
        replace(MEASURES["hgr"], **changes)
    assert replace(MEASURES["hgr"], reported=False, **changes).name == "hgr"


@declared
def test_scaled_measure_takes_an_attribute_in_units_of_its_range(measure, rows):
    y, f, s = rows
    scaled = measure.scaled()
    assert scaled.name == measure.name
    on_range = (s - s.min()) / np.ptp(s)
    plain, unit = (m(*measure.columns(y, f, on_range)) for m in (measure, scaled))
    assert_allclose(unit, plain, rtol=1e-12)
    # Rows that span a fifth of the range: the window of the plug-in is in their own unit.
    narrow, own = (m(*measure.columns(y, f, 0.2 * on_range)) for m in (scaled, measure))
    assert (narrow < 0.9 * own) == (measure.name == "gdp")


# Intervals


@declared
@pytest.mark.parametrize("weighted", [False, True])
def test_interval_contains_the_estimate_and_is_in_the_range(measure, rows, rng, weighted):
    y, f, s = rows
    w = rng.uniform(0.5, 2, size=400) if weighted else None
    for prediction in (f, y - s, s):
        columns = measure.columns(y, prediction, s)
        found = interval(measure, *columns, sample_weight=w, **seeded())
        keywords = {} if w is None else {"sample_weight": w}
        assert found.estimate == pytest.approx(measure(*columns, **keywords), rel=1e-12)
        assert measure.range[0] <= found.low <= found.estimate <= found.high <= measure.range[1]
        assert found.low < found.high or prediction is s


@every_measure
@pytest.mark.parametrize("weighted", [False, True])
def test_interval_is_that_of_the_function_by_rows(measure, rows, rng, weighted):
    y, f, s = (np.round(column, 1) for column in rows)
    w = rng.uniform(0.5, 2, size=400) if weighted else None
    columns = measure.columns(y, f, s)

    def by_rows(*columns, **keywords):
        return measure(*columns, **keywords)

    options = {"sample_weight": w, "bounds": measure.range}
    found = interval(measure, *columns, sample_weight=w, **seeded())
    assert_allclose(ends(found), ends(interval(by_rows, *columns, **options, **seeded())))


@pytest.mark.parametrize("name", ["hgr", "gdp", "gdp_plugin"])
@pytest.mark.parametrize("scaled", [False, True])
def test_binned_and_by_rows_intervals_agree_on_columns_of_few_values(
    rows, monkeypatch, name, scaled
):
    """Binning moves no row of such columns, so equal subsamples have equal values."""
    y, f, s = (np.round(column, 1) for column in rows)
    measure = MEASURES[name].scaled() if scaled else MEASURES[name]
    by_rows = compare(measure, (f, s), (y, s), **seeded())
    used = []

    def counted(rows, **options):
        used.append(rows.rows)
        return measure.binned(rows, **options)

    monkeypatch.setattr(resampling, "BINNED_FROM", 400)
    found = compare(replace(measure, binned=counted), (f, s), (y, s), **seeded())
    assert used == [400] * 80
    for side in ("first", "second", "difference"):
        a, b = ends(getattr(found, side)), ends(getattr(by_rows, side))
        assert a[0] == b[0]
        assert_allclose(a, b, atol=2e-6)


def test_measure_of_bins_is_that_of_the_rows(rows):
    _, f, s = (np.round(column, 1) for column in rows)
    nodes = {"f_nodes": Nodes.levels(f), "s_nodes": Nodes.levels(s)}
    counts = BinnedRows.from_rows(f, s, **nodes)
    for measure in MEASURES.values():
        if measure.interval == "binned":
            assert_allclose(measure.of_bins(counts), measure(f, s), rtol=1e-9)
            assert_allclose(measure.scaled().of_bins(counts), measure.scaled()(f, s), rtol=1e-9)


# Input


@every_measure
def test_several_columns_give_the_values_of_each_column(measure, f, S):
    values = value(measure, f, S)
    assert values.shape == (2,)
    assert values.tolist() == [value(measure, f, s) for s in S.T]


@every_measure
@pytest.mark.parametrize("shape", [(60,), (60, 1)])
def test_one_column_gives_a_float(measure, f, S, shape):
    found = value(measure, f, S[:, 0].reshape(shape))
    assert type(found) is float
    assert found > 0


@every_measure
@pytest.mark.parametrize("level", [0.0, 0.1, -3.7, 1e9])
def test_constant_prediction_is_exactly_fair(measure, S, level):
    assert (value(measure, np.full(60, level), S) == 0.0).all()
    assert value(measure, np.full(60, level), S[:, 0]) == 0.0


@every_measure
def test_prediction_constant_up_to_rounding_is_exactly_fair(measure, rng, S):
    assert (value(measure, 0.3 + 1e-16 * rng.normal(size=60), S) == 0.0).all()


@every_measure
def test_constant_attribute_gives_zero_or_is_undefined(measure, f):
    if measure.needs_truth:
        with pytest.raises(ValueError, match=r"^sensitive_features must"):
            value(measure, f, np.full(60, 0.1))
    else:
        assert value(measure, f, np.full(60, 0.1)) == 0.0


@every_measure
def test_lists_frames_integers_and_read_only_arrays_give_the_same_value(measure, f, S):
    # Whole numbers have the same value in every type.
    f, S = np.round(f * 10), (np.median(S, axis=0) < S).astype(float)
    expected = value(measure, f, S).tolist()
    f.flags.writeable = S.flags.writeable = False
    for own_f, own_S in (
        (f, S),
        (f.tolist(), S.tolist()),
        (pd.Series(f), pd.DataFrame(S)),
        (f.astype(np.float32), S.astype(int)),
        (f[:, None], S),
    ):
        assert value(measure, own_f, own_S).tolist() == expected


@every_measure
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_invalid_number_is_refused_with_its_position(measure, f, S, bad):
    broken = S.copy()
    broken[7, 1] = bad
    with pytest.raises(ValueError, match=r"^sensitive_features must .*\(7, 1\)"):
        value(measure, f, broken)
    f[3] = bad
    with pytest.raises(ValueError, match=r"^y_pred must .*\(3,\)"):
        value(measure, f, S)


@every_measure
@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.arange(59.0), "59"),
        (np.array(["a"] * 60, dtype=object), "object"),
        (["young"] * 60, "<U5"),
        (np.ones(60, dtype=complex), "complex128"),
        ([[1.0], [1.0, 2.0]], "rectangular"),
        (np.ones((60, 2, 2)), "table of columns"),
        (np.ones((60, 0)), "table of columns"),
    ],
)
def test_invalid_attribute_is_refused_by_name(measure, f, values, words):
    with pytest.raises(ValueError, match=f"^sensitive_features must .*{words}"):
        value(measure, f, values)


@every_measure
def test_prediction_must_be_one_column_of_at_least_two_rows(measure, S):
    with pytest.raises(ValueError, match=r"^y_pred must .*\(60, 2\)"):
        value(measure, S, S)
    with pytest.raises(ValueError, match=r"^y_pred must .*two rows"):
        value(measure, [1.0], [1.0])


def test_declarations_are_the_public_functions(rows):
    y, f, s = rows
    assert MEASURES["hgr"](f, s) == hgr(f, s)
    assert MEASURES["pf"](y, f, s) == pairwise_fairness(y, f, s)

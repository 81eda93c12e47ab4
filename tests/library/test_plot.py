"""Displays: they draw the numbers of their frames, which are those of the measures."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from estimator_sample import people
from numpy.testing import assert_allclose, assert_array_equal

from fkd import FairKernelRidge, FairSVC
from fkd.measures import MEASURES, gdp, hgr, interval, noise_floor
from fkd.plot import FrontDisplay, SensitiveDisplay, StrengthDisplay

QUICK = {"replicates": 30}
QUIET = pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")


@pytest.fixture(autouse=True)
def _no_window(monkeypatch):
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    yield
    plt.close("all")


@pytest.fixture
def rows(rng):
    return people(rng, n=300)


@pytest.fixture
def path(rows):
    X, y, s = rows
    return FairKernelRidge(gamma=0.3).fit_path(X, y, sensitive_features=s, iterations=[0, 2, 6])


def test_a_front_has_error_measure_and_floor_of_each_model(rows, path):
    X, y, s = rows
    front = FrontDisplay.from_estimator(path, X, y, sensitive_features=s, **QUICK)
    frame = front.frame()
    assert frame["label"].tolist() == ["0", "2", "6"]
    for i, model in enumerate(path.values()):
        f = model.predict(X)
        assert_allclose(frame["error"][i], np.abs(f - y).mean())
        known = interval(MEASURES["gdp"], f, s, rng=np.random.default_rng(0), replicates=30)
        assert_allclose(
            frame.loc[i, ["gdp", "gdp_low", "gdp_high"]].astype(float),
            [known.estimate, known.low, known.high],
        )
        floor = noise_floor(f, s, rng=np.random.default_rng(0), measure=gdp, permutations=100)
        assert_allclose(frame["floor"][i], floor.mean)
    assert (frame["gdp"].diff().dropna() < 0).all()
    assert front.best.all()  # the fairer, the less accurate


def test_a_front_draws_its_points_intervals_and_floor(rows, path):
    X, y, s = rows
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    front = FrontDisplay.from_estimator(path, X, y, sensitive_features=s, ax=ax, **QUICK)
    assert front.ax_ is ax
    points, line, floor = ax.lines[0], ax.lines[1], ax.lines[-1]
    assert_array_equal(points.get_xydata(), np.column_stack([front.value, front.error]))
    assert_allclose(np.sort(line.get_xdata()), np.sort(front.value[front.best]))
    assert_allclose(floor.get_xdata(), front.floor.max())
    assert [text.get_text() for text in ax.texts] == front.labels
    again = front.plot()
    assert again is front
    assert front.ax_ is not ax


def test_a_beaten_model_is_not_on_the_front(rng):
    s = rng.uniform(size=200)
    y = s + rng.normal(size=200)
    named = {"truth": y, "worse": y + 0.5 + s, "constant": np.full(200, y.mean())}
    front = FrontDisplay.from_predictions(y, named, sensitive_features=s, plot=False, **QUICK)
    assert front.best.tolist() == [True, False, True]
    assert not hasattr(front, "ax_")


def test_the_worst_of_several_columns_is_shown(rng):
    S = rng.uniform(size=(250, 2))
    f = S[:, 1] + 0.1 * rng.normal(size=250)
    for measure, known in (("hgr", hgr(f, S).max()), ("gdp", gdp(f, S).max())):
        front = FrontDisplay.from_predictions(
            f, f, sensitive_features=S, measure=measure, plot=False, **QUICK
        )
        assert_allclose(front.value, known)
        assert front.value_low[0] <= known <= front.value_high[0]


def test_pairwise_fairness_has_its_declared_interval(rng):
    s = rng.uniform(size=150)
    y = s + rng.normal(size=150)
    f = s + 0.5 * rng.normal(size=150)
    along = StrengthDisplay.from_predictions(
        y, {1: f}, sensitive_features=s, measure="pf", plot=False, **QUICK
    )
    known = interval(MEASURES["pf"], y, f, s, rng=np.random.default_rng(0), replicates=30)
    assert (along.value[0], along.low[0], along.high[0]) == (
        known.estimate,
        known.low,
        known.high,
    )
    with pytest.raises(ValueError, match="y must be given for measure='pf', got None"):
        StrengthDisplay.from_predictions(None, {1: f}, sensitive_features=s, measure="pf")


@QUIET
@pytest.mark.parametrize("removal", ["path", "shrinkage"])
def test_a_measure_is_shown_at_the_strengths_of_one_fit(rows, removal):
    X, y, s = rows
    strength = {"iterations": 3} if removal == "path" else {}
    model = FairKernelRidge(gamma=0.3, removal=removal, **strength)
    model.fit(X, y, sensitive_features=s)
    along = StrengthDisplay.from_estimator(model, X, sensitive_features=s, **QUICK)
    frame = along.frame()
    wanted = [0, 1, 2, 3] if removal == "path" else [0, 0.1, 1, 10, 100, 1000, 10000]
    assert frame["strength"].tolist() == wanted
    for strength, value in zip(frame["strength"], frame["gdp"], strict=True):
        m = int(strength) if removal == "path" else strength
        assert_allclose(value, gdp(model.at(m).predict(X), s))
    assert (frame["low"] <= frame["gdp"]).all()
    assert (frame["gdp"] <= frame["high"]).all()
    assert_array_equal(along.ax_.lines[0].get_ydata(), frame["gdp"])
    chosen = StrengthDisplay.from_estimator(
        model, X, sensitive_features=s, strengths=[0, 1], plot=False, **QUICK
    )
    assert chosen.strength.tolist() == [0, 1]


@QUIET
def test_the_decision_values_of_a_classifier_are_shown(rows):
    X, y, s = rows
    model = FairSVC(gamma=0.3, iterations=2).fit(X, y > np.median(y), sensitive_features=s)
    along = StrengthDisplay.from_estimator(
        model, X, sensitive_features=s, strengths=[0, 2], **QUICK
    )
    assert_allclose(along.value[1], gdp(model.decision_function(X), s))
    assert along.value[1] < along.value[0]


def test_mean_predictions_are_shown_along_the_attribute(rng):
    s = rng.uniform(low=20, high=80, size=2000)
    f = np.sin(s / 10) + 0.1 * rng.normal(size=2000)
    curve = SensitiveDisplay.from_predictions(
        f, y_true=3 * f, sensitive_features=s, points=21, **QUICK
    )
    frame = curve.frame()
    assert frame["s"].min() == pytest.approx(s.min())
    assert frame["s"].max() == pytest.approx(s.max())
    inside = frame[(frame["s"] > 28) & (frame["s"] < 72)]
    # The kernel damps a wave but keeps its turning points.
    assert np.corrcoef(inside["prediction"], np.sin(inside["s"] / 10))[0, 1] > 0.95
    assert_allclose(frame["truth"], 3 * frame["prediction"], rtol=1e-9)
    assert (frame["low"] <= frame["prediction"]).all()
    assert (frame["high"] > frame["low"]).all()
    assert curve.level == pytest.approx(f.mean())


def test_a_curve_has_the_level_of_its_predictions(rng):
    s = rng.uniform(size=300)
    curve = SensitiveDisplay.from_predictions(
        50 + s, sensitive_features=s, plot=False, points=5, **QUICK
    )
    assert (np.abs(curve.prediction - 50.5) < 0.5).all()
    assert (np.abs(curve.low - 50.5) < 1).all()


def test_the_curve_of_a_fair_model_is_flat(rows):
    X, y, s = rows
    path = FairKernelRidge(gamma=0.3).fit_path(X, y, sensitive_features=s, iterations=[0, 8])
    spread = [
        np.ptp(
            SensitiveDisplay.from_estimator(
                model, X, y, sensitive_features=s, plot=False, **QUICK
            ).prediction
        )
        for model in path.values()
    ]
    assert spread[1] < 0.4 * spread[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f, s: FrontDisplay.from_predictions(f, {}, sensitive_features=s), "at least one"),
        (
            lambda f, s: FrontDisplay.from_predictions(f, f, sensitive_features=s, measure="x"),
            "measure must be one of .* got 'x'",
        ),
        (
            lambda f, s: FrontDisplay.from_predictions(f[:9], f, sensitive_features=s),
            "y must have one row per sensitive row",
        ),
        (
            lambda f, s: SensitiveDisplay.from_predictions(f, sensitive_features=0 * s),
            "sensitive_features must vary",
        ),
        (
            lambda f, s: SensitiveDisplay.from_predictions(f, sensitive_features=s, points=1),
            "points must be at least 2",
        ),
    ],
)
def test_wrong_input_is_refused_by_name(rng, call, message):
    f, s = rng.normal(size=50), rng.normal(size=50)
    with pytest.raises(ValueError, match=message):
        call(f, s)


def test_the_import_needs_neither_matplotlib_nor_pandas():
    absent = "sys.modules.update(dict.fromkeys(['matplotlib', 'pandas']))"
    script = f"import sys; {absent}; import fkd.plot, fkd.measures; print('imported')"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout.strip() == "imported", found.stderr

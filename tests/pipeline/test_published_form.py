"""A bare name means what was published on the paper's problems, the fair form on all others."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from configs.load import dump_config, load_config, parse_config
from fkd.methods import Training, method, methods


@pytest.mark.parametrize("name", list(methods()))
def test_elsewhere_centring_and_intercept_are_on(name):
    declared = method(name)
    for setting in declared.settings("table", {}, None):
        for flag in ("center_sensitive", "fit_intercept"):
            assert getattr(setting, flag, True) is True
    if declared.ours:
        return
    published = declared.settings("crimes", {}, None)
    assert not any(getattr(s, "center_sensitive", False) for s in published)
    assert not any(getattr(s, "fit_intercept", False) for s in published)


def test_what_the_user_says_wins():
    (setting,) = method("krr").settings("table", {"fit_intercept": False}, None)
    assert setting.fit_intercept is False


def table(tmp_path, entries):
    data = {
        "problem": "table",
        "path": str(tmp_path / "mine.csv"),
        "target": "y",
        "numeric": ["x", "z"],
        "sensitive": ["s"],
    }
    return parse_config({"data": data, "methods": entries}, "mine.yaml")


def test_the_resolved_configuration_says_which(tmp_path):
    entries = ["krr_fkd", {"name": "krr_fkl", "fit_intercept": False}, "dummy"]
    fkd, fkl, dummy = table(tmp_path, entries).model_dump(mode="json")["methods"]
    assert (fkd["fit_intercept"], fkd["center_sensitive"]) == (True, True)
    assert fkl["fit_intercept"] is False
    assert dummy == {"name": "dummy"}
    published = load_config("default").model_dump(mode="json")["methods"]
    assert [m["center_sensitive"] for m in published if m["name"] == "svr_fkd"] == [False]


def test_a_flag_that_a_grid_or_search_decides_is_left_to_it(tmp_path):
    grid = {"name": "krr_fkd", "grid": {"center_sensitive": [True, False], "iterations": [3]}}
    config = table(tmp_path, [grid])
    found = config.methods[0].settings("table")
    assert [(p.center_sensitive, p.fit_intercept) for p in found] == [(True, True), (False, True)]
    again = tmp_path / "again.yaml"
    again.write_text(dump_config(config))
    assert load_config(again) == config


def rows(rng, n=150):
    X = rng.uniform(size=(n, 4))
    S = X[:, :1] + 0.3 * rng.uniform(size=(n, 1))
    return X, X[:, 0] + np.sin(3 * X[:, 1]), S


@pytest.mark.parametrize("penalty", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("gamma_s", [0.05, 500.0])  # by Woodbury's identity, by itself
def test_fair_kernel_learning_with_a_constant_does_not_see_the_level(rng, penalty, gamma_s):
    X, y, S = rows(rng)
    fkl = method("krr_fkl")
    setting = fkl.parameters(penalty=penalty, gamma_s=gamma_s, fit_intercept=True)
    low, high = (
        next(fkl.fit(Training(X, y + c, S, seed=0), [setting])).predict(X) for c in (0.0, 50.0)
    )
    assert_allclose(high - low, 50.0, atol=1e-7)
    # Stationary: of all constants the fitted one leaves residuals of mean zero.
    assert_allclose((y - low).mean(), 0.0, atol=1e-9)
    if penalty == 0:
        krr = method("krr")
        plain = next(krr.fit(Training(X, y, S, seed=0), [krr.parameters(fit_intercept=True)]))
        assert_allclose(low, plain.predict(X), atol=1e-9)


def test_the_approximate_inverse_can_be_centred_too(rng):
    X, y, S = rows(rng)
    nystroem, exact = method("svr_fkd_nystroem"), method("svr_fkd")
    common = {"iterations": 4, "center_sensitive": True, "gamma": 0.5}
    training = Training(X, y, S, seed=0)
    approximate = next(nystroem.fit(training, [nystroem.parameters(fraction=1.0, **common)]))
    expected = next(exact.fit(training, [exact.parameters(**common)]))
    assert_allclose(approximate.predict(X), expected.predict(X), atol=1e-5)

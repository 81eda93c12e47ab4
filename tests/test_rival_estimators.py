"""The rivals as scikit-learn estimators: the numbers of their methods, inside searches."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from fkd import FairKernelRidge
from fkd.baselines import (
    FairKernelLearning,
    FremNetwork,
    HgrNetwork,
    LinearErasure,
    NullspaceProjection,
    ResidualTargetRidge,
)
from fkd.core.arrays import BLOCK_ROWS
from fkd.measures import scorer
from fkd.methods import Training, method


def people(rng, n=200, d=4):
    """Inputs, a target in [0, 1], two sensitive columns that fill [0, 1]."""
    S = rng.uniform(size=(n, 2))
    S[0], S[1] = 0.0, 1.0
    X = rng.normal(size=(n, d))
    X[:, :2] += 3 * S
    y = X @ np.linspace(1, 2, d) + 0.1 * rng.normal(size=n)
    return X, (y - y.min()) / np.ptp(y), S


def by_method(name, X, y, S, seed=0, **setting):
    declared = method(name)
    (found,) = declared.fit(Training(X, y, S, seed), [declared.parameters(**setting)])
    return found


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_fair_kernel_learning_is_the_published_method(rng, fit_intercept):
    X, y, S = people(rng)
    setting = {"mu": 0.6, "gamma": 0.05, "alpha": 0.25, "fit_intercept": fit_intercept}
    model = FairKernelLearning(**setting).fit(X, y, sensitive_features=S)
    assert_allclose(
        model.predict(X), by_method("krr_fkl", X, y, S, **setting).predict(X), atol=1e-9
    )


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_residual_target_is_that_of_the_method(rng, share):
    X, y, S = people(rng)
    setting = {"share": share, "gamma": 0.05, "alpha": 0.25, "fit_intercept": True}
    model = ResidualTargetRidge(**setting).fit(X, y, sensitive_features=S)
    known = by_method("residual_y", X, y, S, **setting)
    assert_allclose(model.predict(X), known.predict(X), atol=1e-9)
    assert_allclose(model.slopes_, LinearRegression().fit(S, y).coef_)


@pytest.mark.parametrize("m", [0, 1, 3])
def test_projected_inputs_are_those_of_the_method(rng, m):
    X, y, S = people(rng, d=8)
    known = by_method("svr_inlp", X, y, S, iterations=m, center_sensitive=True)
    left = NullspaceProjection(m).fit_transform(X, sensitive_features=S)
    assert_allclose(left, X - X @ known.U @ known.U.T, atol=1e-10)


@pytest.mark.needs("torch", "concept_erasure")
def test_erased_inputs_hold_nothing_linear_of_the_attribute(rng):
    X, y, S = people(rng)
    erasure = LinearErasure()
    left = erasure.fit_transform(X, sensitive_features=S)
    deviation = S - S.mean(axis=0)
    assert np.abs(left.T @ deviation).max() < 1e-8
    assert np.abs(X.T @ deviation).max() > 1.0
    known = by_method("leace", X, y, S)
    assert_array_equal(left, known.correction(X))


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("kind", "name", "own"),
    [
        (HgrNetwork, "nn_hgr", {}),
        (FremNetwork, "nn_frem", {"bandwidth_s": 0.1, "bandwidth_z": 0.5}),
    ],
)
def test_networks_are_those_of_the_methods_in_the_unit_of_the_target(rng, kind, name, own):
    X, y, S = people(rng)
    setting = {"penalty": 0.5, "first_width": 8, "second_width": 6, "epochs": 3, **own}
    seed = int(check_random_state(7).randint(2**31 - 1))
    known = by_method(name, X, y, S, seed=seed, **setting)
    model = kind(random_state=7, **setting).fit(X, 100 * y + 20, sensitive_features=5 * S - 3)
    assert_allclose(model.predict(X), 100 * known.predict(X) + 20, rtol=1e-4)
    path = kind(random_state=7, **setting).fit_path(
        X, y, sensitive_features=S, penalties=[0.0, 0.5]
    )
    assert_array_equal(
        path[0.5].predict(X),
        kind(random_state=7, **setting).fit(X, y, sensitive_features=S).predict(X),
    )
    assert path[0.0].penalty == 0.0
    assert np.abs(path[0.0].predict(X) - path[0.5].predict(X)).max() > 0


@pytest.mark.parametrize("kind", [FairKernelLearning, ResidualTargetRidge])
def test_many_rows_on_a_reduced_map_fall_into_blocks(rng, kind):
    X, y, S = people(rng, n=BLOCK_ROWS + 500)
    setting = {"approximation": "nystroem", "landmarks": 30, "random_state": 0, "gamma": 0.05}
    model = kind(**setting).fit(X, y, sensitive_features=S)
    plain = kind(**setting, **{"mu" if kind is FairKernelLearning else "share": 0})
    plain.fit(X, y, sensitive_features=S)
    before, after = (np.abs(np.corrcoef(m.predict(X), S.T)[0, 1:]).max() for m in (plain, model))
    assert before > 0.3
    assert after < 0.7 * before


def test_a_search_compares_rivals_with_ours(rng):
    X, y, S = people(rng)
    # What a search routes is what the steps ask for that it was given.
    ours = FairKernelRidge(gamma=0.1, iterations=4, held_out=0)
    steps = [("scale", StandardScaler()), ("fair", NullspaceProjection(0)), ("model", ours)]
    grid = [
        {"model": [ours]},
        {"model": [FairKernelLearning(gamma=0.1, mu=m) for m in (0.0, 10.0)]},
        {"model": [ResidualTargetRidge(gamma=0.1)]},
        {"fair": [NullspaceProjection(m) for m in (0, 1)], "model": [Ridge()]},
    ]
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            Pipeline(steps),
            grid,
            scoring={"gdp": scorer("gdp"), "error": "neg_mean_absolute_error"},
            refit="gdp",
            cv=3,
        )
        search.fit(X, y, sensitive_features=S)
    found = search.cv_results_["mean_test_gdp"]
    assert np.isfinite(found).all()
    plain, priced = found[1], found[2]  # the same regression at mu 0 and 10
    assert priced > plain
    assert found[5] > found[4]  # projected once against never


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FairKernelLearning(mu=-1), "mu must not be negative, got -1"),
        (FairKernelLearning(alpha=0), "alpha must be a finite number above 0"),
        (ResidualTargetRidge(share=2), r"share must lie in \[0, 1\], got 2"),
        (NullspaceProjection(-1), "iterations must be at least 0, got -1"),
        (NullspaceProjection(ridge=0), "ridge must be a finite number above 0"),
    ],
)
def test_a_bad_parameter_is_refused_by_name(rng, model, message):
    X, y, S = people(rng, n=40)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sensitive_features=S)


@pytest.mark.parametrize("model", [LinearErasure(), HgrNetwork(), FremNetwork()])
def test_a_missing_package_is_named_before_any_work(rng, model, monkeypatch):
    X, y, S = people(rng, n=40)
    monkeypatch.setattr("fkd.baselines.base.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=rf"{type(model).__name__} needs torch"):
        model.fit(X, y, sensitive_features=S)


def test_importing_rivals_pulls_in_no_network_library():
    script = "import fkd.baselines, sys; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout.strip() == "False", found.stderr

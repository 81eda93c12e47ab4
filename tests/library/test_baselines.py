"""All baselines: optional packages, reduced maps, one search with the estimators of fkd."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from training_sample import worst_correlation

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


def people(rng, n=200, d=4):
    """Inputs, a target in [0, 1], two sensitive columns that fill [0, 1]."""
    S = rng.uniform(size=(n, 2))
    S[0], S[1] = 0.0, 1.0
    X = rng.normal(size=(n, d))
    X[:, :2] += 3 * S
    y = X @ np.linspace(1, 2, d) + 0.1 * rng.normal(size=n)
    return X, (y - y.min()) / np.ptp(y), S


@pytest.mark.parametrize("kind", [FairKernelLearning, ResidualTargetRidge])
def test_many_rows_on_a_reduced_map_are_summed_in_blocks(rng, kind):
    X, y, S = people(rng, n=BLOCK_ROWS + 500)
    setting = {"approximation": "nystroem", "landmarks": 30, "random_state": 0, "gamma": 0.05}
    model = kind(**setting).fit(X, y, sensitive_features=S)
    plain = kind(**setting, **{"penalty" if kind is FairKernelLearning else "share": 0})
    plain.fit(X, y, sensitive_features=S)
    before, after = (worst_correlation(m.predict(X), S) for m in (plain, model))
    assert before > 0.3
    assert after < 0.7 * before


def test_a_search_compares_baselines_with_estimators(rng):
    X, y, S = people(rng)
    # A search routes metadata to the steps that it was constructed with.
    ours = FairKernelRidge(gamma=0.1, iterations=4, held_out=0)
    steps = [("scale", StandardScaler()), ("fair", NullspaceProjection(0)), ("model", ours)]
    grid = [
        {"model": [ours]},
        {"model": [FairKernelLearning(gamma=0.1, penalty=p) for p in (0.0, 10.0)]},
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
    plain, penalised = found[1], found[2]  # fair kernel learning with penalties 0 and 10
    assert penalised > plain
    assert found[5] > found[4]  # one projection, and none


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FairKernelLearning(penalty=-1), "penalty must not be negative, got -1"),
        (FairKernelLearning(alpha=0), "alpha must be a finite number above 0"),
        (FairKernelLearning(gamma_s=0), "gamma_s must be a finite number above 0"),
        (FairKernelLearning(fit_intercept="no"), "fit_intercept must be True or False"),
        (ResidualTargetRidge(share=2), r"share must lie in \[0, 1\], got 2"),
        (NullspaceProjection(-1), "iterations must be at least 0, got -1"),
        (NullspaceProjection(ridge=0), "ridge must be a finite number above 0"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(rng, model, message):
    X, y, S = people(rng, n=40)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sensitive_features=S)


@pytest.mark.parametrize("model", [LinearErasure(), HgrNetwork(), FremNetwork()])
def test_an_estimator_names_missing_packages(rng, model, monkeypatch):
    X, y, S = people(rng, n=40)
    monkeypatch.setattr("fkd.baselines.base.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=rf"{type(model).__name__} needs torch"):
        model.fit(X, y, sensitive_features=S)


def test_importing_baselines_imports_no_optional_package():
    optional = ("torch", "fairlearn", "concept_erasure")
    script = f"import sys, fkd.baselines; print([m for m in {optional} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"

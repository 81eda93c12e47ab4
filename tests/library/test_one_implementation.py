"""Estimators and named methods fit by the same functions, to the same predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd import FairKernelRidge, FairSVR
from fkd.methods import Approximation, Training, method

# Both scale the target for themselves; libsvm stops at its tolerance.
CASES = {
    "krr_fkd": (FairKernelRidge, {"iterations": 3, "ridge": 0.5, "alpha": 0.3}, 1e-10),
    "krr_fks": (FairKernelRidge, {"penalty": 20.0, "alpha": 0.3}, 1e-10),
    "svr_fkd": (FairSVR, {"iterations": 3, "ridge": 0.5, "C": 0.75, "epsilon": 0.05}, 1e-3),
    "svr_fks": (FairSVR, {"penalty": 20.0, "C": 0.75, "epsilon": 0.05}, 1e-3),
}
APPROXIMATIONS = {
    "exact": {},
    "nystroem": {"approximation": "nystroem", "landmarks": 40},
    "fourier": {"approximation": "fourier", "landmarks": 40},
}


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(200, 4))
    s = X[:, 0] + 0.3 * rng.normal(size=200)
    s = (s - s.min(axis=0)) / np.ptp(s)
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=200), s


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("name", CASES)
def test_an_estimator_predicts_as_the_named_method(rows, name, approximation):
    X, y, s = rows
    estimator, setting, tolerance = CASES[name]
    removal = "path" if "iterations" in setting else "shrinkage"
    fitted = estimator(
        gamma=0.2,
        removal=removal,
        random_state=0,
        held_out=0,
        **setting,
        **APPROXIMATIONS[approximation],
    ).fit(X, y, sensitive_features=s)
    if removal == "path":
        setting = {**setting, "center_sensitive": True}
    if estimator is FairKernelRidge:
        setting = {**setting, "fit_intercept": True}
    declared, reduced = method(name), Approximation(*APPROXIMATIONS[approximation].values())
    p = declared.parameters(gamma=0.2, approximation=reduced, **setting)
    (predictor,) = declared.fit(Training(X, y, s[:, None], 0), [p])
    assert_allclose(fitted.predict(X), predictor.predict(X), atol=tolerance * np.ptp(y))

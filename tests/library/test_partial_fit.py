"""partial_fit: rows added later count as rows of one fit."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from fkd import FairGaussianProcess, FairKernelRidge
from fkd.core.arrays import BLOCK_ROWS
from fkd.core.moments import basis_moments, training_moments

SETTING = {"gamma": 0.2, "alpha": 0.5, "ridge": 0.3, "held_out": 0.0, "random_state": 0}


def rows(rng, n):
    X = rng.normal(size=(n, 4)) + 3.0
    s = X[:, 0] + 0.3 * rng.normal(size=n)
    return X, np.sin(X[:, 1]) + 0.5 * X[:, 0] + 7.0, s


def grown(model, X, y, s, ends):
    for part in np.split(np.arange(len(X)), ends):
        model.partial_fit(X[part], y[part], sensitive_features=s[part])
    return model


@pytest.mark.parametrize(
    "setting",
    [
        {"iterations": 5},
        {"iterations": 5, "center_sensitive": False, "fit_intercept": False},
        {"iterations": 0},
    ],
)
@pytest.mark.parametrize("ends", [[60], [40, 41, 300], [BLOCK_ROWS + 3]])
def test_a_map_that_no_row_decides_gives_what_a_fit_of_all_rows_gives(rng, setting, ends):
    X, y, s = rows(rng, 2 * BLOCK_ROWS if ends[0] > BLOCK_ROWS else 400)
    setting = {**SETTING, **setting, "approximation": "fourier", "landmarks": 50}
    whole = FairKernelRidge(**setting).fit(X, y, sensitive_features=s)
    added = grown(FairKernelRidge(**setting), X, y, s, ends)
    assert_allclose(added.predict(X), whole.predict(X), rtol=1e-7)
    first = FairKernelRidge(**setting).fit(
        X[: ends[0]], y[: ends[0]], sensitive_features=s[: ends[0]]
    )
    assert np.abs(first.predict(X) - whole.predict(X)).max() > 1e-4  # later rows do count


@pytest.mark.parametrize(
    "setting",
    [
        {"iterations": 4},
        {"iterations": 4, "basis": "splines"},
        {"removal": "shrinkage", "penalty": 30.0},
    ],
)
def test_landmarks_and_functions_are_those_of_the_first_rows(rng, setting):
    X, y, s = rows(rng, 500)
    setting = {**SETTING, **setting, "approximation": "nystroem", "landmarks": 40}
    if "removal" in setting:
        del setting["ridge"]  # of a path
    model = grown(FairKernelRidge(**setting), X, y, s, [200, 350])
    centers = model.expansion_.centers
    known = {row.tobytes() for row in X[:200]}
    assert all(row.tobytes() in known for row in centers)
    # The same map and functions over all rows at once.
    once = FairKernelRidge(**setting).partial_fit(X[:200], y[:200], sensitive_features=s[:200])
    running, z, S = once._running, once._scale.scaled(y), s[:, None]
    moments = training_moments(running.map, X[:-1], S[:-1] - running.origin, z[:-1])
    basis = running.basis
    if running.functions is not None:
        basis = basis_moments(running.map, X[:-1], *running.functions(S[:-1], z[:-1]))
    once._running = replace(running, fit=moments, removal=moments, basis=basis)
    once.partial_fit(X[-1:], y[-1:], sensitive_features=s[-1:])
    assert_allclose(model.predict(X), once.predict(X), rtol=1e-7)


def test_removal_looks_at_the_later_rows_too(rng):
    """The first rows know nothing of s; without the later ones nothing of it would be removed."""
    X, y, s = rows(rng, 600)
    s[:100] = rng.normal(size=100)
    setting = {**SETTING, "iterations": 8, "approximation": "nystroem", "landmarks": 60}
    model = grown(FairKernelRidge(**setting), X, y, s, [100])
    plain = grown(FairKernelRidge(**{**setting, "iterations": 0}), X, y, s, [100])
    new, _, s_new = rows(rng, 2000)
    before, after = (abs(np.corrcoef(m.predict(new), s_new)[0, 1]) for m in (plain, model))
    assert before > 0.5
    assert after < 0.5 * before


def test_fit_begins_anew_and_a_copy_goes_on_alone(rng):
    X, y, s = rows(rng, 300)
    setting = {**SETTING, "iterations": 3, "approximation": "nystroem", "landmarks": 30}
    model = grown(FairKernelRidge(**setting), X, y, s, [100])
    copy = pickle.loads(pickle.dumps(model))
    before = model.predict(X)
    copy.partial_fit(X[:50], y[:50] + 5, sensitive_features=s[:50])
    assert_array_equal(model.predict(X), before)
    assert np.abs(copy.predict(X) - before).max() > 1e-3
    fresh = clone(model).fit(X, y, sensitive_features=s)
    assert_array_equal(model.fit(X, y, sensitive_features=s).predict(X), fresh.predict(X))
    model.partial_fit(X[:90], y[:90], sensitive_features=s[:90])
    alone = FairKernelRidge(**setting).partial_fit(X[:90], y[:90], sensitive_features=s[:90])
    assert_array_equal(model.predict(X), alone.predict(X))


def test_no_row_is_kept_but_landmarks(rng):
    X, y, s = rows(rng, BLOCK_ROWS + 100)
    setting = {**SETTING, "iterations": 3, "approximation": "nystroem", "landmarks": 20}
    model = grown(FairKernelRidge(**setting), X, y, s, [100])
    assert len(pickle.dumps(model)) < 0.5 * X.nbytes


def test_what_needs_earlier_rows_is_refused(rng):
    X, y, s = rows(rng, 80)
    assert not hasattr(FairKernelRidge(), "partial_fit")
    reduced = {"approximation": "nystroem", "landmarks": 20, "random_state": 0}
    for name, value in (("given", [1]), ("unfairness", {"gdp": 0.1})):
        with pytest.raises(ValueError, match=f"{name} must be None in partial_fit"):
            FairKernelRidge(**reduced, **{name: value}).partial_fit(X, y, sensitive_features=s)
    model = FairKernelRidge(**reduced).partial_fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="must have the 1 columns of the first rows, got 2"):
        model.partial_fit(X, y, sensitive_features=np.c_[s, s])
    with pytest.raises(TypeError, match="sensitive_features"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y, sensitive_features=s)


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"normalize_y": False},
        {"alpha": 0.1, "amplitude": 2.0},
    ],
)
@pytest.mark.parametrize("ends", [[60], [40, 41, 300]])
def test_a_process_of_rows_in_parts_is_that_of_all_rows(rng, setting, ends):
    """Its prior mean, its unit, both variances are those of all rows, not of the first."""
    X, y, s = rows(rng, 400)
    y[: ends[0]] -= 1.0  # so that the first rows' mean is far from that of all
    base = {"gamma": 0.2, "ridge": 0.3, "iterations": 4, "held_out": 0.0, "random_state": 0}
    setting = {**base, **setting, "approximation": "fourier", "landmarks": 50}
    whole = FairGaussianProcess(**setting).fit(X, y, sensitive_features=s)
    added = grown(FairGaussianProcess(**setting), X, y, s, ends)
    for found, expected in zip(
        added.predict(X, return_std=True), whole.predict(X, return_std=True), strict=True
    ):
        assert_allclose(found, expected, rtol=1e-4)
    assert_allclose(added.log_marginal_likelihood_, whole.log_marginal_likelihood_, rtol=1e-6)
    first = FairGaussianProcess(**setting).fit(
        X[: ends[0]], y[: ends[0]], sensitive_features=s[: ends[0]]
    )
    assert np.abs(first.predict(X) - whole.predict(X)).max() > 0.05

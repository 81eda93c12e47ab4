"""Support vector machines of many rows: batched solver against libsvm, small blocks."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR

from fkd import FairKernelDecomposition, FairSVC, FairSVR
from fkd.core import svr, training

MAPS = {
    "nystroem": {"approximation": "nystroem", "landmarks": 30},
    "fourier": {"approximation": "fourier", "landmarks": 40},
    "identity": {"approximation": "identity", "kernel": "linear", "iterations": 1},
}
REMOVALS = {"path": {"iterations": 3}, "shrinkage": {"removal": "shrinkage", "penalty": 5.0}}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Several blocks to a table, several pieces to a block."""
    monkeypatch.setattr("fkd.core.feature_maps.BLOCK_ROWS", 100)
    monkeypatch.setattr("fkd.core.svm.CHUNK_ROWS", 48)


def sample(rng, n=330):
    X = rng.normal(size=(n, 4))
    S = X[:, :1] + 0.5 * rng.normal(size=(n, 1))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.3 * rng.normal(size=n) + 20.0
    return X, y, S


def setting(kind, **changes):
    default = {"gamma": 0.2, "random_state": 0, "held_out": 0, "iterations": 3}
    chosen = {**default, **MAPS[kind], **changes}
    if chosen.get("removal") == "shrinkage":
        del chosen["iterations"]
    return chosen


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize("kind", MAPS)
def test_both_solvers_find_one_regression(rng, kind, removal):
    X, y, S = sample(rng)
    changes = {**REMOVALS[removal], "C": 0.5, "epsilon": 0.1}
    if kind == "identity":
        changes.pop("iterations", None)
    libsvm, batched = (
        FairSVR(solver=solver, tol=tol, **setting(kind, **changes)).fit(X, y, sensitive_features=S)
        for solver, tol in (("libsvm", 1e-5), ("batched", 1e-5))
    )
    assert_allclose(batched.predict(X), libsvm.predict(X), atol=1e-3 * np.ptp(y))
    assert libsvm.dual_gap_ is None
    assert 0 <= batched.dual_gap_ <= 1e-5


@pytest.mark.parametrize("removal", REMOVALS)
@pytest.mark.parametrize("classes", [2, 3])
def test_both_solvers_find_one_classifier(rng, classes, removal):
    X, y, S = sample(rng)
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.4, 0.7][: classes - 1]))]
    libsvm, batched = (
        FairSVC(C=0.5, solver=solver, tol=1e-5, **setting("nystroem", **REMOVALS[removal])).fit(
            X, labels, sensitive_features=S
        )
        for solver in ("libsvm", "batched")
    )
    assert libsvm.dual_gap_ is None
    assert 0 <= batched.dual_gap_ <= 1e-5
    assert np.mean(batched.predict(X) == libsvm.predict(X)) > 0.99
    scale = np.ptp(libsvm.decision_function(X))
    worst = np.abs(batched.decision_function(X) - libsvm.decision_function(X)).max(axis=0)
    # Of three classes a decision counts votes: one that is nearly tied may go either way.
    assert classes > 2 or worst < 2e-3 * scale


def test_rows_decide_which_solver_it_is(rng, monkeypatch):
    X, y, S = sample(rng)
    gaps = {}
    for limit in (len(X), len(X) - 1):
        monkeypatch.setattr(svr, "LIBSVM_ROWS", limit)
        for approximation in ("exact", "nystroem"):
            model = FairSVR(**setting("nystroem", approximation=approximation, landmarks=30))
            gaps[limit, approximation] = model.fit(X, y, sensitive_features=S).dual_gap_
    assert [key for key, gap in gaps.items() if gap is not None] == [(len(X) - 1, "nystroem")]


def test_features_that_are_made_anew_for_each_pass_give_the_same_bits(rng, monkeypatch):
    X, y, S = sample(rng)
    model = FairSVR(solver="batched", **setting("nystroem"))
    held = model.fit(X, y, sensitive_features=S).predict(X)
    monkeypatch.setattr(training, "HELD_BYTES", 0)
    assert_array_equal(model.fit(X, y, sensitive_features=S).predict(X), held)


def test_a_path_of_fits_is_each_fit_from_one_batch(rng, monkeypatch):
    X, y, S = sample(rng)
    model = FairSVR(solver="batched", **setting("nystroem"))
    batches = []
    solve = svr.solve_machines
    monkeypatch.setattr(
        svr, "solve_machines", lambda *a, **k: batches.append(len(a[2])) or solve(*a, **k)
    )
    path = model.fit_path(X, y, sensitive_features=S, iterations=[0, 2, 5])
    assert batches == [3]
    for m, found in path.items():
        alone = FairSVR(solver="batched", **setting("nystroem", iterations=m))
        alone.fit(X, y, sensitive_features=S)
        assert_allclose(found.predict(X), alone.predict(X), rtol=1e-10)
        assert found.dual_gap_ == pytest.approx(alone.dual_gap_)


def test_a_missed_gap_is_warned_of_with_its_remedy(rng):
    X, y, S = sample(rng)
    model = FairSVR(solver="batched", C=1e4, max_iter=10, **setting("nystroem"))
    with pytest.warns(
        ConvergenceWarning, match=r"of strength 3 with C 10000, .* after 10 iterations;"
    ):
        model.fit(X, y, sensitive_features=S)
    assert model.dual_gap_ > model.tol
    assert model.n_iter_ == 10
    border = FairSVC(solver="batched", C=1e4, max_iter=10, **setting("nystroem"))
    with pytest.warns(ConvergenceWarning, match="border of classes 0 and 1 must fall to 0.001"):
        border.fit(X, y > 20, sensitive_features=S)


def test_no_limit_means_the_most_passes(rng, monkeypatch):
    monkeypatch.setattr(svr, "ITERATIONS", 20)
    X, y, S = sample(rng)
    for max_iter in (-1, 10**6):
        model = FairSVR(solver="batched", C=1e4, max_iter=max_iter, **setting("nystroem"))
        with pytest.warns(ConvergenceWarning, match="after 20 iterations"):
            model.fit(X, y, sensitive_features=S)


@pytest.mark.parametrize("machine", [FairSVR, FairSVC])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solver": "admm"}, "solver must be one of auto, libsvm, batched, got 'admm'"),
        ({"solver": "batched", "approximation": "exact"}, "got 'batched', which works on features"),
        ({"solver": "batched", "max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"solver": "batched", "tol": 0}, "tol must be a finite number above 0"),
        ({"solver": "batched", "C": -1}, "C must be a finite number above 0, got -1"),
    ],
)
def test_what_cannot_be_is_refused(rng, machine, change, message):
    X, y, S = sample(rng)
    with pytest.raises(ValueError, match=message):
        machine(**setting("nystroem", **change)).fit(X, y > 20, sensitive_features=S)


@pytest.mark.slow
def test_five_thousand_rows_agree_with_libsvm_on_the_fair_kernel(rng, monkeypatch):
    monkeypatch.undo()  # blocks as large as they are
    X, y, S = sample(rng, n=5000)
    changes = {"iterations": 10, "landmarks": 300}
    fair = FairKernelDecomposition(**setting("nystroem", **changes) | {"held_out": 0})
    K = fair.fit_transform(X, sensitive_features=S)
    oracle = SVR(kernel="precomputed", C=0.5, epsilon=0.05, tol=1e-4).fit(K, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = FairSVR(
            solver="batched", C=0.5, epsilon=0.05, tol=1e-5, **setting("nystroem", **changes)
        ).fit(X, y, sensitive_features=S)
    assert model.dual_gap_ <= 1e-5
    assert_allclose(model.predict(X), oracle.predict(K), atol=1e-3 * np.ptp(y))


@pytest.mark.parametrize("kind", [FairSVR, FairSVC])
def test_weights_are_repeated_rows_in_passes_too(rng, kind):
    X = rng.normal(size=(150, 3))
    s = X[:, 0] + 0.2 * rng.normal(size=150)
    y = X[:, 1] + 0.3 * X[:, 0]
    y = y if kind is FairSVR else np.where(y > 0, 1.0, -1.0)
    w = rng.integers(0, 4, size=150)
    again = np.repeat(np.arange(150), w)
    setting = {
        "approximation": "fourier",
        "landmarks": 20,
        "gamma": 0.3,
        "iterations": 2,
        "held_out": 0.0,
        "random_state": 0,
        "solver": "batched",
        "tol": 1e-6,
    }
    weighed = kind(**setting).fit(X, y, sensitive_features=s, sample_weight=w)
    repeated = kind(**setting).fit(X[again], y[again], sensitive_features=s[again])
    once = kind(**setting).fit(X, y, sensitive_features=s)
    score = "predict" if kind is FairSVR else "decision_function"
    found, expected, other = (getattr(m, score)(X) for m in (weighed, repeated, once))
    assert_allclose(found, expected, atol=2e-3)
    assert np.abs(other - expected).max() > 0.02

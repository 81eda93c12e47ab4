"""Every machine against a solver that shares no line with it, after removal."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR
from training_sample import fit_one

from configs.load import load_config
from fkd import FairGaussianProcess, FairKernelRidge, FairSVC, FairSVR
from fkd.core.feature_maps import make_map
from fkd.methods import Approximation, Training
from tasks.plan.splits import Fold
from tasks.plan.training import make_training
from tasks.select.study import open_study

GAMMA, RIDGE, ROUNDS = 0.15, 0.3, 4
N = 300  # beyond one panel of the triangular solves, of the symmetric products
# Two routes to one optimum agree to what libsvm's stopping rule allows.
SOLVER = 5e-3


def rbf(X, Z, gamma=GAMMA):
    return np.exp(-gamma * cdist(X, Z, metric="sqeuclidean"))


def features(X, new, centers, gamma=GAMMA):
    """Features of both sets of rows whose products are K_XZ K_ZZ⁻¹ K_ZX, by eigenvectors."""
    lam, V = np.linalg.eigh(rbf(centers, centers, gamma))
    keep = lam > 1e-13 * lam[-1] * len(lam)
    W = V[:, keep] / np.sqrt(lam[keep])
    return rbf(X, centers, gamma) @ W, rbf(new, centers, gamma) @ W


def fair_blocks(G, new, S, *, ridge=RIDGE, rounds=ROUNDS):
    """Algorithm 1 as it is defined: fit S, project its weights out, again on what is left."""
    for _ in range(rounds):
        W = np.linalg.solve(G.T @ G + ridge * np.eye(G.shape[1]), G.T @ S)
        Q = np.linalg.qr(W)[0]
        G, new = G - (G @ Q) @ Q.T, new - (new @ Q) @ Q.T
    return G @ G.T, new @ G.T


@pytest.fixture
def people(rng):
    X = rng.normal(size=(N, 4))
    S = X[:, :2] * [1.0, 5.0] + [3.0, -2.0] + 0.3 * rng.normal(size=(N, 2))
    y = X[:, 0] + X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3]
    return X, y, S, rng.normal(size=(40, 4))


def setting(approximation):
    return {
        "gamma": GAMMA,
        "ridge": RIDGE,
        "iterations": ROUNDS,
        "held_out": 0,
        "approximation": approximation,
        "landmarks": 90,
        "random_state": 3,
    }


@pytest.fixture(params=["exact", "nystroem"])
def blocks(request, people):
    """Settings of a machine, the fair kernel of its training rows, that of new rows with them."""
    X, _, S, new = people
    own = setting(request.param)
    centers = X
    if request.param == "nystroem":
        own_map = {name: own[name] for name in ("gamma", "approximation", "landmarks")}
        centers = make_map(X, **own_map, random_state=3).centers
        assert len(centers) == 90
    K, K_t = fair_blocks(*features(X, new, centers), S - S.mean(axis=0))
    plain, _ = fair_blocks(*features(X, new, centers), S, rounds=0)
    assert np.abs(plain - K).max() > 0.05  # another kernel than the unfair one
    return own, K, K_t


def test_ridge_regression(people, blocks):
    X, y, S, new = people
    own, K, K_t = blocks
    expected = KernelRidge(alpha=0.2, kernel="precomputed").fit(K, y).predict(K_t)
    model = FairKernelRidge(alpha=0.2, fit_intercept=False, **own).fit(X, y, sensitive_features=S)
    assert_allclose(model.predict(new), expected, atol=1e-6)


def test_support_vector_regression(people, blocks):
    X, y, S, new = people
    own, K, K_t = blocks
    expected = SVR(kernel="precomputed", C=0.75, epsilon=0.05, tol=1e-6).fit(K, y).predict(K_t)
    model = FairSVR(C=0.75, epsilon=0.05, tol=1e-6, **own).fit(X, y, sensitive_features=S)
    assert_allclose(model.predict(new), expected, atol=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_support_vector_classification(people, blocks, classes):
    X, y, S, new = people
    own, K, K_t = blocks
    named = np.array(["low", "middle", "top"])[
        np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    ]
    oracle = SVC(kernel="precomputed", C=2.0, tol=1e-6).fit(K, named)
    model = FairSVC(C=2.0, tol=1e-6, **own).fit(X, named, sensitive_features=S)
    assert_allclose(model.decision_function(new), oracle.decision_function(K_t), atol=1e-3)
    assert (model.predict(new) == oracle.predict(K_t)).all()


def test_gaussian_process(people, blocks):
    X, y, S, new = people
    own, K, K_t = blocks
    A, z = 1.5 * K + 0.2 * np.eye(N), y - y.mean()
    model = FairGaussianProcess(alpha=0.2, amplitude=1.5, normalize_y=False, **own)
    model.fit(X, y, sensitive_features=S)
    expected = y.mean() + 1.5 * K_t @ np.linalg.solve(A, z)
    assert_allclose(model.predict(new), expected, atol=1e-6)
    density = multivariate_normal(np.zeros(N), A).logpdf(z)
    assert_allclose(model.log_marginal_likelihood_, density, rtol=1e-7)
    # The part of the prior that new rows do not share with the training rows is scikit-learn's.
    plain = FairGaussianProcess(
        alpha=0.2, amplitude=1.5, normalize_y=False, **{**own, "iterations": 0}
    ).fit(X, y, sensitive_features=S)
    if own["approximation"] == "exact":
        kernel = ConstantKernel(1.5) * RBF(1 / np.sqrt(2 * GAMMA))
        oracle = GaussianProcessRegressor(kernel, alpha=0.2, optimizer=None).fit(X, z)
        _, std = oracle.predict(new, return_std=True)
        assert_allclose(plain.predict(new, True, include_noise=False)[1], std, atol=1e-6)


def test_the_methods_on_real_rows(settings):
    """The anchor that needs no file from elsewhere: the embedded Crimes, by the definition."""
    study = open_study(load_config(), settings)
    table, inputs = study.loaded.table, study.inputs
    whole = inputs.splits.outer(table)["0"]
    fold = Fold(whole.train[:800], whole.test[:100])
    training, encoder = make_training(table, fold, inputs)
    new = encoder.transform(table.take(fold.test))
    G, G_t = features(training.X, new, training.X, 0.05)
    K, K_t = fair_blocks(G, G_t, training.S, ridge=0.05, rounds=3)
    removal = {"gamma": 0.05, "ridge": 0.05, "iterations": 3, "center_sensitive": False}
    machines = [
        ("svr_fkd", {"C": 0.75, "epsilon": 0.01}, SVR(C=0.75, epsilon=0.01), SOLVER),
        ("krr_fkd", {"alpha": 0.5, "fit_intercept": False}, KernelRidge(alpha=0.5), 1e-5),
    ]
    for name, own, oracle, tolerance in machines:
        expected = oracle.set_params(kernel="precomputed").fit(K, training.y).predict(K_t)
        found = fit_one(name, training, **removal, **own).predict(new)
        assert_allclose(found, expected, atol=tolerance)
        plain = fit_one(name, training, **{**removal, "iterations": 0}, **own).predict(new)
        assert np.abs(plain - found).max() > 10 * tolerance  # removal was felt


def test_the_nystroem_forms_of_the_methods(rng):
    X = rng.uniform(size=(N, 4))
    S = X[:, :2] + 0.1 * rng.normal(size=(N, 2))
    y, new = X[:, 0] + np.sin(3 * X[:, 2]), rng.uniform(size=(30, 4))
    centers = make_map(X, gamma=1.0, approximation="nystroem", landmarks=70, random_state=0).centers
    K, K_t = fair_blocks(*features(X, new, centers, 1.0), S, ridge=0.1, rounds=2)
    common = {"gamma": 1.0, "ridge": 0.1, "iterations": 2, "center_sensitive": False}
    common["approximation"] = Approximation("nystroem", 70)
    training = Training(X, y, S, seed=0)
    ridge = fit_one("krr_fkd", training, alpha=0.1, fit_intercept=False, **common)
    oracle = KernelRidge(kernel="precomputed", alpha=0.1).fit(K, y)
    assert_allclose(ridge.predict(new), oracle.predict(K_t), atol=1e-6)
    svr = fit_one("svr_fkd", training, C=0.75, epsilon=0.01, **common)
    oracle = SVR(kernel="precomputed", C=0.75, epsilon=0.01).fit(K, y)
    assert_allclose(svr.predict(new), oracle.predict(K_t), atol=SOLVER)

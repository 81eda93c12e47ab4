"""The effect of a penalty in each machine, against general optimisers and dense formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import LinearConstraint, minimize
from scipy.stats import multivariate_normal
from shrinkage_sample import GAMMA, bent, covariances, factor, rbf, shrunk, shrunk_gram, unit
from training_sample import published_fkl

from fkd import FairGaussianProcess, FairKernelRidge, FairSVC, FairSVR
from fkd.core.feature_maps import make_map
from fkd.core.removal import fkl_penalty

SHRINKS = {"gamma": GAMMA, "removal": "shrinkage", "held_out": 0}
EXACT = {"tol": 1e-10, "max_iter": -1}
# An active-set optimiser in float64 keeps about six digits of an optimum.
QP = 2e-4


def machine(kind, **setting):
    return kind(**{**SHRINKS, **(EXACT if kind in (FairSVR, FairSVC) else {}), **setting})


def functions(s, gamma_s=10.0):
    """The functions of basis="rbf", by eigenvectors."""
    return factor(rbf(unit(s), unit(s), gamma_s))


@pytest.mark.parametrize("penalty", [0.0, 0.7, 60.0])
@pytest.mark.parametrize("basis", ["rbf", "columns"])
def test_ridge_regression_solves_the_penalised_problem(rng, penalty, basis):
    """Minimise mean (y - Gw - b)² + penalty·|Tᵀw|² + (alpha/n)·|w|² by its normal equations."""
    X, y, s = bent(rng)
    n, K = len(X), rbf(X, X)
    G, B = factor(K), functions(s) if basis == "rbf" else unit(s)
    T, centred = covariances(G, B), G - G.mean(axis=0)
    A = centred.T @ centred / n + penalty * (T @ T.T) + (0.5 / n) * np.eye(G.shape[1])
    w = np.linalg.solve(A, centred.T @ y / n)
    fitted = machine(FairKernelRidge, alpha=0.5, penalty=penalty, basis=basis)
    found = fitted.fit(X, y, sensitive_features=s).predict(X)
    assert_allclose(found, y.mean(axis=0) + centred @ w, atol=1e-7)


@pytest.mark.parametrize("penalty", [3.0, 60.0])
def test_without_an_intercept_it_is_published_fair_kernel_learning(rng, penalty):
    X, y, s = bent(rng)
    K, K_s, new = rbf(X, X), rbf(unit(s), unit(s), 10.0), rng.normal(size=(9, 3))
    mu = penalty / len(X)
    assert fkl_penalty(mu, n=len(X)) == pytest.approx(penalty, rel=1e-15)
    coef = published_fkl(K, K_s, y, alpha=0.5, mu=mu)
    fitted = machine(FairKernelRidge, alpha=0.5, penalty=penalty, fit_intercept=False)
    fitted.fit(X, y, sensitive_features=40 * s - 3)
    assert_allclose(fitted.predict(new), rbf(new, X) @ coef, atol=1e-6)
    plain = rbf(new, X) @ published_fkl(K, K_s, y, alpha=0.5, mu=0.0)
    assert np.abs(fitted.predict(new) - plain).max() > 0.1


def landmarked(rng, n=40):
    """Rows of a problem that is small enough for a general optimiser, features and T."""
    X, y, s = bent(rng, n)
    feature_map = make_map(X, gamma=GAMMA, approximation="nystroem", landmarks=6, random_state=0)
    G = feature_map.transform(X)
    return X, y, s, G, covariances(G, unit(s))


def optimum(Q, cost, rows, low):
    """The x that minimises ½xᵀQx + cost·x subject to rows x >= low."""
    found = minimize(
        lambda x: 0.5 * x @ Q @ x + cost @ x,
        np.where(cost > 0, 1 + np.abs(low).max(), 0.0),  # a feasible start
        jac=lambda x: Q @ x + cost,
        method="SLSQP",
        constraints=LinearConstraint(rows, low),
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert found.status in (0, 8), found.message  # 8: rounding allows no further step
    assert (rows @ found.x >= low - 1e-9).all()
    return found.x


NYSTROEM = {"approximation": "nystroem", "landmarks": 6, "random_state": 0, "basis": "columns"}


@pytest.mark.parametrize("penalty", [0.0, 2.0, 50.0])
def test_support_vector_regression_solves_the_penalised_problem(rng, penalty):
    """Minimise |w|²/(2Cn) + mean loss + penalty·|Tᵀw|² / std(y), slacks and all."""
    X, y, s, G, T = landmarked(rng)
    (n, r), C, epsilon = G.shape, 0.8, 0.2
    Q = np.zeros((r + 1 + n, r + 1 + n))
    Q[:r, :r] = np.eye(r) / (C * n) + 2 * penalty / y.std(axis=0) * (T @ T.T)
    cost = np.r_[np.zeros(r + 1), np.full(n, 1 / n)]
    f, slack = np.column_stack([G, np.ones(n)]), np.eye(n)
    rows = np.vstack([np.c_[f, slack], np.c_[-f, slack], np.c_[np.zeros((n, r + 1)), slack]])
    x = optimum(Q, cost, rows, np.r_[y - epsilon, -y - epsilon, np.zeros(n)])
    fitted = machine(FairSVR, C=C, epsilon=epsilon, penalty=penalty, **NYSTROEM)
    found = fitted.fit(X, y, sensitive_features=s).predict(X)
    assert_allclose(found, f @ x[: r + 1], atol=QP * np.ptp(y))


@pytest.mark.parametrize("penalty", [0.0, 2.0, 50.0])
def test_support_vector_classification_solves_the_penalised_problem(rng, penalty):
    """Minimise |w|²/(2Cn) + mean hinge loss + penalty·|Tᵀw|²."""
    X, y, s, G, T = landmarked(rng)
    (n, r), C = G.shape, 0.8
    sign = np.where(y > np.median(y), 1.0, -1.0)
    Q = np.zeros((r + 1 + n, r + 1 + n))
    Q[:r, :r] = np.eye(r) / (C * n) + 2 * penalty * (T @ T.T)
    cost = np.r_[np.zeros(r + 1), np.full(n, 1 / n)]
    f, slack = np.column_stack([G, np.ones(n)]), np.eye(n)
    rows = np.vstack([np.c_[sign[:, None] * f, slack], np.c_[np.zeros((n, r + 1)), slack]])
    x = optimum(Q, cost, rows, np.r_[np.ones(n), np.zeros(n)])
    fitted = machine(FairSVC, C=C, penalty=penalty, **NYSTROEM)
    found = fitted.fit(X, sign, sensitive_features=s).decision_function(X)
    assert_allclose(found, f @ x[: r + 1], atol=QP)


@pytest.mark.parametrize("penalty", [0.0, 3.0])
def test_a_gaussian_process_is_that_of_the_dense_formulas(rng, penalty):
    X, y, s = bent(rng)
    n, K, new = len(X), rbf(X, X), rng.normal(size=(9, 3))
    alpha, amplitude = 0.3, 2.0
    fitted = machine(
        FairGaussianProcess, alpha=alpha, amplitude=amplitude, penalty=penalty, normalize_y=False
    ).fit(X, y, sensitive_features=s)
    mu, B = max(penalty, 1e-30) * n * amplitude / alpha, functions(s)
    cross = shrunk(rbf(new, X), K, (rbf(new, X), K), B, mu)
    own = shrunk(rbf(new, new), K, (rbf(new, X), rbf(X, new)), B, mu)
    A = amplitude * shrunk_gram(K, B, mu) + alpha * np.eye(n)
    z = y - y.mean(axis=0)
    mean, std = fitted.predict(new, return_std=True, include_noise=False)
    assert_allclose(mean, y.mean(axis=0) + amplitude * cross @ np.linalg.solve(A, z), atol=1e-6)
    left = amplitude * own - amplitude**2 * cross @ np.linalg.solve(A, cross.T)
    assert_allclose(std, np.sqrt(left.diagonal()), atol=1e-5)
    density = multivariate_normal(np.zeros(n), A).logpdf(z)
    assert fitted.log_marginal_likelihood_ == pytest.approx(density, rel=1e-6)


def test_the_fitted_variances_maximise_the_likelihood_of_the_shrunk_process(rng):
    X, y, s = bent(rng, 150)
    fitted = machine(FairGaussianProcess, penalty=3.0).fit(X, y, sensitive_features=s)
    plain = machine(FairGaussianProcess, penalty=0.0).fit(X, y, sensitive_features=s)
    # The penalty is relative to the variances of the plain process.
    mu = 3.0 * 150 * plain.amplitude_ / plain.alpha_
    K, z = shrunk_gram(rbf(X, X), functions(s), mu), (y - y.mean(axis=0)) / y.std(axis=0)

    def density(amplitude, alpha):
        return multivariate_normal(np.zeros(150), amplitude * K + alpha * np.eye(150)).logpdf(z)

    best = density(fitted.amplitude_, fitted.alpha_)
    assert fitted.log_marginal_likelihood_ == pytest.approx(best - 150 * np.log(y.std(axis=0)))
    for a, b in [(1.1, 1.0), (0.9, 1.0), (1.0, 1.1), (1.0, 0.9)]:
        assert density(a * fitted.amplitude_, b * fitted.alpha_) < best
    assert (fitted.amplitude_, fitted.alpha_) != (plain.amplitude_, plain.alpha_)


# Per machine: settings with the same regulariser per row if every row is repeated.
TWICE = {
    FairKernelRidge: ({"alpha": 0.5}, {"alpha": 1.0}),
    FairSVR: ({"C": 1.0}, {"C": 0.5}),
    FairSVC: ({"C": 1.0}, {"C": 0.5}),
}


def scores(fitted, X):
    return fitted.decision_function(X) if isinstance(fitted, FairSVC) else fitted.predict(X)


@pytest.mark.parametrize("kind", TWICE)
def test_a_penalty_has_the_same_effect_for_any_number_of_rows(rng, kind):
    X, y, s = bent(rng, 150)
    y = y > np.median(y) if kind is FairSVC else y
    one, two = TWICE[kind]
    rows = np.r_[np.arange(150), np.arange(150)]
    setting = {"kernel": "precomputed", "basis": "splines"}
    once = machine(kind, penalty=5.0, **one, **setting).fit(rbf(X, X), y, sensitive_features=s)
    doubled = machine(kind, penalty=5.0, **two, **setting)
    doubled.fit(rbf(X[rows], X[rows]), y[rows], sensitive_features=s[rows])
    expected = scores(once, rbf(X, X))
    assert_allclose(scores(doubled, rbf(X, X[rows])), expected, atol=1e-4)
    other = machine(kind, penalty=10.0, **one, **setting).fit(rbf(X, X), y, sensitive_features=s)
    assert np.abs(scores(other, rbf(X, X)) - expected).max() > 0.01  # the penalty has an effect


@pytest.mark.parametrize("unit_of_y", [1e-3, 1e4])
def test_the_unit_of_the_target_changes_nothing(rng, unit_of_y):
    X, y, s = bent(rng, 150)
    changed = unit_of_y * y + 7.0
    for kind, one, two in [
        (FairKernelRidge, {}, {}),
        (FairGaussianProcess, {}, {}),
        (FairSVR, {"C": 2.0, "epsilon": 0.1}, {"C": 2.0 * unit_of_y, "epsilon": 0.1 * unit_of_y}),
    ]:
        # libsvm stops at a violation that has the unit of the target.
        tols = [{"tol": 1e-8 * u} if kind is FairSVR else {} for u in (1.0, unit_of_y)]
        first, second = (
            machine(kind, penalty=5.0, **setting, **tol).fit(X, t, sensitive_features=s).predict(X)
            for setting, tol, t in zip((one, two), tols, (y, changed), strict=True)
        )
        assert_allclose((second - 7.0) / unit_of_y, first, atol=2e-5)


@pytest.mark.parametrize("basis", ["rbf", "columns", "splines"])
def test_unit_and_offset_of_s_change_nothing(rng, basis):
    X, y, s = bent(rng)
    first, second = (
        machine(FairKernelRidge, penalty=5.0, basis=basis)
        .fit(X, y, sensitive_features=t)
        .predict(X)
        for t in (s, 1e4 * s - 3e4)
    )
    assert_allclose(second, first, atol=1e-7)

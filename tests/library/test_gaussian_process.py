"""Gaussian process on the fair kernel against dense formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from fkd import FairGaussianProcess, FairKernelDecomposition


def sample(rng, n=100):
    X = rng.normal(size=(n, 4))
    S = X[:, :2] * [1.0, 5.0] + [3.0, -2.0]
    return X, X[:, 0] + X[:, 1] + np.sin(X[:, 2]), S


def fixed(**changes):
    """Return a process whose variances are given in the target's own unit."""
    return FairGaussianProcess(
        **(
            {"gamma": 0.2, "alpha": 0.1, "amplitude": 1.0, "normalize_y": False, "held_out": 0}
            | changes
        )
    )


def leaning(prediction, y, S):
    """Return the largest covariance with a sensitive column, in units of both deviations."""
    covariance = (prediction - prediction.mean()) @ (S - S.mean(axis=0)) / len(S)
    return np.abs(covariance / (y.std() * S.std(axis=0))).max()


def test_without_removal_it_is_a_plain_gaussian_process(rng):
    X, y, S = sample(rng)
    new = 2 * rng.normal(size=(20, 4))
    # exp(-gamma d²) is RBF with gamma = 1 / (2 length²).
    oracle = GaussianProcessRegressor(RBF(1 / np.sqrt(0.4)), alpha=0.1, optimizer=None)
    expected = oracle.fit(X, y - y.mean()).predict(new, return_std=True)
    model = fixed(iterations=0).fit(X, y, sensitive_features=S)
    mean, std = model.predict(new, return_std=True, include_noise=False)
    assert_allclose(mean, expected[0] + y.mean(), atol=1e-9)
    assert_allclose(std, expected[1], atol=1e-9)
    _, observed = model.predict(new, return_std=True)
    assert_allclose(observed**2, std**2 + 0.1, rtol=1e-12)
    assert_allclose(model.log_marginal_likelihood_, oracle.log_marginal_likelihood_value_)


@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier"])
@pytest.mark.parametrize("n", [60, 290])  # within a panel of the solver, across panels
def test_it_is_the_textbook_process_on_the_fair_kernel(rng, approximation, n):
    X, y, S = sample(rng, n=n)
    new = rng.normal(size=(9, 4))
    removal = {"gamma": 0.2, "iterations": 5, "approximation": approximation, "landmarks": 40}
    removal["held_out"] = 0
    fair = FairKernelDecomposition(**removal, random_state=0)
    A = 2.0 * fair.fit_transform(X, sensitive_features=S) + 0.3 * np.eye(n)
    z, unit = (y - y.mean()) / y.std(), y.std()
    K_t = 2.0 * fair.transform(new)
    variance = 2.0 * fair.diag(new) - np.einsum("ij,ji->i", K_t, np.linalg.solve(A, K_t.T))
    model = FairGaussianProcess(alpha=0.3, amplitude=2.0, **removal, random_state=0)
    mean, std = model.fit(X, y, sensitive_features=S).predict(new, True, False)
    assert_allclose(mean, y.mean() + unit * K_t @ np.linalg.solve(A, z), atol=1e-8)
    assert_allclose(std, unit * np.sqrt(variance), atol=1e-8)
    density = -0.5 * (z @ np.linalg.solve(A, z) + np.linalg.slogdet(A)[1] + n * np.log(2 * np.pi))
    assert_allclose(model.log_marginal_likelihood_, density - n * np.log(unit), rtol=1e-9)


@pytest.mark.parametrize(
    "given", [{}, {"alpha": 0.2}, {"amplitude": 3.0}], ids=["both", "amplitude", "noise"]
)
def test_free_variances_are_the_most_probable_ones(rng, given):
    X, y, S = sample(rng, n=150)
    y = y + 0.4 * rng.normal(size=150)
    model = FairGaussianProcess(gamma=0.2, iterations=0, **given).fit(X, y, sensitive_features=S)
    fixed = dict.fromkeys(given, "fixed")
    oracle = GaussianProcessRegressor(
        ConstantKernel(given.get("amplitude", 1.0), fixed.get("amplitude", (1e-5, 1e5)))
        * RBF(1 / np.sqrt(0.4), "fixed")
        + WhiteKernel(given.get("alpha", 0.1), fixed.get("alpha", (1e-5, 1e5))),
        normalize_y=True,
    ).fit(X, y)
    expected = np.exp(oracle.kernel_.theta)
    found = [getattr(model, f"{n}_") for n in ("amplitude", "alpha") if n not in given]
    assert_allclose(found, expected, rtol=1e-3)
    likelihood = oracle.log_marginal_likelihood_value_ - 150 * np.log(y.std())
    assert_allclose(model.log_marginal_likelihood_, likelihood, rtol=1e-6)


@pytest.mark.parametrize("m", [0, 5])
def test_other_variances_are_less_probable(rng, m):
    X, y, S = sample(rng)
    y = y + 0.4 * rng.normal(size=100)
    best = FairGaussianProcess(gamma=0.2, iterations=m).fit(X, y, sensitive_features=S)
    for a, v in [(2, 1), (0.5, 1), (1, 2), (1, 0.5), (2, 2), (0.5, 0.5)]:
        other = FairGaussianProcess(
            gamma=0.2, iterations=m, amplitude=a * best.amplitude_, alpha=v * best.alpha_
        ).fit(X, y, sensitive_features=S)
        assert other.log_marginal_likelihood_ < best.log_marginal_likelihood_


@pytest.mark.parametrize("unit", [1.0, 30_000.0, 1e-6])
def test_the_band_has_the_unit_of_the_target(rng, unit):
    X, y, S = sample(rng, n=900)
    income = unit * (5 + y + 0.5 * rng.normal(size=900))
    model = FairGaussianProcess(gamma=0.2, iterations=8)
    model.fit(X[:600], income[:600], sensitive_features=S[:600])
    mean, std = model.predict(X[600:], return_std=True)
    inside = np.abs(income[600:] - mean) < 1.96 * std
    assert 0.9 < inside.mean() < 0.99


@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier"])
def test_the_mean_leans_on_the_sensitive_columns_before_but_not_after(rng, approximation):
    X, y, S = sample(rng)
    removal = {"gamma": 0.01, "landmarks": 50, "random_state": 0}
    before, after = (
        fixed(approximation=approximation, iterations=m, **removal)
        .fit(X, y, sensitive_features=S)
        .predict(X)
        for m in (0, 3)
    )
    assert leaning(before, y, S) > 0.5
    assert leaning(after, y, S) < 0.1


def test_uncertainty_grows_away_from_the_data_and_never_exceeds_the_prior(rng):
    X, y, S = sample(rng)
    model = fixed(iterations=5).fit(X, y, sensitive_features=S)
    prior = FairKernelDecomposition(gamma=0.2, iterations=5).fit(X, sensitive_features=S).diag(X)
    _, near = model.predict(X, return_std=True, include_noise=False)
    _, far = model.predict(X + 50, return_std=True, include_noise=False)
    assert near.max() < far.min()
    assert_allclose(far, 1.0, atol=1e-6)
    assert (near**2 <= prior + 1e-12).all()


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
def test_what_nothing_is_left_of_is_the_mean_with_all_its_noise(rng):
    X, y, S = sample(rng)
    model = FairGaussianProcess("linear", iterations=9).fit(X, y, sensitive_features=S)
    mean, std = model.predict(X, return_std=True)
    assert_allclose(mean, y.mean(), atol=1e-8)
    assert_allclose(std, y.std(), rtol=1e-6)


@pytest.mark.parametrize("name", ["alpha", "amplitude"])
def test_a_bad_variance_is_refused_by_name(rng, name):
    X, y, S = sample(rng)
    with pytest.raises(ValueError, match=f"{name} must be a finite number above 0"):
        FairGaussianProcess(**{name: 0}).fit(X, y, sensitive_features=S)

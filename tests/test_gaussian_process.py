import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from fkd import FairGaussianProcess


def sample(rng, n=100):
    X = rng.normal(size=(n, 4))
    S = X[:, :2] * [1.0, 5.0] + [3.0, -2.0]
    return X, X[:, 0] + X[:, 1] + np.sin(X[:, 2]), S


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
    model = FairGaussianProcess(gamma=0.2, alpha=0.1, iterations=0)
    mean, std = model.fit(X, y, sensitive_features=S).predict(new, return_std=True)
    assert_allclose(mean, expected[0] + y.mean(), atol=1e-9)
    assert_allclose(std, expected[1], atol=1e-9)


@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier"])
def test_the_mean_leans_on_the_sensitive_columns_before_but_not_after(rng, approximation):
    X, y, S = sample(rng)
    removal = {"gamma": 0.01, "center_sensitive": True, "landmarks": 50, "random_state": 0}
    before, after = (
        FairGaussianProcess(approximation=approximation, iterations=m, **removal)
        .fit(X, y, sensitive_features=S)
        .predict(X)
        for m in (0, 3)
    )
    assert leaning(before, y, S) > 0.5
    assert leaning(after, y, S) < 0.1


def test_uncertainty_grows_away_from_the_data_and_never_exceeds_the_prior(rng):
    X, y, S = sample(rng)
    model = FairGaussianProcess(gamma=0.2, iterations=5).fit(X, y, sensitive_features=S)
    _, near = model.predict(X, return_std=True)
    _, far = model.predict(X + 50, return_std=True)
    assert near.max() < far.min()
    assert_allclose(far, 1.0, atol=1e-6)
    assert (near**2 <= model.fair_.diag(X) + 1e-12).all()


def test_removal_leaves_less_to_know(rng):
    X, y, S = sample(rng)
    prior = [
        FairGaussianProcess(gamma=0.2, iterations=m).fit(X, y, sensitive_features=S).fair_.diag(X)
        for m in (0, 3, 6)
    ]
    assert (np.diff(prior, axis=0) <= 1e-12).all()
    assert prior[2].mean() < prior[0].mean()


def test_a_bad_noise_is_refused_by_name(rng):
    X, y, S = sample(rng)
    with pytest.raises(ValueError, match="alpha must be a finite number above 0"):
        FairGaussianProcess(alpha=0).fit(X, y, sensitive_features=S)

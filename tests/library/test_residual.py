"""Ridge regression of the target minus its linear fit on the sensitive columns."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from training_sample import fit_one, make_training

from fkd.baselines import ResidualTargetRidge
from fkd.methods import Approximation, Training


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_it_is_ridge_regression_of_the_residual(rng, share):
    training = make_training(rng)
    new = rng.uniform(size=(7, 4))
    linear = LinearRegression().fit(training.S, training.y)
    target = training.y - share * (linear.predict(training.S) - training.y.mean())
    other = KernelRidge(kernel="rbf", gamma=0.7, alpha=0.1).fit(training.X, target)
    ours = fit_one("residual_y", training, share=share, gamma=0.7, alpha=0.1)
    assert_allclose(ours.predict(new), other.predict(new), rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["exact", "nystroem", "fourier"])
def test_share_0_is_kernel_ridge_regression(rng, kind, fit_intercept):
    training = make_training(rng)
    common = {"fit_intercept": fit_intercept, "approximation": Approximation(kind, 20)}
    ours = fit_one("residual_y", training, share=0.0, **common)
    plain = fit_one("krr", training, **common)
    assert_array_equal(ours.predict(training.X), plain.predict(training.X))


def test_an_intercept_keeps_the_mean_of_y(rng):
    training = make_training(rng)
    f = fit_one("residual_y", training, fit_intercept=True).predict(training.X)
    assert abs(f.mean() - training.y.mean()) < 1e-12


def test_a_repeated_column_changes_nothing(rng):
    training = make_training(rng, l=1)
    twice = Training(training.X, training.y, training.S[:, [0, 0]], 0)
    assert_allclose(
        fit_one("residual_y", twice).predict(training.X),
        fit_one("residual_y", training).predict(training.X),
        rtol=1e-10,
    )


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_estimator_is_the_method(rng, share):
    training = make_training(rng, n=200)
    setting = {"share": share, "gamma": 0.05, "alpha": 0.25, "fit_intercept": True}
    model = ResidualTargetRidge(**setting)
    model.fit(training.X, training.y, sensitive_features=training.S)
    known = fit_one("residual_y", training, **setting)
    assert_allclose(model.predict(training.X), known.predict(training.X), atol=1e-9)
    assert_allclose(model.slopes_, LinearRegression().fit(training.S, training.y).coef_)

import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge
from training_sample import fit_one, make_training

from fkd.core.feature_maps import KernelSettings
from fkd.methods import Approximation, method


def test_it_is_kernel_ridge_regression(rng):
    training = make_training(rng)
    new = rng.uniform(size=(7, 4))
    other = KernelRidge(kernel="rbf", gamma=0.7, alpha=0.1).fit(training.X, training.y)
    ours = fit_one("krr", training, gamma=0.7, alpha=0.1)
    # The condition of K + alpha·I is below n / alpha = 600.
    assert_allclose(ours.predict(new), other.predict(new), rtol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["exact", "nystroem", "fourier"])
def test_it_is_where_fkd_starts(rng, kind, fit_intercept):
    training = make_training(rng)
    common = {"fit_intercept": fit_intercept, "approximation": Approximation(kind, 20)}
    plain = fit_one("krr", training, **common)
    fair = fit_one("krr_fkd", training, iterations=0, **common)
    assert_array_equal(plain.predict(training.X), fair.predict(training.X))


def test_an_intercept_leaves_no_mean_residual(rng):
    training = make_training(rng)
    residual = training.y - fit_one("krr", training, fit_intercept=True).predict(training.X)
    assert abs(residual.mean()) < 1e-12
    residual = training.y - fit_one("krr", training).predict(training.X)
    assert abs(residual.mean()) > 1e-4  # without one it does


def test_all_alphas_share_one_map_with_the_fair_methods(rng):
    training = make_training(rng)
    krr, fair = method("krr"), method("krr_fkd")
    list(krr.fit(training, [krr.parameters(alpha=a) for a in (0.1, 1.0)]))
    list(fair.fit(training, [fair.parameters(iterations=2)]))
    assert len([key for key in training._cache if isinstance(key, KernelSettings)]) == 1
    assert krr.shared(krr.parameters()) == fair.shared(fair.parameters())

import pytest
from numpy.testing import assert_allclose, assert_array_equal
from training_sample import fit_one, make_training

from fkd.baselines.fkl import closed_form
from fkd.core.kernels import Kernel
from fkd.methods import Approximation, method


@pytest.mark.parametrize("kind", ["exact", "nystroem", "fourier"])
def test_no_price_is_kernel_ridge_regression(rng, kind):
    training = make_training(rng)
    approximation = Approximation(kind, 20)
    fair = fit_one("krr_fkl", training, mu=0.0, approximation=approximation)
    plain = fit_one("krr", training, approximation=approximation)
    assert_allclose(fair.predict(training.X), plain.predict(training.X), rtol=1e-12)


@pytest.mark.parametrize("mu", [0.05, 1.0])
def test_new_rows_are_predicted_as_published(rng, mu):
    training = make_training(rng)
    new = rng.uniform(size=(7, 4))
    k, k_s = Kernel("rbf", 0.8), Kernel("rbf", 0.3)
    coef = closed_form(k.gram(training.X), k_s.gram(training.S), training.y, alpha=0.25, mu=mu)
    ours = fit_one("krr_fkl", training, mu=mu, gamma=0.8, gamma_s=0.3)
    assert_allclose(ours.predict(new), k(new, training.X) @ coef, rtol=1e-8)


@pytest.mark.parametrize(("mu_scale", "power"), [("n", 1), ("n_squared", 2)])
def test_the_price_can_be_divided_by_the_number_of_rows(rng, mu_scale, power):
    training = make_training(rng)
    scaled = fit_one("krr_fkl", training, mu=0.5 * 60.0**power, mu_scale=mu_scale)
    assert_array_equal(
        scaled.predict(training.X), fit_one("krr_fkl", training, mu=0.5).predict(training.X)
    )


def test_a_setting_does_not_depend_on_its_neighbours(rng):
    training = make_training(rng)
    fkl = method("krr_fkl")
    settings = [
        fkl.parameters(mu=mu, alpha=alpha, gamma_s=g)
        for g in (0.05, 0.5)
        for mu in (1.0, 0.0, 0.3)
        for alpha in (0.25, 0.5)
    ]
    together = [f.predict(training.X) for f in fkl.fit(training, settings)]
    alone = [next(iter(fkl.fit(training, [p]))).predict(training.X) for p in settings]
    assert_array_equal(together, alone)

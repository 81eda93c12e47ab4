import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVR
from training_sample import fit_one, make_training

from fkd.methods import Approximation, method


def test_it_is_support_vector_regression(rng):
    training = make_training(rng)
    new = rng.uniform(size=(7, 4))
    other = SVR(gamma=0.7, C=2.0, epsilon=0.05).fit(training.X, training.y)
    ours = fit_one("svr", training, gamma=0.7, C=2.0, epsilon=0.05)
    # libsvm stops within 1e-3 of the optimum, on a kernel that it rounds differently.
    assert_allclose(ours.predict(new), other.predict(new), atol=2e-3)


@pytest.mark.parametrize("kind", ["exact", "nystroem"])
def test_it_is_where_fkd_starts(rng, kind):
    training = make_training(rng)
    approximation = Approximation(kind, 20)
    plain = fit_one("svr", training, approximation=approximation)
    fair = fit_one("svr_fkd", training, iterations=0, approximation=approximation)
    assert_array_equal(plain.predict(training.X), fair.predict(training.X))


@pytest.mark.parametrize("problem", ["crimes", "acs_income", "acs_travel_time"])
def test_its_published_parameters_are_those_of_the_fair_machine(problem):
    (plain,) = method("svr").settings(problem, {}, None)
    fair = method("svr_fkd").settings(problem, {}, None)[0]
    names = ("gamma", "C", "epsilon")
    assert [getattr(plain, n) for n in names] == [getattr(fair, n) for n in names]


def test_a_setting_does_not_depend_on_its_neighbours(rng):
    training = make_training(rng)
    svr = method("svr")
    settings = [svr.parameters(C=C, gamma=g) for g in (0.1, 0.5) for C in (0.5, 2.0)]
    together = [f.predict(training.X) for f in svr.fit(training, settings)]
    alone = [next(iter(svr.fit(training, [p]))).predict(training.X) for p in settings]
    assert_array_equal(together, alone)

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from training_sample import fit_one, make_training, worst_correlation

from fkd.methods import Approximation, Training, method

# concept-erasure compiles one of its functions when it is imported.
pytestmark = [
    pytest.mark.needs("torch", "concept_erasure"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
]


@pytest.fixture(autouse=True)
def leace():
    from fkd.baselines.erasure import leace

    return leace


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_no_feature_correlates_with_either_column(rng, leace, scale):
    training = make_training(rng, n=300, d=6)
    erase = leace(training.X, scale * training.S)
    assert worst_correlation(erase(training.X), training.S) < 1e-10
    assert worst_correlation(training.X, training.S) > 0.5  # the check would bite


def test_erasure_changes_as_many_directions_as_there_are_columns(rng, leace):
    training = make_training(rng, n=300, d=6)
    erase = leace(training.X, training.S)
    change = training.X - erase(training.X)
    assert np.linalg.matrix_rank(change, tol=1e-9) == 2
    assert_allclose(change.mean(axis=0), 0.0, atol=1e-13)


def test_erasing_twice_is_erasing_once(rng, leace):
    training = make_training(rng, n=300, d=6)
    erase = leace(training.X, training.S)
    once = erase(training.X)
    assert_allclose(erase(once), once, atol=1e-12)


def test_a_column_given_twice_is_erased_once(rng, leace):
    training = make_training(rng, n=300, d=6)
    s = training.S[:, :1]
    twice = leace(training.X, np.hstack([s, s]))
    assert_allclose(twice(training.X), leace(training.X, s)(training.X), atol=1e-10)


def test_one_hot_columns_may_be_dependent(rng, leace):
    X = np.eye(4)[rng.integers(4, size=200)]
    s = X[:, :1] + rng.normal(size=(200, 1))
    assert np.abs(np.cov(leace(X, s)(X), s, rowvar=False)[:4, 4]).max() < 1e-12


def test_the_method_is_ridge_regression_on_erased_inputs(rng, leace):
    training = make_training(rng)
    erase = leace(training.X, training.S)
    new = rng.uniform(size=(7, 4))
    other = KernelRidge(kernel="rbf", gamma=0.7, alpha=0.1).fit(erase(training.X), training.y)
    ours = fit_one("leace", training, gamma=0.7, alpha=0.1)
    assert_allclose(ours.predict(new), other.predict(erase(new)), rtol=1e-9)


@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_inputs_can_be_erased_before_a_reduced_map(rng, kind):
    f = fit_one("leace", make_training(rng), approximation=Approximation(kind, 20))
    assert np.isfinite(f.predict(rng.uniform(size=(7, 4)))).all()


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_in_feature_space_no_prediction_correlates_with_either_column(rng, fit_intercept):
    training = make_training(rng, n=300)
    common = {"fit_intercept": fit_intercept, "approximation": Approximation("nystroem", 30)}
    fair = fit_one("leace_nystroem", training, **common).predict(training.X)
    plain = fit_one("krr", training, **common).predict(training.X)
    # Features of an RBF kernel have covariances down to 1e-8, of which the package keeps half.
    assert worst_correlation(fair, training.S) < 1e-6
    assert worst_correlation(plain, training.S) > 0.3  # the check would bite


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_what_ships_is_ridge_regression_on_erased_features(rng, fit_intercept):
    training = make_training(rng)
    declared = method("leace_nystroem")
    p = declared.parameters(
        alpha=0.1, fit_intercept=fit_intercept, approximation=Approximation("nystroem", 20)
    )
    new = rng.uniform(size=(7, 4))
    seen, unseen = (declared.represent(training, p, rows) for rows in (training.X, new))
    other = Ridge(alpha=0.1, fit_intercept=fit_intercept).fit(seen, training.y)
    (ours,) = declared.fit(training, [p])
    assert_allclose(ours.predict(new), other.predict(unseen), rtol=1e-7)


@pytest.mark.parametrize("name", ["leace", "leace_nystroem"])
def test_a_setting_does_not_depend_on_its_neighbours(rng, name):
    training = make_training(rng)
    declared = method(name)
    settings = [declared.parameters(alpha=a, gamma=g) for a in (0.1, 1.0) for g in (0.05, 0.5)]
    together = [f.predict(training.X) for f in declared.fit(training, settings)]
    alone = [next(iter(declared.fit(training, [p]))).predict(training.X) for p in settings]
    assert_array_equal(together, alone)


def test_the_representation_of_inputs_is_what_the_machine_sees(rng):
    training = make_training(rng)
    declared = method("leace")
    f = fit_one("leace", training)
    left = declared.represent(training, declared.parameters(), training.X)
    assert_array_equal(f.inner.predict(left), f.predict(training.X))


def test_arguments_stay_as_they_are(rng, leace):
    training = make_training(rng)
    frozen = Training(training.X, training.y, training.S, 0)
    frozen.X.flags.writeable = frozen.S.flags.writeable = False
    leace(frozen.X, frozen.S)

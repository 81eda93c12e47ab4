import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge
from training_sample import fit_one, make_training, worst_correlation

from fkd.methods import Approximation, method

pytestmark = pytest.mark.needs("fairlearn")


def rows(training):
    return np.hstack([training.X, training.S])


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_it_is_ridge_regression_behind_fairlearn(rng, share):
    from fairlearn.preprocessing import CorrelationRemover

    training, new = make_training(rng), make_training(rng, n=7)
    remover = CorrelationRemover(sensitive_feature_ids=[4, 5], alpha=share)
    Z = remover.fit_transform(rows(training))
    other = KernelRidge(kernel="rbf", gamma=0.7, alpha=0.1).fit(Z, training.y)
    ours = fit_one("correlation_remover", training, share=share, gamma=0.7, alpha=0.1)
    assert_allclose(ours.predict(rows(new)), other.predict(remover.transform(rows(new))), rtol=1e-9)


def test_inputs_keep_no_correlation_with_either_column(rng):
    training = make_training(rng, n=300)
    corrected = fit_one("correlation_remover", training).correction(rows(training))
    assert worst_correlation(corrected, training.S) < 1e-10
    assert worst_correlation(training.X, training.S) > 0.5  # the check would bite


def test_no_share_is_kernel_ridge_regression(rng):
    training = make_training(rng)
    plain = fit_one("krr", training).predict(training.X)
    ours = fit_one("correlation_remover", training, share=0.0)
    assert_array_equal(ours.predict(rows(training)), plain)


def test_it_declares_that_predicting_needs_s_because_it_does(rng):
    assert method("correlation_remover").needs_sensitive
    training = make_training(rng)
    f = fit_one("correlation_remover", training)
    other = np.hstack([training.X, training.S + 0.5])
    assert np.abs(f.predict(other) - f.predict(rows(training))).max() > 0.01


@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_a_reduced_map_works_behind_it(rng, kind):
    training = make_training(rng)
    f = fit_one("correlation_remover", training, approximation=Approximation(kind, 20))
    assert np.isfinite(f.predict(rows(training))).all()


def test_a_setting_does_not_depend_on_its_neighbours(rng):
    training = make_training(rng)
    declared = method("correlation_remover")
    settings = [declared.parameters(share=s, alpha=a) for a in (0.1, 1.0) for s in (1.0, 0.5)]
    together = [f.predict(rows(training)) for f in declared.fit(training, settings)]
    alone = [next(iter(declared.fit(training, [p]))).predict(rows(training)) for p in settings]
    assert_array_equal(together, alone)

"""Linear erasure: LEACE on inputs and features, the correlation remover, affine corrections."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from training_sample import fit_one, make_training, worst_correlation

from fkd.baselines import LinearErasure
from fkd.baselines.erasure import LEAST_CORRELATION, leace
from fkd.core.predictors import LinearCorrection
from fkd.methods import Approximation, Training, method

# concept-erasure compiles one of its functions when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
needs_leace = pytest.mark.needs("torch", "concept_erasure")
needs_fairlearn = pytest.mark.needs("fairlearn")


def with_s(training):
    return np.hstack([training.X, training.S])


def make_correction(rng, d=4, l=0, w=2):
    return LinearCorrection(
        rng.normal(size=d + l), rng.normal(size=(d + l, w)), rng.normal(size=(d, w))
    )


@needs_leace
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_it_is_the_package_on_the_same_rows(rng, offset):
    import torch
    from concept_erasure import LeaceFitter

    training = make_training(rng, n=300, d=6)
    X, standard = training.X + offset, (training.S - training.S.mean(axis=0))
    standard /= training.S.std(axis=0)
    package = LeaceFitter.fit(
        torch.tensor(X),
        torch.tensor(standard),
        svd_tol=LEAST_CORRELATION,
        constrain_cov_trace=False,
    )
    expected = package.eraser(torch.tensor(X)).numpy()
    assert_allclose(leace(X, training.S)(X), expected, atol=1e-9)
    assert np.abs(X - expected).max() > 0.1


@needs_leace
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_no_feature_correlates_with_either_column(rng, scale):
    training = make_training(rng, n=300, d=6)
    erase = leace(training.X, scale * training.S)
    assert worst_correlation(erase(training.X), training.S) < 1e-10
    assert worst_correlation(training.X, training.S) > 0.5  # the check fails without erasure


@needs_leace
def test_erasure_changes_as_many_directions_as_there_are_columns(rng):
    training = make_training(rng, n=300, d=6)
    erase = leace(training.X, training.S)
    change = training.X - erase(training.X)
    assert np.linalg.matrix_rank(change, tol=1e-9) == 2
    assert_allclose(change.mean(axis=0), 0.0, atol=1e-13)


@needs_leace
def test_erasing_twice_is_erasing_once(rng):
    training = make_training(rng, n=300, d=6)
    erase = leace(training.X, training.S)
    once = erase(training.X)
    assert_allclose(erase(once), once, atol=1e-12)


@needs_leace
def test_a_repeated_column_is_erased_once(rng):
    training = make_training(rng, n=300, d=6)
    s = training.S[:, :1]
    twice = leace(training.X, np.hstack([s, s]))
    assert_allclose(twice(training.X), leace(training.X, s)(training.X), atol=1e-10)


@needs_leace
def test_one_hot_columns_may_be_dependent(rng):
    X = np.eye(4)[rng.integers(4, size=200)]
    s = X[:, :1] + rng.normal(size=(200, 1))
    assert np.abs(np.cov(leace(X, s)(X), s, rowvar=False)[:4, 4]).max() < 1e-12


@needs_leace
def test_the_method_is_ridge_regression_on_erased_inputs(rng):
    training = make_training(rng)
    erase = leace(training.X, training.S)
    new = rng.uniform(size=(7, 4))
    other = KernelRidge(kernel="rbf", gamma=0.7, alpha=0.1).fit(erase(training.X), training.y)
    ours = fit_one("leace", training, gamma=0.7, alpha=0.1)
    assert_allclose(ours.predict(new), other.predict(erase(new)), rtol=1e-9)


@needs_leace
@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_inputs_can_be_erased_before_a_reduced_map(rng, kind):
    f = fit_one("leace", make_training(rng), approximation=Approximation(kind, 20))
    assert np.isfinite(f.predict(rng.uniform(size=(7, 4)))).all()


@needs_leace
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_in_feature_space_no_prediction_correlates_with_either_column(rng, fit_intercept):
    training = make_training(rng, n=300)
    common = {"fit_intercept": fit_intercept, "approximation": Approximation("nystroem", 30)}
    fair = fit_one("leace_nystroem", training, **common).predict(training.X)
    plain = fit_one("krr", training, **common).predict(training.X)
    # Features of an RBF kernel have covariances down to 1e-8, of which the package keeps half.
    assert worst_correlation(fair, training.S) < 1e-6
    assert worst_correlation(plain, training.S) > 0.3  # the check fails without erasure


@needs_leace
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_predictor_is_ridge_regression_on_erased_features(rng, fit_intercept):
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


@needs_leace
@pytest.mark.parametrize("name", ["leace", "leace_nystroem"])
def test_a_setting_does_not_depend_on_the_others(rng, name):
    training = make_training(rng)
    declared = method(name)
    settings = [declared.parameters(alpha=a, gamma=g) for a in (0.1, 1.0) for g in (0.05, 0.5)]
    together = [f.predict(training.X) for f in declared.fit(training, settings)]
    alone = [next(iter(declared.fit(training, [p]))).predict(training.X) for p in settings]
    assert_array_equal(together, alone)


@needs_leace
def test_the_representation_is_the_input_of_the_regression(rng):
    training = make_training(rng)
    declared = method("leace")
    f = fit_one("leace", training)
    left = declared.represent(training, declared.parameters(), training.X)
    assert_array_equal(f.inner.predict(left), f.predict(training.X))


@needs_leace
def test_arguments_are_not_changed(rng):
    training = make_training(rng)
    frozen = Training(training.X, training.y, training.S, 0)
    frozen.X.flags.writeable = frozen.S.flags.writeable = False
    leace(frozen.X, frozen.S)


@needs_leace
def test_the_estimator_is_the_erasure_of_the_method(rng):
    training = make_training(rng, n=200)
    erased = LinearErasure().fit_transform(training.X, sensitive_features=training.S)
    deviation = training.S - training.S.mean(axis=0)
    assert np.abs(erased.T @ deviation).max() < 1e-8
    assert np.abs(training.X.T @ deviation).max() > 1.0
    assert_array_equal(erased, fit_one("leace", training).correction(training.X))


@needs_fairlearn
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_correlation_remover_is_ridge_regression_on_the_output_of_fairlearn(rng, share):
    from fairlearn.preprocessing import CorrelationRemover

    training, new = make_training(rng), make_training(rng, n=7)
    remover = CorrelationRemover(sensitive_feature_ids=[4, 5], alpha=share)
    Z = remover.fit_transform(with_s(training))
    other = KernelRidge(kernel="rbf", gamma=0.7, alpha=0.1).fit(Z, training.y)
    ours = fit_one("correlation_remover", training, share=share, gamma=0.7, alpha=0.1)
    expected = other.predict(remover.transform(with_s(new)))
    assert_allclose(ours.predict(with_s(new)), expected, rtol=1e-9)


@needs_fairlearn
def test_the_correlation_remover_leaves_no_correlation_with_either_column(rng):
    training = make_training(rng, n=300)
    corrected = fit_one("correlation_remover", training).correction(with_s(training))
    assert worst_correlation(corrected, training.S) < 1e-10
    assert worst_correlation(training.X, training.S) > 0.5  # the check fails without correction


@needs_fairlearn
def test_a_correlation_remover_of_share_0_is_kernel_ridge_regression(rng):
    training = make_training(rng)
    plain = fit_one("krr", training).predict(training.X)
    ours = fit_one("correlation_remover", training, share=0.0)
    assert_array_equal(ours.predict(with_s(training)), plain)


@needs_fairlearn
def test_the_correlation_remover_needs_s_to_predict(rng):
    assert method("correlation_remover").needs_sensitive
    training = make_training(rng)
    f = fit_one("correlation_remover", training)
    other = np.hstack([training.X, training.S + 0.5])
    assert np.abs(f.predict(other) - f.predict(with_s(training))).max() > 0.01


@needs_fairlearn
@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_the_correlation_remover_combines_with_reduced_maps(rng, kind):
    training = make_training(rng)
    f = fit_one("correlation_remover", training, approximation=Approximation(kind, 20))
    assert np.isfinite(f.predict(with_s(training))).all()


@needs_fairlearn
def test_a_correlation_remover_does_not_depend_on_the_other_settings(rng):
    training = make_training(rng)
    declared = method("correlation_remover")
    settings = [declared.parameters(share=s, alpha=a) for a in (0.1, 1.0) for s in (1.0, 0.5)]
    together = [f.predict(with_s(training)) for f in declared.fit(training, settings)]
    alone = [next(iter(declared.fit(training, [p]))).predict(with_s(training)) for p in settings]
    assert_array_equal(together, alone)


@pytest.mark.parametrize("l", [0, 2])
def test_a_correction_is_its_formula_on_read_only_rows(rng, l):
    correction = make_correction(rng, l=l)
    X = rng.normal(size=(5, 4 + l))
    X.flags.writeable = False
    A = np.eye(4 + l)[:, :4] - correction.R @ correction.L.T
    expected = X @ A + correction.mean @ correction.R @ correction.L.T
    assert_allclose(correction(X), expected, rtol=1e-12)


def test_weights_on_corrected_rows_can_be_written_on_plain_rows(rng):
    correction, beta = make_correction(rng), rng.normal(size=4)
    X = rng.normal(size=(5, 4))
    plain, constant = correction.pulled_back(beta)
    assert_allclose(X @ plain + constant, correction(X) @ beta, rtol=1e-12)


def test_weights_cannot_be_written_on_rows_with_more_columns(rng):
    with pytest.raises(ValueError, match=r"6 columns .*got 4"):
        make_correction(rng, l=2).pulled_back(np.ones(4))


def test_a_correction_is_restored_from_its_arrays(rng):
    correction = make_correction(rng, l=1)
    X = rng.normal(size=(5, 5))
    assert_array_equal(LinearCorrection.from_arrays(correction.arrays())(X), correction(X))

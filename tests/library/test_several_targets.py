"""Several targets: each is predicted as if it were alone."""

import numpy as np
import pytest
from estimator_sample import people
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from fkd import FairGaussianProcess, FairKernelRidge, FairSVR
from fkd.core.arrays import BLOCK_ROWS
from fkd.core.predictors import TargetExpansions

KINDS = [FairKernelRidge, FairGaussianProcess]
QUIET = pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")


def targets(rng, n=150, d=5):
    X, y, s = people(rng, n=n, d=d)
    return X, np.column_stack([y, 100 - 30 * X[:, 2] ** 2, X[:, 0] + 7]), s


@QUIET
@pytest.mark.parametrize("setting", [{"iterations": 2}, {"removal": "shrinkage", "penalty": 5.0}])
@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier", "identity"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_target_is_predicted_as_if_it_were_alone(rng, kind, approximation, setting):
    X, Y, s = targets(rng)
    kernel = {"kernel": "linear"} if approximation == "identity" else {"gamma": 0.3}
    model = kind(approximation=approximation, landmarks=40, random_state=0, **kernel, **setting)
    found = model.fit(X, Y, sensitive_features=s).predict(X)
    assert found.shape == Y.shape
    for j, y in enumerate(Y.T):
        alone = clone(model).fit(X, y, sensitive_features=s).predict(X)
        assert_allclose(found[:, j], alone, rtol=1e-9)


@QUIET
@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_of_several_targets_are_summed_in_blocks(rng, kind):
    X, Y, s = targets(rng, n=BLOCK_ROWS + 300, d=3)
    model = kind(gamma=0.3, approximation="nystroem", landmarks=30, random_state=0, iterations=2)
    found = model.fit(X, Y, sensitive_features=s).predict(X)
    alone = clone(model).fit(X, Y[:, 1], sensitive_features=s).predict(X)
    assert_allclose(found[:, 1], alone, rtol=1e-7)
    assert_allclose(
        model.at(1).predict(X)[:, 1],
        clone(model).set_params(iterations=1).fit(X, Y[:, 1], sensitive_features=s).predict(X),
        rtol=1e-5,
    )


@QUIET
def test_every_target_has_its_own_band(rng):
    X, Y, s = targets(rng)
    model = FairGaussianProcess(gamma=0.3, iterations=2).fit(X, Y, sensitive_features=s)
    _, std = model.predict(X, return_std=True)
    assert std.shape == Y.shape
    assert model.alpha_.shape == model.amplitude_.shape == (3,)
    for j, y in enumerate(Y.T):
        alone = clone(model).fit(X, y, sensitive_features=s)
        assert_allclose(std[:, j], alone.predict(X, return_std=True)[1], rtol=1e-6)
        assert_allclose(model.log_marginal_likelihood_[j], alone.log_marginal_likelihood_)


@QUIET
@pytest.mark.parametrize("kind", KINDS)
def test_predictors_of_several_targets_are_plain_arrays(rng, kind):
    X, Y, s = targets(rng)
    for approximation in ("exact", "fourier"):
        model = kind(gamma=0.3, approximation=approximation, random_state=0, landmarks=40)
        f = model.fit(X, Y, sensitive_features=s).expansion()
        assert isinstance(f, TargetExpansions)
        again = TargetExpansions.from_arrays(f.arrays())
        assert_array_equal(again.predict(X), model.predict(X))


@QUIET
@pytest.mark.parametrize("kind", KINDS)
def test_one_column_of_a_table_stays_a_table(rng, kind):
    X, Y, s = targets(rng)
    model = kind(gamma=0.3)
    table = model.fit(X, Y[:, :1], sensitive_features=s).predict(X)
    assert table.shape == (150, 1)
    assert_allclose(table[:, 0], model.fit(X, Y[:, 0], sensitive_features=s).predict(X))


def test_what_takes_one_target_says_so(rng):
    X, Y, s = targets(rng)
    with pytest.raises(ValueError, match=r"y must be one target, 1d, .* got shape \(150, 3\)"):
        FairSVR().fit(X, Y, sensitive_features=s)
    with pytest.raises(ValueError, match="unfairness must be None if y has several columns"):
        FairKernelRidge(unfairness={"gdp": 0.1}).fit(X, Y, sensitive_features=s)


def test_a_missing_value_of_any_target_is_refused(rng):
    X, Y, s = targets(rng)
    Y[3, 2] = np.nan
    with pytest.raises(ValueError, match="y must be finite, got NaN in column 2"):
        FairKernelRidge().fit(X, Y, sensitive_features=s)

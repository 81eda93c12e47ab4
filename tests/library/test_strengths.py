"""Strengths: at and fit_path equal single fits, and parameters of the other removal are refused."""

import pickle

import numpy as np
import pytest
from estimator_sample import MACHINES, REGRESSORS, longest_side, people, target
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fkd import (
    FairGaussianProcess,
    FairKernelDecomposition,
    FairKernelRidge,
    FairKernelShrinkage,
    FairnessWarning,
    FairSVC,
    FairSVR,
)
from fkd.core.arrays import BLOCK_ROWS

SVMS = [FairSVR, FairSVC]
QUIET = pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
REDUCED = {"approximation": "nystroem", "landmarks": 40, "random_state": 0}


def machine(kind, removal="path", **setting):
    own = {"iterations": 6} if removal == "path" else {"penalty": 100.0}
    fixed = {"alpha": 0.3, "amplitude": 1.0} if kind is FairGaussianProcess else {}
    return kind(gamma=0.3, removal=removal, held_out=0, **{**own, **fixed, **setting})


def answer(model, X):
    return model.decision_function(X) if isinstance(model, FairSVC) else model.predict(X)


def strengths(removal):
    return ("iterations", [0, 2, 6]) if removal == "path" else ("penalty", [0.0, 3.0, 100.0])


both = pytest.mark.parametrize("removal", ["path", "shrinkage"])


@QUIET
@both
@pytest.mark.parametrize("kind", MACHINES)
def test_a_fitted_copy_at_another_strength_is_the_fit_at_that_strength(rng, kind, removal):
    X, y, s = people(rng, n=150)
    y = target(kind, y)
    fitted = machine(kind, removal).fit(X, y, sensitive_features=s)
    before = answer(fitted, X)
    name, values = strengths(removal)
    for value in values:
        other = fitted.at(value)
        alone = clone(fitted).set_params(**{name: value}).fit(X, y, sensitive_features=s)
        assert_allclose(answer(other, X), answer(alone, X), atol=1e-7)
        assert other.get_params() == alone.get_params()
        assert other.strength_ == value == alone.strength_
        assert other.effective_iterations_ == alone.effective_iterations_
        assert other.held_out_ is None is other.unfairness_
    assert_array_equal(answer(fitted, X), before)
    assert np.abs(answer(fitted.at(0), X) - before).max() > 0.01  # strengths do differ


@QUIET
@both
@pytest.mark.parametrize("kind", [FairKernelRidge, FairGaussianProcess])
@pytest.mark.parametrize("setting", [REDUCED, {**REDUCED, "approximation": "fourier"}])
def test_regressions_on_reduced_maps_know_every_strength_without_rows(rng, kind, removal, setting):
    X, y, s = people(rng, n=150)
    fitted = machine(kind, removal, **setting).fit(X, y, sensitive_features=s)
    name, values = strengths(removal)
    for value in values:
        alone = clone(fitted).set_params(**{name: value}).fit(X, y, sensitive_features=s)
        assert_allclose(fitted.at(value).predict(X), alone.predict(X), atol=1e-8)


@QUIET
def test_a_process_finds_its_variances_anew_at_each_strength(rng):
    X, y, s = people(rng, n=150)
    for setting in ({}, REDUCED):
        fitted = machine(FairGaussianProcess, alpha=None, amplitude=None, **setting)
        fitted.fit(X, y, sensitive_features=s)
        alone = clone(fitted).set_params(iterations=2).fit(X, y, sensitive_features=s)
        found = fitted.at(2)
        assert_allclose(found.alpha_, alone.alpha_, rtol=1e-4)
        assert found.alpha_ != fitted.alpha_
        for own, other in zip(
            found.predict(X, return_std=True), alone.predict(X, return_std=True), strict=True
        ):
            assert_allclose(own, other, rtol=1e-4)


@QUIET
@pytest.mark.parametrize("kind", SVMS)
def test_a_support_vector_machine_without_its_rows_names_the_other_way(rng, kind):
    X, y, s = people(rng, n=120)
    model = machine(kind, **REDUCED).fit(X, target(kind, y), sensitive_features=s)
    with pytest.raises(ValueError, match=rf"at of {kind.__name__} needs .*fit_path.*\[2\]"):
        model.at(2)


@QUIET
@both
@pytest.mark.parametrize("setting", [{}, REDUCED])
@pytest.mark.parametrize("kind", MACHINES)
def test_a_path_of_fits_holds_what_each_fit_alone_gives(rng, kind, removal, setting):
    X, y, s = people(rng, n=150)
    y = target(kind, y)
    model = machine(kind, removal, **setting)
    name, values = strengths(removal)
    wanted = {"iterations": values} if removal == "path" else {"penalties": values}
    found = model.fit_path(X, y, sensitive_features=s, **wanted)
    assert list(found) == values
    for value, fitted in found.items():
        alone = clone(model).set_params(**{name: value}).fit(X, y, sensitive_features=s)
        assert_array_equal(answer(fitted, X), answer(alone, X))
        assert fitted.get_params() == alone.get_params()
        assert fitted.n_features_in_ == 5
    with pytest.raises(NotFittedError):
        answer(model, X)


@QUIET
@pytest.mark.parametrize(
    ("model", "name", "values"),
    [
        (FairKernelDecomposition(gamma=0.3, iterations=3), "iterations", [0, 2, 5]),
        (FairKernelShrinkage(gamma=0.3), "penalty", [0.0, 10.0, np.inf]),
    ],
)
def test_transformers_have_a_path_too(rng, model, name, values):
    X, _, s = people(rng, n=120)
    given = {"iterations": values} if name == "iterations" else {"penalties": values}
    found = model.fit_path(X, sensitive_features=s, **given)
    for value, fitted in found.items():
        alone = clone(model).set_params(**{name: value}).fit(X, sensitive_features=s)
        assert_array_equal(fitted.transform(X), alone.transform(X))
        assert fitted.get_params() == alone.get_params()
        assert fitted.strength_ == value
    with pytest.raises(NotFittedError):
        model.transform(X)


@pytest.mark.parametrize("kind", MACHINES)
def test_strengths_that_are_not_there_are_refused(rng, kind):
    X, y, s = people(rng, n=80)
    rows = X, target(kind, y)
    model = machine(kind, iterations=2).fit(*rows, sensitive_features=s)
    with pytest.raises(ValueError, match=r"iterations must be at most 2, .*got 3"):
        model.at(3)
    with pytest.raises(ValueError, match="iterations must be a whole number"):
        model.at(0.5)
    with pytest.raises(ValueError, match="iterations must be a list or array"):
        model.fit_path(*rows, sensitive_features=s)
    with pytest.raises(ValueError, match="penalties must be None in fit_path"):
        model.fit_path(*rows, sensitive_features=s, iterations=[1], penalties=[1.0])
    with pytest.raises(NotFittedError):
        clone(model).at(1)


@QUIET
@pytest.mark.parametrize("kind", [*REGRESSORS, FairSVC])
def test_no_machine_on_a_reduced_map_keeps_a_training_row(rng, kind, monkeypatch):
    """Neither in memory nor in its pickle, and nothing n x n is ever formed."""
    n = BLOCK_ROWS + 900
    X, y, s = people(rng, n=n, d=3)
    cost = {"C": 0.01} if kind in SVMS else {}
    model = machine(kind, iterations=2, **cost, **REDUCED)

    def refuse(*_):
        raise AssertionError("an n x n matrix was formed")

    monkeypatch.setattr("fkd.core.feature_maps.FeatureMap.training_gram", refuse)
    model.fit(X, target(kind, y), sensitive_features=s)
    assert longest_side(pickle.loads(pickle.dumps(model))) < 100
    assert longest_side(model) < 100
    assert len(answer(model, X)) == n


@pytest.mark.parametrize("kind", [FairKernelRidge, FairSVR])
def test_an_exact_machine_keeps_no_matrix_of_the_size_of_its_kernel(rng, kind):
    X, y, s = people(rng, n=400, d=3)
    model = machine(kind, iterations=2).fit(X, y, sensitive_features=s)
    assert len(pickle.dumps(model)) < 8 * 400**2 / 4


MACHINES = [FairKernelRidge, FairSVR, FairGaussianProcess, FairSVC]


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(80, 3))
    return X, X[:, 1] > 0, X[:, 0] + rng.normal(size=80)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_path_has_no_penalty(rows, machine):
    X, y, s = rows
    with pytest.raises(ValueError, match=r"penalty must be None if removal='path', got 3"):
        machine(penalty=3).fit(X, y, sensitive_features=s)


@pytest.mark.parametrize(
    "ignored", [{"iterations": 10}, {"ridge": 0.1}, {"center_sensitive": False}]
)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_shrinkage_refuses_parameters_of_a_path(rows, machine, ignored):
    X, y, s = rows
    (name,) = ignored
    with pytest.raises(ValueError, match=rf"{name} must be .* if removal='shrinkage'"):
        machine(removal="shrinkage", **ignored).fit(X, y, sensitive_features=s)


def test_centring_is_refused_beside_functions_that_are_always_centred(rows):
    X, _, s = rows
    with pytest.raises(ValueError, match="center_sensitive must be True if basis='splines'"):
        FairKernelRidge(basis="splines", center_sensitive=False).fit(
            X, X[:, 1], sensitive_features=s
        )


def test_a_bound_chooses_the_penalty(rows):
    X, _, s = rows
    model = FairKernelRidge(removal="shrinkage", penalty=3.0, unfairness={"gdp": 0.1})
    with pytest.raises(ValueError, match="penalty must be None if unfairness is given"):
        model.fit(X, X[:, 1], sensitive_features=s)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_shrinkage_has_a_penalty_of_its_own_where_none_is_named(rows, machine):
    X, y, s = rows
    model = machine(removal="shrinkage").fit(X, y, sensitive_features=s)
    assert model.strength_ == 10


def test_a_path_of_both_strengths_is_refused(rows):
    X, y, s = rows
    model = FairKernelRidge(removal="shrinkage")
    with pytest.raises(
        ValueError, match=r"iterations must be None in fit_path if removal='shrinkage'"
    ):
        model.fit_path(X, y, sensitive_features=s, alphas=[1.0], iterations=[1], penalties=[1.0])


def test_an_unknown_removal_is_named(rows):
    X, y, s = rows
    with pytest.raises(ValueError, match="removal must be one of path, shrinkage, got 'cut'"):
        FairSVR(removal="cut").fit(X, y, sensitive_features=s)


def test_what_is_given_may_explain_everything_away(rng):
    X = rng.normal(size=(200, 2))
    s = X[:, 0] + 0.02 * rng.normal(size=200)
    model = FairKernelRidge(removal="shrinkage", given=[0], held_out=0)
    with pytest.warns(FairnessWarning, match="given explains all but"):
        model.fit(X, X[:, 1], sensitive_features=s)
    few = FairKernelRidge(removal="shrinkage", given=[1], held_out=0)
    few.fit(X, np.asarray(X[:, 1]), sensitive_features=s)  # of which no warning comes


def test_strengths_may_be_arrays(rows):
    X, y, s = rows
    found = FairSVC(gamma=0.3, held_out=0).fit_path(
        X, y, sensitive_features=s, iterations=np.arange(3)
    )
    assert list(found) == [0, 1, 2]
    model = FairKernelRidge(gamma=0.3, held_out=0)
    by_alpha = model.fit_path(
        X, X[:, 1], sensitive_features=s, iterations=np.array([0]), alphas=np.array([0.5, 2.0])
    )
    assert list(by_alpha) == [(0, 0.5), (0, 2.0)]


@pytest.mark.parametrize("wrong", [{"iterations": 5}, {"iterations": [1], "alphas": 1.0}])
def test_a_single_strength_is_refused_by_name(rows, wrong):
    X, _, s = rows
    name = list(wrong)[-1]
    with pytest.raises(ValueError, match=f"{name} must be a list or array"):
        FairKernelRidge().fit_path(X, X[:, 1], sensitive_features=s, **wrong)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_precomputed_kernel_must_be_square(rng, machine):
    X = rng.normal(size=(150, 4))
    with pytest.raises(ValueError, match=r"X must be a square matrix .*\(150, 4\)"):
        machine(kernel="precomputed").fit(X, X[:, 1] > 0, sensitive_features=X[:, 0])

"""Parameters of a removal that contradict each other are refused, not ignored."""

import numpy as np
import pytest

from fkd import FairGaussianProcess, FairKernelRidge, FairnessWarning, FairSVC, FairSVR

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
    with pytest.raises(ValueError, match=r"penalties alone if removal='shrinkage', got both"):
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

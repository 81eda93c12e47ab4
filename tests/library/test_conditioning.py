"""Conditioning columns: dependence through them is allowed, other dependence is removed."""

import warnings

import numpy as np
import pandas as pd
import pytest
from estimator_sample import MACHINES, target
from numpy.testing import assert_allclose, assert_array_equal
from shrinkage_sample import GAMMA, bent, covariances, rbf, unit

from fkd import FairKernelDecomposition, FairKernelRidge, FairKernelShrinkage, FairnessWarning
from fkd.core.conditioning import Functions
from fkd.core.sensitive_basis import BasisSettings, SplineBasis, centred

NAMES = ["income", "age", "distance"]


def residual(s, Z):
    """What splines of s hold beyond splines of Z."""
    B, A = (SplineBasis.from_rows(np.column_stack([v]))(np.column_stack([v])) for v in (s, Z))
    return B - A @ np.linalg.lstsq(A, B, rcond=None)[0], B


def fair(kind=FairKernelShrinkage, **setting):
    if kind is FairKernelShrinkage:
        setting = {"penalty": np.inf, **setting}
    return kind(**{"gamma": GAMMA, "basis": "splines", "held_out": 0, **setting})


@pytest.mark.parametrize("given", ["y", [2], [0, 2], 2])
def test_what_depends_on_s_beyond_what_is_given_is_gone(rng, given):
    X, y, s = bent(rng)
    X[:, 2] += s
    Z = y if given == "y" else X[:, np.atleast_1d(given)]
    beyond, B = residual(s, Z)
    K = rbf(X, X)
    left = fair(given=given).fit_transform(X, y, sensitive_features=s)
    # Every function of the fair space is a combination of the columns of its kernel matrix.
    assert_allclose(covariances(left, beyond), 0, atol=1e-9)
    assert np.abs(covariances(K, beyond)).max() > 1e-4  # was there before
    assert np.abs(covariances(left, B)).max() > 1e-4  # what is legitimate stays
    nothing = fair().fit_transform(X, y, sensitive_features=s)
    assert_allclose(covariances(nothing, B), 0, atol=1e-9)


def test_a_path_takes_out_the_residual_too(rng):
    X, y, s = bent(rng)
    beyond, B = residual(s, y)
    # Under a heavy ridge the first round takes the covariances themselves.
    setting = {"iterations": 1, "ridge": 1e9, "given": "y"}
    K = fair(FairKernelDecomposition, **setting).fit_transform(X, y, sensitive_features=s)
    assert np.abs(covariances(K, beyond)).max() < 1e-6
    assert np.abs(covariances(rbf(X, X), beyond)).max() > 1e-4
    assert np.abs(covariances(K, B)).max() > 1e-4


def test_columns_are_known_by_name_or_position(rng):
    X, _, s = bent(rng)
    frame = pd.DataFrame(X, columns=NAMES)
    wanted = fair(given=[0, 2]).fit_transform(X, sensitive_features=s)
    for given in (
        ["income", "distance"],
        ("income", 2),
        np.array([0, 2]),
        pd.Index(["income", "distance"]),
    ):
        assert_array_equal(fair(given=given).fit_transform(frame, sensitive_features=s), wanted)
    one = fair(given=[1]).fit_transform(X, sensitive_features=s)
    for given in ("age", ["age"], 1, np.int64(1)):
        assert_array_equal(fair(given=given).fit_transform(frame, sensitive_features=s), one)
    assert np.abs(one - wanted).max() > 1e-4


def test_the_word_y_is_the_target_in_a_list_it_is_a_column(rng):
    X, y, s = bent(rng)
    frame = pd.DataFrame(X, columns=["x", "y", "z"])
    by_target = fair(given="y").fit_transform(frame, y, sensitive_features=s)
    by_column = fair(given=["y"]).fit_transform(frame, y, sensitive_features=s)
    assert_array_equal(by_column, fair(given=1).fit_transform(X, sensitive_features=s))
    assert np.abs(by_target - by_column).max() > 1e-4


def test_columns_are_splines_of_ranks_without_their_means(rng):
    X, y, s = bent(rng)
    s = unit(s)
    _, Z = Functions(BasisSettings(), (0, 1)).columns(s, y, X=X)(s, y, X)
    assert_allclose(Z, centred(SplineBasis.from_rows(X[:, :2]), X[:, :2])(X[:, :2]), atol=1e-15)
    assert_allclose(Z.mean(axis=0), 0, atol=1e-15)


@pytest.mark.parametrize("given", [["race"], "race", 3, [0, 3], ("race", 0)])
@pytest.mark.parametrize(
    "unit", [lambda s: s, lambda s: 5 - 1e4 * s, lambda s: np.exp(9 * s), lambda s: -np.sqrt(s)]
)
def test_the_sensitive_features_themselves_are_not_legitimate(rng, given, unit):
    X, y, s = bent(rng)
    frame = pd.DataFrame(np.column_stack([X, s]), columns=[*NAMES, "race"])
    secret = pd.DataFrame({"height": rng.normal(size=300), "share": unit(s)})
    message = "given must not name the sensitive features, got column 'race', which is .*share"
    for removal in ("path", "shrinkage"):
        with pytest.raises(ValueError, match=message):
            FairKernelRidge(removal=removal, given=given).fit(frame, y, sensitive_features=secret)


def test_a_column_that_merely_resembles_s_is_legitimate(rng):
    X, _, s = bent(rng)
    X[:, 0] = s
    X[[0, 1], 0] = X[[1, 0], 0]
    with pytest.warns(FairnessWarning, match="given explains all but"):
        fair(given=[0]).fit(X, sensitive_features=s)
    X[:, 0] = 1.0  # a constant tells nothing of anything
    fair(given=[0]).fit(X, sensitive_features=s)


def test_a_target_that_is_s_leaves_nothing_to_remove(rng):
    X, _, s = bent(rng)
    with pytest.raises(ValueError, match="given must leave something of the sensitive features"):
        fair(given="y").fit(X, 3 * s, sensitive_features=s)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("Age", r"given must be 'y' or name columns of X \(income, age, distance\), got 'Age'"),
        (["age", "Y"], r"given must be 'y' or name columns of X .*, got 'Y'"),
        (3, r"given must be in \[0, 2\], got 3"),
        (-1, r"given must be in \[0, 2\], got -1"),
        (1.5, "given must be a whole number, got 1.5"),
        (True, "given must be a whole number, got True"),
        ([None], "given must be a whole number, got None"),
        ([], "given must name at least one column, got none"),
    ],
)
@pytest.mark.parametrize("kind", [FairKernelRidge, FairKernelShrinkage, FairKernelDecomposition])
def test_wrong_columns_meet_a_sentence(rng, kind, given, message):
    X, y, s = bent(rng, 120)
    with pytest.raises(ValueError, match=message):
        kind(given=given).fit(pd.DataFrame(X, columns=NAMES), y, sensitive_features=s)


def test_rows_without_names_are_told_of_positions(rng):
    X, _, s = bent(rng, 60)
    with pytest.raises(ValueError, match="X has no column names, use positions"):
        fair(given="age").fit(X, sensitive_features=s)


@pytest.mark.parametrize("given", ["age", ["age"], 0, [0, 1]])
def test_a_kernel_matrix_has_no_columns(rng, given):
    X, y, s = bent(rng, 60)
    setting = {"kernel": "precomputed", "basis": "splines"}
    with pytest.raises(ValueError, match="given must be 'y' or None if kernel='precomputed'"):
        FairKernelShrinkage(given=given, **setting).fit(rbf(X, X), y, sensitive_features=s)
    fitted = FairKernelShrinkage(given="y", penalty=9.0, **setting).fit(
        rbf(X, X), y, sensitive_features=s
    )
    plain = fair(given="y", penalty=9.0).fit(X, y, sensitive_features=s)
    assert_allclose(fitted.transform(rbf(X, X)), plain.transform(X), atol=1e-9)


def test_given_y_needs_the_target(rng):
    X, _, s = bent(rng, 60)
    with pytest.raises(ValueError, match="requires y"):
        fair(given="y").fit(X, sensitive_features=s)


def test_splines_of_what_is_given_are_fewer_than_the_rows(rng):
    X, _, s = bent(rng, 30)
    message = "given must have fewer splines than the 30 training rows, got 30 of 3 columns"
    with pytest.raises(ValueError, match=message):
        fair(given=[0, 1, 2]).fit(X, sensitive_features=s)
    fair(given=[0, 1]).fit(X, sensitive_features=s)


@pytest.mark.parametrize("kind", MACHINES)
def test_what_is_meant_to_stay_is_no_reason_for_a_warning(rng, kind):
    """Of dependence by way of what is given no larger penalty would take anything."""
    X, y, s = bent(rng, 500)
    y = 3 * s + 0.3 * y
    X[:, 0] = y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = kind(removal="shrinkage", given="y", penalty=1.0, gamma=GAMMA)
        fitted.fit(X, target(kind, y), sensitive_features=s)
    assert fitted.held_out_.dependence_after > 0.5 * fitted.held_out_.dependence_before

"""Bases of functions of the sensitive columns, and one_hot."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from shrinkage_sample import rbf, unit

from fkd import FairKernelRidge, one_hot
from fkd.core.sensitive_basis import (
    BASES,
    RBF_SIZE,
    BasisSettings,
    SplineBasis,
    centred,
    distinct,
)


def fitted(kind, S, **setting):
    return BasisSettings(kind, **setting).fit(S)


def products(B):
    return B @ B.T


def test_columns_come_in_units_of_their_range(rng):
    S = rng.normal(size=(300, 2)) * [1.0, 1e4] + [5.0, -3e4]
    B = fitted("columns", S)(S)
    assert_allclose(B, unit(S), atol=1e-15)
    fixed = BasisSettings("columns").fit(S, [(0.0, 10.0), (0.0, 2.0)])
    assert_allclose(fixed(S), S / [10.0, 2.0])


@pytest.mark.parametrize("gamma_s", [0.05, 1.0, 10.0])
def test_landmarks_stand_for_the_kernel_of_s(rng, gamma_s):
    s = rng.uniform(2.0, 9.0, size=(300, 1))
    B = fitted("rbf", s, gamma_s=gamma_s)
    assert B(s).shape[1] < 60
    assert_allclose(products(B(s)), rbf(unit(s), unit(s), gamma_s), atol=1e-8)
    new = np.linspace(2.1, 8.9, 40)[:, None]  # rows that had no part in it
    scaled = (new - s.min(axis=0)) / np.ptp(s, axis=0)
    assert_allclose(products(B(new)), rbf(scaled, scaled, gamma_s), atol=1e-6)


def test_width_is_counted_in_the_limits_where_these_are_given(rng):
    s = rng.uniform(0.2, 0.6, size=(200, 1))
    B = BasisSettings("rbf", 4.0).fit(s, [(0.0, 1.0)])
    assert_allclose(products(B(s)), rbf(s, s, 4.0), atol=1e-8)
    assert np.abs(products(fitted("rbf", s, gamma_s=4.0)(s)) - rbf(s, s, 4.0)).max() > 0.1


def test_several_columns_have_one_kernel_together(rng):
    S = rng.uniform(size=(300, 2)) * [1.0, 50.0]
    B = fitted("rbf", S, gamma_s=0.5)(S)
    assert_allclose(products(B), rbf(unit(S), unit(S), 0.5), atol=1e-7)
    # A narrow kernel has more functions than are allowed; the most important are taken.
    narrow = fitted("rbf", S, gamma_s=100.0)(S)
    assert narrow.shape[1] == RBF_SIZE
    assert (np.einsum("ij,ij->i", narrow, narrow) < 1 + 1e-12).all()


@pytest.mark.parametrize(("n", "most"), [(2, 1), (40, 10), (300, 64)])
def test_few_rows_have_few_landmarks(rng, n, most):
    s = rng.uniform(size=(n, 1))
    assert fitted("rbf", s, gamma_s=1e5)(s).shape[1] <= most


def test_tied_values_are_one_landmark(rng):
    s = rng.integers(3, size=300).astype(float)[:, None]
    B = fitted("rbf", s)(s)
    assert B.shape[1] == 3
    assert_allclose(products(B), rbf(unit(s), unit(s), 10.0), atol=1e-12)


def test_distinct_rows_are_few_and_reach_from_end_to_end(rng):
    s = rng.uniform(size=(9000, 1))
    picked = distinct(s)
    assert len(picked) == 4000
    assert (picked[0], picked[-1]) == (s.min(), s.max())
    assert_array_equal(distinct(np.array([[2.0], [1.0], [2.0]])), [[1.0], [2.0]])


@pytest.mark.parametrize("kind", BASES)
def test_unit_and_offset_change_nothing(rng, kind):
    S = np.column_stack([rng.uniform(size=300), rng.integers(4, size=300)])
    S = np.round(S, 1) if kind == "levels" else S
    other = S * [1e5, 0.01] + [-7e5, 3.0]
    B, C = fitted(kind, S, gamma_s=0.5)(S), fitted(kind, other, gamma_s=0.5)(other)
    assert_allclose(products(B), products(C), atol=1e-8)


def test_splines_see_ranks_alone(rng):
    s = rng.uniform(size=(300, 1))
    B = fitted("splines", s)(s)
    assert_allclose(fitted("splines", np.exp(9 * s))(np.exp(9 * s)), B, atol=1e-12)
    assert_allclose(B.sum(axis=1), 1)
    # Each of them lives on its share of the rows, however these lie.
    assert ((B > 0.01).mean(axis=0) > 0.05).all()


def test_splines_of_several_columns_stand_side_by_side(rng):
    S = rng.uniform(size=(300, 2))
    both = fitted("splines", S)(S)
    assert_allclose(both[:, :10], fitted("splines", S[:, :1])(S[:, :1]))
    assert_allclose(both[:, 10:], fitted("splines", S[:, 1:])(S[:, 1:]))


def test_splines_of_heavy_ties_tell_every_value(rng):
    s = np.repeat([0.0, 1.0, 7.0], [200, 90, 10])[:, None]
    B = fitted("splines", s)(s)
    levels = np.unique(B, axis=0)
    assert len(levels) == 3 == np.linalg.matrix_rank(levels)
    # Tied rows have the middle of their ranks: 1/3, 49/60, 59/60.
    known = SplineBasis.from_rows(s)
    assert_allclose(known.ranks[0], [200 / 600, 245 / 300, 295 / 300])


def test_splines_beyond_the_rows_stay_at_their_ends(rng):
    s = rng.uniform(size=(300, 1))
    B = fitted("splines", s)
    ends = np.array([[s.min()], [s.max()]])
    assert_array_equal(B(np.array([[-9.0], [9.0]])), B(ends))


def test_ranks_of_many_rows_are_known_at_some(rng):
    s = rng.exponential(size=(9000, 1))
    known = SplineBasis.from_rows(s)
    assert len(known.values[0]) == 4000
    ranks = np.interp(s[:, 0], known.values[0], known.ranks[0])
    assert_allclose(ranks, (s[:, 0].argsort().argsort() + 0.5) / 9000, atol=1e-3)


def test_levels_are_indicators_and_an_unseen_one_has_none(rng):
    S = np.column_stack([rng.integers(3, size=60), rng.integers(2, size=60)]).astype(float)
    basis = fitted("levels", S)
    expected = np.hstack([S[:, :1] == [0, 1, 2], S[:, 1:] == [0, 1]])
    assert_array_equal(basis(S), expected)
    assert_array_equal(basis(np.array([[9.0, 1.0]])), [[0, 0, 0, 0, 1]])


@pytest.mark.parametrize("kind", BASES)
def test_functions_are_centred_by_the_rows_that_decided_them(rng, kind):
    S = rng.integers(6, size=(300, 2)) / 5.0
    raw = fitted(kind, S)
    basis = centred(raw, S)
    assert_allclose(basis(S).mean(axis=0), 0, atol=1e-14)
    assert np.abs(raw(S).mean(axis=0)).max() > 0.1
    new = S[S[:, 0] > 0.5]
    assert_allclose(basis(new), raw(new) - raw(S).mean(axis=0), atol=1e-15)
    assert np.abs(basis(new).mean(axis=0)).max() > 0.05


@pytest.mark.parametrize("kind", BASES)
def test_a_constant_column_has_functions_without_variance(kind):
    S = np.full((60, 1), 0.1)
    assert_allclose(centred(fitted(kind, S), S)(S), 0, atol=1e-15)
    beside = np.column_stack([S, np.arange(60) % 3])
    B = centred(fitted(kind, beside), beside)(beside)
    assert np.linalg.matrix_rank(B, tol=1e-10) >= 1


@pytest.mark.parametrize("kind", ["levels", "splines"])
def test_as_many_functions_as_rows_are_refused(kind):
    S = np.arange(10.0)[:, None]
    message = "basis must have fewer functions than the 10 training rows, got 10"
    with pytest.raises(ValueError, match=message):
        centred(fitted(kind, S), S)
    cure = fitted("rbf", S)
    assert centred(cure, S)(S).shape == (10, 2)
    more = np.append(S, 9.0)[:, None]
    assert centred(fitted(kind, more), more)(more).shape == (11, 10)  # one row more will do


def test_wrong_settings_meet_a_sentence(rng):
    S = rng.uniform(size=(30, 1))
    with pytest.raises(ValueError, match="basis must be one of columns, rbf, splines, levels, got"):
        fitted("fourier", S)
    for gamma_s in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match="gamma_s must be a finite number above 0, got"):
            fitted("rbf", S, gamma_s=gamma_s)


def test_each_level_has_its_column():
    assert_array_equal(one_hot(["b", "a", "c", "a"]), [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]])


def test_several_attributes_stand_side_by_side():
    frame = pd.DataFrame({"sex": ["f", "m", "f"], "group": [1, 2, 3]})
    assert_array_equal(one_hot(frame), np.hstack([one_hot(frame["sex"]), one_hot(frame["group"])]))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_missing_label_is_refused_by_name(missing):
    frame = pd.DataFrame({"sex": pd.Series(["f", missing, "m"], dtype=object)})
    with pytest.raises(ValueError, match="column 'sex' must not be missing"):
        one_hot(frame)


def test_a_single_level_is_refused():
    with pytest.raises(ValueError, match=r"two levels or more, got only \['f'\]"):
        one_hot(["f", "f"])


def spread_of_means(prediction, group):
    means = [prediction[group == level].mean() for level in np.unique(group)]
    return np.ptp(means)


def test_group_means_differ_before_but_not_after(rng):
    group = rng.integers(low=0, high=3, size=300)
    X = rng.normal(size=(300, 3))
    X[:, 0] += 2 * group
    y = X[:, 0] + X[:, 1]
    unfair, fair = (
        FairKernelRidge(gamma=0.1, alpha=0.1, ridge=1.0, iterations=m, fit_intercept=True)
        .fit(X, y, sensitive_features=one_hot(group))
        .predict(X)
        for m in (0, 6)
    )
    assert spread_of_means(unfair, group) > 1.5 * y.std()
    assert spread_of_means(fair, group) < 0.1 * y.std()
    assert np.corrcoef(fair, X[:, 1])[0, 1] > 0.8  # what is not group stays

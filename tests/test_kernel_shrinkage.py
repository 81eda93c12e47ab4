import pickle

import numpy as np
import pytest
from estimator_sample import MACHINES, people, target
from numpy.testing import assert_allclose, assert_array_equal
from shrinkage_sample import (
    GAMMA,
    bent,
    covariances,
    factor,
    rbf,
    shrunk,
    shrunk_gram,
    unit,
)
from sklearn.base import clone
from sklearn.svm import SVR

from fkd import (
    FairKernelDecomposition,
    FairKernelRidge,
    FairKernelShrinkage,
    FairnessWarning,
    FairSVC,
    FairSVR,
    one_hot,
)
from fkd.core.sensitive_basis import BASES, BasisSettings

APPROXIMATIONS = ["exact", "nystroem", "fourier", "identity"]


def fair(approximation="exact", **setting):
    default = {"gamma": GAMMA, "landmarks": 60, "random_state": 0, "held_out": 0}
    if approximation == "identity":
        default["kernel"] = "linear"
    return FairKernelShrinkage(approximation=approximation, **{**default, **setting})


def functions(kind, s):
    """The basis of a kind, by hand."""
    if kind == "rbf":
        return factor(rbf(unit(s), unit(s), 10.0))
    if kind == "columns":
        return unit(s)
    S = np.column_stack([s])
    return BasisSettings(kind).fit(S)(S)


@pytest.mark.parametrize("kind", BASES)
@pytest.mark.parametrize("mu", [0.5, 1e3, 1e6])
def test_the_kernel_is_that_of_the_dense_formula(rng, kind, mu):
    X, _, s = bent(rng)
    s = np.round(5 * s) if kind == "levels" else s
    K, B, new = rbf(X, X), functions(kind, s), rng.normal(size=(11, 3))
    fitted = fair(basis=kind, penalty=mu)
    gram = fitted.fit_transform(X, sensitive_features=s)
    assert_array_equal(gram, gram.T)
    assert_allclose(gram, shrunk_gram(K, B, mu), atol=1e-7)
    block = shrunk(rbf(new, X), K, (rbf(new, X), K), B, mu)
    assert_allclose(fitted.transform(new), block, atol=1e-7)
    own = shrunk(rbf(new, new), K, (rbf(new, X), rbf(X, new)), B, mu)
    assert_allclose(fitted.diag(new), own.diagonal(), atol=1e-7)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("mu", [0.0, 20.0, np.inf])
def test_blocks_are_products_of_features(rng, approximation, mu):
    X, _, s = bent(rng)
    new = rng.normal(size=(11, 3))
    fitted = fair(approximation, penalty=mu).fit(X, sensitive_features=s)
    F, N = fitted.features(X), fitted.features(new)
    top = np.abs(fitted.at(0).transform(X)).max()
    assert_allclose(fitted.transform(new), N @ F.T, atol=1e-7 * top)
    assert_allclose(fitted.transform(X), F @ F.T, atol=1e-7 * top)
    assert_allclose(fitted.diag(X), fitted.transform(X).diagonal(), atol=1e-7 * top)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("kind", ["rbf", "splines", "columns"])
def test_an_infinite_price_leaves_nothing_that_covaries(rng, approximation, kind):
    X, _, s = bent(rng)
    B = functions(kind, s)
    fitted = fair(approximation, penalty=np.inf, basis=kind).fit(X, sensitive_features=s)
    before = covariances(fitted.at(0).features(X), B)
    after = covariances(fitted.features(X), B)
    # What the landmarks of s leave of its kernel is not in the basis.
    assert np.abs(after).max() < 1e-5 * np.abs(before).max()
    assert np.abs(before).max() > 0.01
    left = [(covariances(fitted.at(mu).features(X), B) ** 2).sum(axis=None) for mu in (0, 1, 1e3)]
    assert left[0] > left[1] > left[2] > (after**2).sum(axis=None)


def test_bent_dependence_is_seen_by_a_basis_not_by_the_columns(rng):
    X, _, s = bent(rng)
    square = ((s - 0.5) ** 2)[:, None]
    by_columns = fair(penalty=np.inf, basis="columns").fit_transform(X, sensitive_features=s)
    by_basis = fair(penalty=np.inf).fit_transform(X, sensitive_features=s)
    assert np.abs(covariances(by_columns, square)).max() > 1e-3
    assert np.abs(covariances(by_basis, square)).max() < 1e-7


@pytest.mark.parametrize("kind", MACHINES)
def test_no_penalty_is_the_plain_machine_to_the_bit(rng, kind):
    X, y, s = bent(rng)
    y = target(kind, y)
    setting = {"gamma": GAMMA, "held_out": 0}
    shrunk_, plain = (
        kind(**setting, **own).fit(X, y, sensitive_features=s)
        for own in ({"removal": "shrinkage", "penalty": 0.0}, {"iterations": 0})
    )
    says = "decision_function" if kind is FairSVC else "predict"
    new = rng.normal(size=(11, 3))
    assert_array_equal(getattr(shrunk_, says)(new), getattr(plain, says)(new))
    priced = kind(**setting, removal="shrinkage", penalty=5.0).fit(X, y, sensitive_features=s)
    assert np.abs(getattr(priced, says)(new) - getattr(plain, says)(new)).max() > 0.01


@pytest.mark.parametrize("kind", MACHINES)
def test_covariance_of_the_prediction_falls_with_the_penalty(rng, kind):
    X, y, s = bent(rng)
    y, B = target(kind, y), functions("rbf", s)
    left = []
    for penalty in (0.0, 1.0, 100.0, 1e7):
        fitted = kind(gamma=GAMMA, held_out=0, removal="shrinkage", penalty=penalty)
        fitted.fit(X, y, sensitive_features=s)
        f = fitted.decision_function(X) if kind is FairSVC else fitted.predict(X)
        left.append(np.linalg.norm(covariances(f, B)))
    assert left[0] > left[1] > left[2] > left[3]
    assert left[3] < 1e-3 * left[0]
    assert left[0] > 0.1


def test_any_machine_takes_the_shrunk_kernel(rng):
    X, y, s = bent(rng)
    fitted = fair(penalty=2 * 1.0 * 300 * 4.0 / y.std(axis=0))
    machine = SVR(kernel="precomputed", C=1.0).fit(fitted.fit_transform(X, sensitive_features=s), y)
    ours = FairSVR(gamma=GAMMA, removal="shrinkage", penalty=4.0, held_out=0)
    ours.fit(X, y, sensitive_features=s)
    assert_allclose(machine.predict(fitted.transform(X)), ours.predict(X), atol=0.01 * np.ptp(y))


def test_repeated_rows_and_heavy_ties(rng):
    X, _, s = bent(rng, 100)
    rows = np.r_[np.arange(100), np.arange(100), np.arange(50)]
    X, s = X[rows], np.round(2 * s[rows])
    K = rbf(X, X)
    for mu in (5.0, np.inf):
        gram = fair(penalty=mu).fit_transform(X, sensitive_features=s)
        wanted = shrunk_gram(K, functions("rbf", s), min(mu, 1e12))
        assert_allclose(gram, wanted, atol=1e-6)
    assert fair().fit(X, sensitive_features=s).shrinkage_.V.shape[1] == 2  # three values


def test_features_without_s_stay_at_any_price(rng):
    """Directions that covary by chance only are taken out; rounding is none."""
    X = np.column_stack([np.tile([-1.0, 1.0], 150), np.repeat([-1.0, 1.0], 150)])
    s = X[:, 1]  # a balanced design: exactly uncorrelated
    fitted = fair("identity", penalty=np.inf, basis="levels").fit(X, sensitive_features=s)
    assert_allclose(fitted.transform(X), np.outer(X[:, 0], X[:, 0]), atol=1e-12)
    alone = fair("identity", penalty=np.inf).fit(X[:, :1], sensitive_features=s)
    assert alone.shrinkage_.V.shape[1] == 0
    assert_array_equal(alone.transform(X[:, :1]), np.outer(X[:, 0], X[:, 0]))


def test_more_functions_than_features(rng):
    X, _, s = bent(rng)
    fitted = fair("identity", penalty=np.inf).fit(X, sensitive_features=s)
    assert fitted.shrinkage_.V.shape == (3, 3)
    assert_allclose(fitted.transform(X), 0, atol=1e-12)


def test_another_mu_is_cut_from_the_same_fit(rng):
    X, _, s = bent(rng, 120)
    fitted = fair(penalty=1e5, held_out=0.2).fit(X, sensitive_features=s)
    for mu in (0.0, 3.0, np.inf):
        other, alone = fitted.at(mu), fair(penalty=mu).fit(X, sensitive_features=s)
        assert_array_equal(other.transform(X), alone.transform(X))
        assert other.get_params()["penalty"] == mu
        assert other.held_out_ is None
    assert fitted.penalty == 1e5
    assert fitted.held_out_ is not None
    with pytest.raises(ValueError, match="penalty must not be negative, got -1"):
        fitted.at(-1)


def test_it_is_a_scikit_learn_transformer(rng):
    X, _, s = bent(rng, 60)
    fitted = fair(penalty=3.0, basis="splines", gamma_s=2.0, given=[1]).fit(X, sensitive_features=s)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "fair_")
    assert {"removal", "iterations", "ridge"}.isdisjoint(fitted.get_params())
    assert_array_equal(copy.fit(X, sensitive_features=s).transform(X), fitted.transform(X))
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))
    assert len(fitted.get_feature_names_out()) == 60


@pytest.mark.parametrize("kind", MACHINES)
def test_machines_are_cloned_with_their_shrinkage(rng, kind):
    X, y, s = bent(rng, 60)
    setting = {"removal": "shrinkage", "penalty": 2.0, "basis": "splines", "gamma_s": 3.0}
    fitted = kind(**setting, given="y").fit(X, target(kind, y), sensitive_features=s)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert copy.get_params().items() >= {**setting, "given": "y"}.items()
    copy.fit(X, target(kind, y), sensitive_features=s)
    assert_array_equal(copy.predict(X), fitted.predict(X))
    assert fitted.effective_iterations_ is None


@pytest.mark.parametrize("mu", [-1, np.nan, -np.inf, "1", None, True])
def test_mu_is_a_number_or_infinite(rng, mu):
    X, _, s = bent(rng, 30)
    with pytest.raises(ValueError, match="penalty must"):
        fair(penalty=mu).fit(X, sensitive_features=s)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"removal": "cut"}, "removal must be one of path, shrinkage, got 'cut'"),
        ({"penalty": -1.0}, "penalty must not be negative, got -1"),
        ({"penalty": np.inf}, "penalty must be a finite number, got inf"),
        ({"basis": "fourier"}, "basis must be one of columns, rbf, splines, levels, got 'four"),
        ({"gamma_s": 0}, "gamma_s must be a finite number above 0, got 0"),
        ({"basis": "levels"}, "basis must have fewer functions than the 120 .*got 120"),
    ],
)
@pytest.mark.parametrize("kind", MACHINES)
def test_wrong_settings_meet_a_sentence(rng, kind, setting, message):
    X, y, s = bent(rng, 120)
    with pytest.raises(ValueError, match=message):
        kind(**{"removal": "shrinkage", **setting}).fit(X, target(kind, y), sensitive_features=s)


@pytest.mark.parametrize("iterations", ["ten", 2.5, np.nan, True, [3]])
def test_iterations_are_named_where_they_are_wrong(rng, iterations):
    X, y, s = bent(rng, 30)
    for kind in (FairKernelRidge, FairKernelDecomposition):
        with pytest.raises(ValueError, match="iterations must be a whole number, got"):
            kind(iterations=iterations).fit(X, y, sensitive_features=s)


def test_a_path_of_prices_equals_single_fits_to_the_bit(rng):
    X, y, s = bent(rng)
    alphas, penalties = [0.3, 2.0], [7.0, 0.0, 1.0]
    ridge = FairKernelRidge(gamma=GAMMA, removal="shrinkage", held_out=0)
    found = ridge.fit_path(X, y, sensitive_features=s, alphas=alphas, penalties=penalties)
    assert list(found) == [(penalty, alpha) for penalty in penalties for alpha in alphas]
    for (penalty, alpha), f in found.items():
        alone = clone(ridge).set_params(alpha=alpha, penalty=penalty)
        assert_array_equal(f.predict(X), alone.fit(X, y, sensitive_features=s).predict(X))
    with pytest.raises(ValueError, match="penalties and alphas must have at least one value"):
        ridge.fit_path(X, y, sensitive_features=s, alphas=alphas, iterations=[3])
    for wrong in (-1, np.nan, "much", None):
        with pytest.raises(ValueError, match="penalty must"):
            ridge.fit_path(X, y, sensitive_features=s, alphas=alphas, penalties=[1.0, wrong])


@pytest.mark.parametrize("basis", ["rbf", "splines", "levels"])
def test_paths_of_a_basis_are_nested_to_the_bit(rng, basis):
    X, y, s = bent(rng)
    s = np.round(4 * s) if basis == "levels" else s
    ridge = FairKernelRidge(gamma=GAMMA, ridge=1e6, basis=basis, held_out=0)
    found = ridge.fit_path(X, y, sensitive_features=s, alphas=[0.5], iterations=[0, 1, 3])
    for (m, alpha), f in found.items():
        alone = clone(ridge).set_params(iterations=m, alpha=alpha)
        assert_array_equal(f.predict(X), alone.fit(X, y, sensitive_features=s).predict(X))
    B = functions(basis, s)
    left = [np.linalg.norm(covariances(f.predict(X), B)) for f in found.values()]
    assert max(left[1:]) < 0.05 * left[0]
    assert left[0] > 0.01


def test_levels_are_removed_as_the_one_hot_columns_are(rng):
    X, _, s = bent(rng)
    s = np.round(3 * s)
    setting = {"gamma": GAMMA, "iterations": 3, "held_out": 0}
    by_levels = FairKernelDecomposition(basis="levels", **setting)
    by_hand = FairKernelDecomposition(**setting)
    K = by_levels.fit_transform(X, sensitive_features=s)
    assert_allclose(K, by_hand.fit_transform(X, sensitive_features=one_hot(s)), atol=1e-9)
    column = by_hand.fit_transform(X, sensitive_features=s)
    assert np.abs(K - column).max() > 1e-3  # the codes alone are something else
    assert by_levels.path_.U.shape == (300, 9)  # of four levels three are free


def test_the_columns_basis_of_a_path_is_the_default(rng):
    X, _, s = bent(rng)
    S = np.column_stack([s, X[:, 1] ** 2])
    setting = {"gamma": GAMMA, "iterations": 3, "held_out": 0}
    first, second = (
        FairKernelDecomposition(basis=basis, **setting).fit_transform(X, sensitive_features=S)
        for basis in (None, "columns")
    )
    assert_array_equal(first, second)


@pytest.mark.parametrize("kind", [FairKernelRidge, FairSVR, FairSVC])
def test_a_price_that_is_too_low_is_told_by_its_name(rng, kind):
    X, y, s = people(rng)
    with pytest.warns(FairnessWarning, match=r"did not fall .* at a penalty of 0\.001"):
        kind(removal="shrinkage", penalty=0.001).fit(X, target(kind, y), sensitive_features=s)


def test_a_mu_that_is_too_low_is_told_by_its_name(rng):
    X, _, s = people(rng)
    with pytest.warns(FairnessWarning, match=r"did not fall .* at a penalty of 0\.001"):
        FairKernelShrinkage(penalty=0.001).fit(X, sensitive_features=s)


def test_a_trial_is_priced_as_the_fit_is(rng):
    """The share of rows that a trial leaves out changes what counts per row, not the price."""
    X, y, s = people(rng)
    ends = []
    for share in (0.2, 0.6):
        fitted = FairKernelRidge(removal="shrinkage", penalty=30.0, held_out=share)
        ends.append(fitted.fit(X, y, sensitive_features=s).held_out_)
    assert ends[0].dependence_before > 0.7
    assert ends[0].dependence_after < 0.5 * ends[0].dependence_before
    assert ends[0].dependence_after == pytest.approx(ends[1].dependence_after, abs=0.1)

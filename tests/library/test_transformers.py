"""The fair kernel and fair features as transformers."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from estimator_sample import MACHINES, longest_side, people, target
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
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
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
from fkd.core.arrays import BLOCK_ROWS
from fkd.core.sensitive_basis import BASES, BasisSettings
from fkd.paper.algorithm1 import algorithm_1

ENDS_EARLY = pytest.mark.filterwarnings("ignore:the removal ended after:fkd.FairnessWarning")
APPROXIMATIONS = ["exact", "nystroem", "fourier", "identity"]


def sample(rng, n=80):
    X = rng.normal(size=(n, 4))
    S = X[:, :2] * [1.0, 5.0] + [3.0, -2.0] + 0.3 * rng.normal(size=(n, 2))
    return X, S


def fair(approximation="exact", **setting):
    default = {"gamma": 0.2, "ridge": 0.1, "iterations": 6, "landmarks": 40, "random_state": 0}
    if approximation == "identity":
        default["kernel"] = "linear"
    return FairKernelDecomposition(approximation=approximation, **{**default, **setting})


def explained(K, S, ridge=0.1):
    """Return R² of the in-sample ridge fit of the centred sensitive columns."""
    S = S - S.mean(axis=0)
    fit = K @ np.linalg.solve(K + ridge * np.eye(len(K)), S)
    return 1 - ((S - fit) ** 2).sum(axis=0) / (S**2).sum(axis=0)


@ENDS_EARLY
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_training_rows_fed_again_reproduce_the_fair_matrix(rng, approximation):
    X, S = sample(rng)
    estimator = fair(approximation)
    K = estimator.fit_transform(X, sensitive_features=S)
    assert_array_equal(K, K.T)
    assert_allclose(estimator.transform(X), K, atol=1e-9)
    assert_allclose(estimator.diag(X), K.diagonal(), atol=1e-9)
    features = estimator.features(X)
    assert_allclose(features @ features.T, K, atol=1e-7)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_what_was_there_before_is_removed(rng, approximation):
    X, S = sample(rng)
    longest = 1 if approximation == "identity" else 4  # two of four directions
    estimator = fair(approximation, iterations=longest).fit(X, sensitive_features=S)
    before = explained(estimator.at(0).transform(X), S)
    after = explained(estimator.transform(X), S)
    assert (before > 0.8).all()
    assert (after < 0.35).all()


def test_new_rows_are_transformed_as_the_paper_does(rng):
    X, S = sample(rng)
    new = rng.normal(size=(7, 4))
    estimator = fair(iterations=4, center_sensitive=False).fit(X, sensitive_features=S)
    _, T = algorithm_1(rbf_kernel(X, gamma=0.2), S, ridge=0.1, iterations=4)
    assert_allclose(estimator.transform(new), rbf_kernel(new, X, gamma=0.2) @ T, atol=1e-9)
    assert estimator.diag(new).shape == (7,)


def test_rows_depend_on_training_rows_only(rng):
    X, S = sample(rng)
    new = rng.normal(size=(7, 4))
    estimator = fair().fit(X, sensitive_features=S)
    assert_allclose(estimator.transform(new[:3]), estimator.transform(new)[:3], atol=1e-13)


@ENDS_EARLY
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("m", [0, 1, 4, 6])
def test_a_shorter_path_is_cut_from_a_longer_one(rng, approximation, m):
    X, S = sample(rng)
    long = fair(approximation).fit(X, sensitive_features=S)
    short = fair(approximation, iterations=m).fit(X, sensitive_features=S)
    cut = long.at(m)
    assert cut.get_params() == short.get_params()
    assert cut.effective_iterations_ == short.effective_iterations_
    assert_array_equal(cut.transform(X), short.transform(X))
    assert cut.map_ is long.map_
    assert long.iterations == 6


def test_a_path_cannot_be_cut_longer_than_it_is(rng):
    X, S = sample(rng)
    estimator = fair().fit(X, sensitive_features=S)
    with pytest.raises(ValueError, match=r"iterations must be at most 6.*got 7"):
        estimator.at(7)
    with pytest.raises(ValueError, match=r"iterations must be at most 6.*got 40"):
        estimator.set_params(iterations=50).at(40)


def test_the_effective_length_is_reported(rng):
    X, S = sample(rng)
    estimator = fair(kernel="linear", iterations=9)
    with pytest.warns(FairnessWarning, match="ended after 2 of 9 iterations"):
        estimator.fit(X, sensitive_features=S)
    assert estimator.effective_iterations_ == 2
    assert estimator.at(1).effective_iterations_ == 1
    assert_allclose(estimator.transform(X), 0, atol=1e-10)


def test_the_fair_kernel_serves_any_kernel_machine(rng):
    X, S = sample(rng)
    estimator = fair()
    K = estimator.fit_transform(X, sensitive_features=S)
    model = KernelRidge(kernel="precomputed").fit(K, X[:, 2])
    assert np.corrcoef(model.predict(estimator.transform(X)), X[:, 2])[0, 1] > 0.8


@pytest.mark.parametrize("approximation", ["exact", "nystroem"])
def test_a_precomputed_kernel_gives_the_same(rng, approximation):
    X, S = sample(rng)
    new = rng.normal(size=(7, 4))
    by_rows = fair(approximation).fit(X, sensitive_features=S)
    by_matrix = fair(approximation, kernel="precomputed")
    by_matrix.fit(rbf_kernel(X, gamma=0.2), sensitive_features=S)
    block = rbf_kernel(new, X, gamma=0.2)
    assert_allclose(by_matrix.transform(block), by_rows.transform(new), atol=1e-8)


def test_a_kernel_function_gives_the_same(rng):
    X, S = sample(rng)
    by_name = fair().fit_transform(X, sensitive_features=S)
    by_function = fair(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.2))
    assert_allclose(by_function.fit_transform(X, sensitive_features=S), by_name, atol=1e-10)


@ENDS_EARLY
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_data_frames_and_read_only_arrays_come_in(rng, approximation):
    X, S = sample(rng)
    plain = fair(approximation).fit_transform(X, sensitive_features=S)
    X.flags.writeable = S.flags.writeable = False
    locked = fair(approximation).fit_transform(X, sensitive_features=S)
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names)
    estimator = fair(approximation)
    framed = estimator.fit_transform(frame, sensitive_features=pd.DataFrame(S))
    assert_array_equal(locked, plain)
    assert_array_equal(framed, plain)
    assert estimator.feature_names_in_.tolist() == names
    assert len(estimator.get_feature_names_out()) == 80


def test_one_column_may_be_a_vector(rng):
    X, S = sample(rng)
    vector = fair().fit_transform(X, sensitive_features=S[:, 0])
    assert_array_equal(vector, fair().fit_transform(X, sensitive_features=S[:, :1]))


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_sensitive_features_are_required(rng, method):
    X, _ = sample(rng)
    with pytest.raises(TypeError, match="fit needs sensitive_features"):
        getattr(fair(), method)(X)


def test_a_clone_is_unfitted_with_the_same_parameters(rng):
    X, S = sample(rng)
    estimator = fair("nystroem").fit(X, sensitive_features=S)
    twin = clone(estimator)
    assert twin.get_params() == estimator.get_params()
    assert not hasattr(twin, "map_")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("b", np.nan, "X must be finite, got NaN in column 'b'"),
        ("c", np.inf, "X must be finite, got inf in column 'c'"),
        ("d", 1e300, r"X must not exceed 1e\+150 .* column 'd'"),
        ("a", "high", "X column 'a' must hold numbers"),
    ],
)
def test_bad_input_is_refused_with_its_column(rng, column, value, message):
    X, S = sample(rng)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).astype(object)
    frame.loc[3, column] = value
    with pytest.raises(ValueError, match=message):
        fair().fit(frame, sensitive_features=S)
    fitted = fair().fit(X, sensitive_features=S)
    bad = frame.to_numpy()
    with pytest.raises(ValueError, match="X "):
        fitted.transform(bad)


def test_a_constant_input_column_is_harmless(rng):
    X, S = sample(rng)
    padded = np.column_stack([X, np.full(80, 7.0)])
    plain = fair().fit_transform(X, sensitive_features=S)
    assert_allclose(fair().fit_transform(padded, sensitive_features=S), plain, atol=1e-10)


@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier"])
def test_duplicate_rows_give_finite_kernels(rng, approximation):
    X, S = sample(rng, n=30)
    K = fair(approximation).fit_transform(
        np.vstack([X, X, X]), sensitive_features=np.tile(S, (3, 1))
    )
    assert np.isfinite(K).all()
    assert_allclose(K[:30], K[30:60], atol=1e-8)


@ENDS_EARLY
@pytest.mark.parametrize("gamma", [1e-12, 1e12])
def test_extreme_widths_give_finite_kernels(rng, gamma):
    X, S = sample(rng)
    assert np.isfinite(fair(gamma=gamma).fit_transform(X, sensitive_features=S)).all()


def test_a_single_row_cannot_vary(rng):
    X, S = sample(rng, n=1)
    with pytest.raises(ValueError, match="must vary, got a constant over the 1 sample"):
        fair().fit(X, sensitive_features=S)


MAPS = ["exact", "nystroem", "fourier", "identity"]


def shrunk_kernel(approximation="exact", **setting):
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
    fitted = shrunk_kernel(basis=kind, penalty=mu)
    gram = fitted.fit_transform(X, sensitive_features=s)
    assert_array_equal(gram, gram.T)
    assert_allclose(gram, shrunk_gram(K, B, mu), atol=1e-7)
    block = shrunk(rbf(new, X), K, (rbf(new, X), K), B, mu)
    assert_allclose(fitted.transform(new), block, atol=1e-7)
    own = shrunk(rbf(new, new), K, (rbf(new, X), rbf(X, new)), B, mu)
    assert_allclose(fitted.diag(new), own.diagonal(), atol=1e-7)


@pytest.mark.parametrize("approximation", MAPS)
@pytest.mark.parametrize("mu", [0.0, 20.0, np.inf])
def test_blocks_are_products_of_features(rng, approximation, mu):
    X, _, s = bent(rng)
    new = rng.normal(size=(11, 3))
    fitted = shrunk_kernel(approximation, penalty=mu).fit(X, sensitive_features=s)
    F, N = fitted.features(X), fitted.features(new)
    top = np.abs(fitted.at(0).transform(X)).max()
    assert_allclose(fitted.transform(new), N @ F.T, atol=1e-7 * top)
    assert_allclose(fitted.transform(X), F @ F.T, atol=1e-7 * top)
    assert_allclose(fitted.diag(X), fitted.transform(X).diagonal(), atol=1e-7 * top)


@pytest.mark.parametrize("approximation", MAPS)
@pytest.mark.parametrize("kind", ["rbf", "splines", "columns"])
def test_an_infinite_price_leaves_nothing_that_covaries(rng, approximation, kind):
    X, _, s = bent(rng)
    B = functions(kind, s)
    fitted = shrunk_kernel(approximation, penalty=np.inf, basis=kind).fit(X, sensitive_features=s)
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
    by_columns = shrunk_kernel(penalty=np.inf, basis="columns").fit_transform(
        X, sensitive_features=s
    )
    by_basis = shrunk_kernel(penalty=np.inf).fit_transform(X, sensitive_features=s)
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
    fitted = shrunk_kernel(penalty=2 * 1.0 * 300 * 4.0 / y.std(axis=0))
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
        gram = shrunk_kernel(penalty=mu).fit_transform(X, sensitive_features=s)
        wanted = shrunk_gram(K, functions("rbf", s), min(mu, 1e12))
        assert_allclose(gram, wanted, atol=1e-6)
    assert shrunk_kernel().fit(X, sensitive_features=s).shrinkage_.V.shape[1] == 2  # three values


def test_features_without_s_stay_at_any_price(rng):
    """Directions that covary by chance only are taken out; rounding is none."""
    X = np.column_stack([np.tile([-1.0, 1.0], 150), np.repeat([-1.0, 1.0], 150)])
    s = X[:, 1]  # a balanced design: exactly uncorrelated
    fitted = shrunk_kernel("identity", penalty=np.inf, basis="levels").fit(X, sensitive_features=s)
    assert_allclose(fitted.transform(X), np.outer(X[:, 0], X[:, 0]), atol=1e-12)
    alone = shrunk_kernel("identity", penalty=np.inf).fit(X[:, :1], sensitive_features=s)
    assert alone.shrinkage_.V.shape[1] == 0
    assert_array_equal(alone.transform(X[:, :1]), np.outer(X[:, 0], X[:, 0]))


def test_more_functions_than_features(rng):
    X, _, s = bent(rng)
    fitted = shrunk_kernel("identity", penalty=np.inf).fit(X, sensitive_features=s)
    assert fitted.shrinkage_.V.shape == (3, 3)
    assert_allclose(fitted.transform(X), 0, atol=1e-12)


def test_another_mu_is_cut_from_the_same_fit(rng):
    X, _, s = bent(rng, 120)
    fitted = shrunk_kernel(penalty=1e5, held_out=0.2).fit(X, sensitive_features=s)
    for mu in (0.0, 3.0, np.inf):
        other, alone = fitted.at(mu), shrunk_kernel(penalty=mu).fit(X, sensitive_features=s)
        assert_array_equal(other.transform(X), alone.transform(X))
        assert other.get_params()["penalty"] == mu
        assert other.held_out_ is None
    assert fitted.penalty == 1e5
    assert fitted.held_out_ is not None
    with pytest.raises(ValueError, match="penalty must not be negative, got -1"):
        fitted.at(-1)


def test_it_is_a_scikit_learn_transformer(rng):
    X, _, s = bent(rng, 60)
    fitted = shrunk_kernel(penalty=3.0, basis="splines", gamma_s=2.0, given=[1]).fit(
        X, sensitive_features=s
    )
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
        shrunk_kernel(penalty=mu).fit(X, sensitive_features=s)


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
    with pytest.raises(ValueError, match="iterations must be None in fit_path"):
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
    with pytest.warns(FairnessWarning, match=r"hardly fell .* at a penalty of 0\.001"):
        kind(removal="shrinkage", penalty=0.001).fit(X, target(kind, y), sensitive_features=s)


def test_a_mu_that_is_too_low_is_told_by_its_name(rng):
    X, _, s = people(rng)
    with pytest.warns(FairnessWarning, match=r"hardly fell .* at a penalty of 0\.001"):
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


KINDS = [FairKernelDecomposition, FairKernelShrinkage]
QUIET = pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")


def build(kind, **setting):
    default = {"gamma": 0.3, "landmarks": 40, "random_state": 0}
    return kind(**{**default, **setting})


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@QUIET
@pytest.mark.parametrize("approximation", ["exact", "nystroem", "fourier"])
@pytest.mark.parametrize("kind", KINDS)
def test_inner_products_of_features_are_the_fair_kernel(rng, kind, approximation):
    X, _, s = people(rng, n=90)
    kernel = build(kind, approximation=approximation).fit(X, sensitive_features=s)
    features = build(kind, approximation=approximation, output="features")
    F = features.fit_transform(X, sensitive_features=s)
    assert F.shape == (90, features.map_.rank)
    assert_allclose(F @ F.T, kernel.transform(X), atol=1e-8)
    assert_allclose(features.transform(X), F, atol=1e-6)
    assert_array_equal(features.features(X), features.transform(X))
    assert_allclose(features.diag(X), kernel.diag(X), atol=1e-12)
    assert len(features.get_feature_names_out()) == F.shape[1]


def test_nothing_of_the_sensitive_column_is_left_in_cut_features(rng):
    X, _, s = people(rng, n=200)
    F = build(FairKernelDecomposition, output="features", iterations=6).fit_transform(
        X, sensitive_features=s
    )
    plain = build(FairKernelDecomposition, output="features", iterations=0).fit_transform(
        X, sensitive_features=s
    )
    before, after = (Ridge(alpha=1.0).fit(G, s).score(G, s) for G in (plain, F))
    assert before > 0.7
    assert after < 0.2


@QUIET
@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("kind", KINDS)
def test_any_estimator_follows_in_a_pipeline(rng, kind):
    X, y, s = people(rng, n=200)
    steps = StandardScaler(), build(kind, output="features"), Ridge()
    scores = []
    for strength in (0, 8):
        name = "iterations" if kind is FairKernelDecomposition else "penalty"
        steps[1].set_params(**{name: strength if name == "iterations" else 1e3 * strength})
        model = make_pipeline(*steps).fit(X, y, sensitive_features=s)
        scores.append(abs(np.corrcoef(model.predict(X), s)[0, 1]))
    assert scores[0] > 0.7
    assert scores[1] < 0.5 * scores[0]


@pytest.mark.usefixtures("routing")
def test_ridge_on_features_is_the_fair_ridge(rng):
    X, y, s = people(rng, n=150)
    setting = {"gamma": 0.3, "iterations": 4, "ridge": 0.1}
    chained = make_pipeline(FairKernelDecomposition(output="features", **setting), Ridge(alpha=0.5))
    chained.fit(X, y, sensitive_features=s)
    whole = FairKernelRidge(alpha=0.5, **setting).fit(X, y, sensitive_features=s)
    assert_allclose(chained.predict(X), whole.predict(X), atol=1e-6)


@pytest.mark.usefixtures("routing")
def test_a_search_chooses_how_much_to_remove(rng):
    X, y, s = people(rng, n=150)
    model = make_pipeline(build(FairKernelDecomposition, output="features"), Ridge())
    search = GridSearchCV(model, {"fairkerneldecomposition__iterations": [0, 5]}, cv=3)
    search.fit(X, y, sensitive_features=s)
    assert search.best_params_ == {"fairkerneldecomposition__iterations": 0}


@pytest.mark.parametrize("output", ["kernel", "features"])
@pytest.mark.parametrize("kind", KINDS)
def test_data_frames_come_out_where_they_are_asked_for(rng, kind, output):
    X, _, s = people(rng, n=60)
    model = build(kind, output=output, approximation="nystroem").set_output(transform="pandas")
    frame = model.fit_transform(pd.DataFrame(X, columns=list("abcde")), sensitive_features=s)
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == model.get_feature_names_out().tolist()
    assert frame.shape == (60, 60 if output == "kernel" else model.map_.rank)


@QUIET
@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
@pytest.mark.parametrize("kind", KINDS)
def test_features_of_many_rows_keep_none_of_them(rng, kind, approximation):
    n = BLOCK_ROWS + 700
    X, _, s = people(rng, n=n, d=3)
    model = build(kind, output="features", approximation=approximation)
    F = model.fit_transform(X, sensitive_features=s)
    assert F.shape == (n, model.map_.rank)
    assert_allclose(model.transform(X), F, atol=1e-9)
    assert longest_side(pickle.loads(pickle.dumps(model))) < 100
    assert longest_side(model) < 100
    with pytest.raises(ValueError, match="T_ needs the training rows"):
        _ = model.T_
    kept = build(kind, approximation=approximation).fit(X[:200], sensitive_features=s[:200])
    with pytest.raises(ValueError, match="T_ needs the kernel of all training rows"):
        _ = kept.T_


@pytest.mark.parametrize("copies", [0, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_the_map_of_the_paper_turns_the_kernel_into_the_fair_one(rng, kind, copies):
    X, _, s = people(rng, n=70)
    X[:copies] = X[70 - copies :]  # duplicate rows take the pivoted factor
    new = people(rng, n=9)[0]
    model = build(kind).fit(X, sensitive_features=s)
    block = rbf_kernel(new, X, gamma=0.3) @ model.T_
    assert_allclose(block, model.transform(new), atol=1e-7)


def test_it_is_the_map_that_the_paper_prints(rng):
    X, _, s = people(rng, n=60)
    K = rbf_kernel(X, gamma=0.3)
    _, T = algorithm_1(K, s[:, None], ridge=0.1, iterations=3)
    model = FairKernelDecomposition(gamma=0.3, ridge=0.1, iterations=3, center_sensitive=False)
    found = model.fit(X, sensitive_features=s).T_
    assert_allclose(K @ found, K @ T, atol=1e-8)
    assert_allclose(found @ found, found, atol=1e-6)  # an oblique projection


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_output_is_refused(rng, kind):
    X, _, s = people(rng, n=60)
    with pytest.raises(ValueError, match="output must be one of kernel, features, got 'rows'"):
        build(kind, output="rows").fit(X, sensitive_features=s)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_at_another_strength_gives_features_too(rng, kind):
    X, _, s = people(rng, n=80)
    model = build(kind, output="features").fit(X, sensitive_features=s)
    plain = model.at(0)
    assert_allclose(plain.transform(X), model.map_.transform(X), atol=1e-12)
    assert np.abs(plain.transform(X) - model.transform(X)).max() > 1e-3

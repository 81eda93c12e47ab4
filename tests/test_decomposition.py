import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from fkd import FairKernelDecomposition, FairnessWarning
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

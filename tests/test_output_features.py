"""Fair features out of a transformer, for any estimator of a pipeline."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from estimator_sample import longest_side, people
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fkd import FairKernelDecomposition, FairKernelRidge, FairKernelShrinkage
from fkd.core.arrays import BLOCK_ROWS
from fkd.paper.algorithm1 import algorithm_1

KINDS = [FairKernelDecomposition, FairKernelShrinkage]
QUIET = pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")


def fair(kind, **setting):
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
    kernel = fair(kind, approximation=approximation).fit(X, sensitive_features=s)
    features = fair(kind, approximation=approximation, output="features")
    F = features.fit_transform(X, sensitive_features=s)
    assert F.shape == (90, features.map_.rank)
    assert_allclose(F @ F.T, kernel.transform(X), atol=1e-8)
    assert_allclose(features.transform(X), F, atol=1e-6)
    assert_array_equal(features.features(X), features.transform(X))
    assert_allclose(features.diag(X), kernel.diag(X), atol=1e-12)
    assert len(features.get_feature_names_out()) == F.shape[1]


def test_nothing_of_the_sensitive_column_is_left_in_cut_features(rng):
    X, _, s = people(rng, n=200)
    F = fair(FairKernelDecomposition, output="features", iterations=6).fit_transform(
        X, sensitive_features=s
    )
    plain = fair(FairKernelDecomposition, output="features", iterations=0).fit_transform(
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
    steps = StandardScaler(), fair(kind, output="features"), Ridge()
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
    model = make_pipeline(fair(FairKernelDecomposition, output="features"), Ridge())
    search = GridSearchCV(model, {"fairkerneldecomposition__iterations": [0, 5]}, cv=3)
    search.fit(X, y, sensitive_features=s)
    assert search.best_params_ == {"fairkerneldecomposition__iterations": 0}


@pytest.mark.parametrize("output", ["kernel", "features"])
@pytest.mark.parametrize("kind", KINDS)
def test_data_frames_come_out_where_they_are_asked_for(rng, kind, output):
    X, _, s = people(rng, n=60)
    model = fair(kind, output=output, approximation="nystroem").set_output(transform="pandas")
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
    model = fair(kind, output="features", approximation=approximation)
    F = model.fit_transform(X, sensitive_features=s)
    assert F.shape == (n, model.map_.rank)
    assert_allclose(model.transform(X), F, atol=1e-9)
    assert longest_side(pickle.loads(pickle.dumps(model))) < 100
    assert longest_side(model) < 100
    with pytest.raises(ValueError, match="T_ needs the training rows"):
        _ = model.T_
    kept = fair(kind, approximation=approximation).fit(X[:200], sensitive_features=s[:200])
    with pytest.raises(ValueError, match="T_ needs the kernel of all training rows"):
        _ = kept.T_


@pytest.mark.parametrize("copies", [0, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_the_map_of_the_paper_turns_the_kernel_into_the_fair_one(rng, kind, copies):
    X, _, s = people(rng, n=70)
    X[:copies] = X[70 - copies :]  # duplicate rows take the pivoted factor
    new = people(rng, n=9)[0]
    model = fair(kind).fit(X, sensitive_features=s)
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
        fair(kind, output="rows").fit(X, sensitive_features=s)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_at_another_strength_gives_features_too(rng, kind):
    X, _, s = people(rng, n=80)
    model = fair(kind, output="features").fit(X, sensitive_features=s)
    plain = model.at(0)
    assert_allclose(plain.transform(X), model.map_.transform(X), atol=1e-12)
    assert np.abs(plain.transform(X) - model.transform(X)).max() > 1e-3

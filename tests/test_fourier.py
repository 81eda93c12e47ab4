import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.feature_maps import FourierMap
from fkd.core.kernels import Kernel


def worst_error(kernel, X, q, seed):
    G = FourierMap.from_kernel(kernel, X.shape[1], q, rng=np.random.default_rng(seed)).transform(X)
    return np.abs(G @ G.T - kernel.gram(X)).max(axis=None)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_inner_products_approach_the_kernel_as_features_are_added(rng, name):
    X, kernel = rng.normal(size=(20, 3)), Kernel(name, 0.4)
    # The error is about 1/sqrt(q) per entry; 190 entries make the worst some four times that.
    assert worst_error(kernel, X, 40_000, seed=0) < 6 / np.sqrt(40_000)
    assert worst_error(kernel, X, 40, seed=0) > 0.1


def test_the_expansion_predicts_what_features_times_weights_do(rng):
    X, beta = rng.normal(size=(20, 3)), rng.normal(size=50)
    fmap = FourierMap.from_kernel(Kernel("rbf", 0.4), 3, 50, rng=rng)
    assert fmap.rank == 50
    assert_allclose(fmap.expansion(beta, 2.0).predict(X), fmap.transform(X) @ beta + 2.0)


def test_float32_rows_give_float64_features(rng):
    X = rng.normal(size=(20, 3))
    fmap = FourierMap.from_kernel(Kernel("rbf", 0.4), 3, 50, rng=rng)
    G = fmap.transform(X.astype(np.float32))
    assert G.dtype == np.float64
    assert_allclose(G, fmap.transform(X), atol=1e-5)


@pytest.mark.parametrize("name", ["linear", "polynomial", "precomputed"])
def test_kernels_without_a_spectrum_are_refused(rng, name):
    with pytest.raises(ValueError, match=f"shift-invariant.*{name}.*nystroem"):
        FourierMap.from_kernel(Kernel(name), 3, 5, rng=rng)

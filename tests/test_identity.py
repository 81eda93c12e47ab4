import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.feature_maps import IdentityMap


def test_the_features_are_the_inputs(rng):
    X = rng.normal(size=(9, 4))
    fmap = IdentityMap(4)
    assert fmap.rank == 4
    assert_array_equal(fmap.transform(X), X)
    assert_allclose(fmap.cross(X[:3], X), X[:3] @ X.T)
    assert_array_equal(fmap.unrepresented(X, X), np.zeros(9))


def test_the_expansion_is_one_centre_of_a_linear_kernel(rng):
    X, beta = rng.normal(size=(9, 4)), rng.normal(size=4)
    f = IdentityMap(4).expansion(beta, 0.5)
    assert f.kernel == "linear"
    assert_allclose(f.predict(X), X @ beta + 0.5)
    assert np.shape(f.centers) == (1, 4)

"""Features with what goes with them, compared sum by sum."""

import numpy as np
from numpy.testing import assert_allclose


def sample(rng, n=100, r=4):
    G = rng.normal(size=(n, r)) + 1.0
    S = rng.normal(loc=[5.0, -3.0], scale=[1.0, 2.0], size=(n, 2)) + G[:, :2]
    return G, S, G[:, 0] + rng.normal(size=n)


def assert_equal_moments(a, b, rtol=1e-10):
    assert a.n == b.n
    for name in ("C", "b", "c", "g", "s", "y", "yy"):
        scale = np.abs(getattr(b, name)).max()
        assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=rtol * scale)

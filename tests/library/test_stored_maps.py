import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fkd.core.feature_maps import make_map, map_arrays, map_from_arrays


@pytest.mark.parametrize(
    ("kernel", "approximation"),
    [
        ("rbf", "nystroem"),
        ("polynomial", "nystroem"),
        ("rbf", "fourier"),
        ("laplacian", "fourier"),
    ],
)
def test_a_stored_map_gives_the_same_bits(rng, kernel, approximation):
    X = rng.normal(size=(80, 3))
    # Repeated rows force the pivoted factor.
    made = make_map(
        np.concatenate([X, X]),
        kernel=kernel,
        gamma=0.3,
        approximation=approximation,
        landmarks=120,
        landmark_method="uniform",
        random_state=0,
    )
    arrays = map_arrays(made)
    assert not any(array.dtype.hasobject for array in arrays.values())
    assert_array_equal(map_from_arrays(arrays).transform(X), made.transform(X))


@pytest.mark.parametrize(
    ("kernel", "approximation"), [("rbf", "exact"), (lambda X, Z: X @ Z.T, "nystroem")]
)
def test_what_has_no_arrays_is_refused(rng, kernel, approximation):
    made = make_map(
        rng.normal(size=(20, 3)), kernel=kernel, approximation=approximation, landmarks=3
    )
    with pytest.raises(ValueError, match="only Nystroem maps of named kernels"):
        map_arrays(made)

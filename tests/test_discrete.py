import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fkd import FairKernelRidge, one_hot


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

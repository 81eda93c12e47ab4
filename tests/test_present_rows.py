"""What weights may be, which rows they leave."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd import FairKernelDecomposition, FairKernelRidge, FairSVR
from fkd.baselines import FairKernelLearning
from fkd.core.weights import PresentRows

BAD = {
    "NaN": ([1.0, np.nan, 1.0], r"sample_weight must be 0 or lie between.*got nan in row 1"),
    "infinity": ([1.0, 1.0, np.inf], r"sample_weight must be 0 or lie between.*got inf in row 2"),
    "negative": ([1.0, 2.0, -3.0], r"sample_weight must be 0 or lie between.*got -3 in row 2"),
    "too few": ([1.0, 1.0], r"one number per row \(3\), got shape \(2,\)"),
    "a table": (np.ones((3, 2)), r"one number per row \(3\), got shape \(3, 2\)"),
    "words": (["a", "b", "c"], "sample_weight must hold numbers"),
    "nothing": ([0.0, 0.0, 0.0], "sample_weight must have a sum above zero"),
    "one row": ([0.0, 4.0, 0.0], "above 0 for at least 2 rows, got 1 of 3"),
    "next to nothing": ([1e-300, 2e-300, 0.0], "must be 0 or lie between 1e-100.*got 1e-300"),
    "one number": (2.0, r"one number per row \(3\), got shape \(\)"),
}


@pytest.mark.parametrize(("weights", "told"), BAD.values(), ids=BAD)
def test_bad_weights_are_refused_in_a_sentence(weights, told):
    with pytest.raises(ValueError, match=told):
        PresentRows.from_weights(weights, 3)


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
@pytest.mark.parametrize("scale", [1e-90, 1e-6, 1e6])
def test_weights_of_any_size_are_counted(rng, scale):
    """All of them times a number: so many times the rows, beside a ridge as many times larger."""
    X = rng.normal(size=(40, 3))
    w = rng.uniform(1, 2, size=40)
    models = [FairKernelRidge(alpha=alpha, gamma=0.3) for alpha in (0.1, 0.1 * scale)]
    for model, c in zip(models, (1.0, scale), strict=True):
        model.fit(X, X[:, 1], sensitive_features=X[:, 0], sample_weight=c * w)
    assert_allclose(models[1].predict(X), models[0].predict(X), atol=1e-8)


def test_one_row_will_do_where_no_spread_is_needed():
    assert len(PresentRows.from_weights([0.0, 4.0, 0.0], 3, least=1)) == 1


@pytest.mark.parametrize("weights", [None, [1, 1, 1], np.ones(3)])
def test_ones_are_no_weights(weights):
    there = PresentRows.from_weights(weights, 3)
    assert there.rows is None
    assert there.w is None
    X = np.eye(3)
    assert there.inputs(X) is X


def test_rows_of_weight_zero_are_left_out_of_everything():
    there = PresentRows.from_weights([2, 0, 1, 0], 4)
    assert_array_equal(there.inputs(np.arange(8).reshape(4, 2)), [[0, 1], [4, 5]])
    assert_array_equal(there.w, [2.0, 1.0])
    assert there.select("y", ["a", "b", "c", "d"]) == ["a", "c"]
    frame = pd.DataFrame({"age": [1, 2, 3, 4]}, index=[9, 8, 7, 6])
    assert there.select("sensitive_features", frame)["age"].tolist() == [1, 3]
    assert there.select("y", None) is None


@pytest.mark.parametrize("n", [2, 3, 5])
def test_what_stands_beside_must_be_as_long_as_all_rows(n):
    """Two would otherwise be taken for the two that are left."""
    there = PresentRows.from_weights([2, 0, 1, 0], 4)
    with pytest.raises(ValueError, match=rf"y must have one row per sample \(4\), got {n}"):
        there.select("y", np.ones(n))


@pytest.mark.parametrize("model", [FairKernelRidge, FairSVR, FairKernelLearning])
def test_columns_of_a_precomputed_kernel_cannot_be_left_out(rng, model):
    X = rng.normal(size=(20, 3))
    w = np.ones(20)
    w[3] = 0
    told = "above 0 if kernel='precomputed'.*got 0 for 1 of 20"
    with pytest.raises(ValueError, match=told):
        model("precomputed").fit(X @ X.T, X[:, 1], sensitive_features=X[:, 0], sample_weight=w)


def test_a_sensitive_column_that_varies_only_in_absent_rows_is_constant(rng):
    X, s = rng.normal(size=(30, 3)), np.r_[np.ones(28), 2.0, 3.0]
    w = np.r_[np.ones(28), 0.0, 0.0]
    with pytest.raises(ValueError, match="must vary, got a constant over the 28 samples"):
        FairKernelRidge().fit(X, X[:, 1], sensitive_features=s, sample_weight=w)


def test_names_of_columns_survive(rng):
    X = rng.normal(size=(30, 3))
    frame = pd.DataFrame({"age": np.ones(30)})
    w = np.r_[np.zeros(5), np.ones(25)]
    with pytest.raises(ValueError, match="column 'age' must vary"):
        FairKernelDecomposition().fit(X, sensitive_features=frame, sample_weight=w)

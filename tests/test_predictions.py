import pytest
from numpy.testing import assert_array_equal

from fkd.core.arrays import BLOCK_ROWS
from fkd.core.predictors import ConstantPrediction, KernelExpansion, predict_all


@pytest.fixture
def models(rng):
    centers, others = rng.normal(size=(30, 3)), rng.normal(size=(20, 3))

    def expansion(on, gamma=0.2):
        return KernelExpansion("rbf", gamma, 3, 1.0, on, rng.normal(size=len(on)), rng.normal())

    return [
        expansion(centers),
        ConstantPrediction(0.3),
        expansion(others),
        expansion(centers),
        expansion(centers, gamma=0.7),
        expansion(centers),
    ]


@pytest.mark.parametrize("rows", [1, 50, BLOCK_ROWS + 3])
def test_together_models_predict_what_each_predicts_alone(rng, models, rows):
    X = rng.normal(size=(rows, 3))
    together = predict_all(models, X)
    assert len(together) == len(models)
    for found, model in zip(together, models, strict=True):
        assert_array_equal(found, model.predict(X))


def test_models_on_the_same_centres_read_the_kernel_once(rng, models, monkeypatch):
    made = []
    kernel = KernelExpansion.predict.__globals__["Kernel"]
    call = kernel.__call__
    monkeypatch.setattr(
        kernel, "__call__", lambda self, X, Z: made.append(len(Z)) or call(self, X, Z)
    )
    predict_all(models, rng.normal(size=(10, 3)))
    assert sorted(made) == [20, 30, 30]


def test_no_model_predicts_nothing(rng):
    assert predict_all([], rng.normal(size=(3, 2))) == []

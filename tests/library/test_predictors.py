"""Predictors as arrays: storage, blocks, joint predictions, perceptrons."""

import io
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fkd.core.arrays import BLOCK_ROWS
from fkd.core.predictors import (
    PREDICTORS,
    SELU_ALPHA,
    SELU_SCALE,
    ConstantPrediction,
    CorrectedExpansion,
    FourierExpansion,
    KernelExpansion,
    LinearCorrection,
    Perceptron,
    ProjectedExpansion,
    SensitiveExpansion,
    predict_all,
    selu,
)


def kernel_expansion(rng, kernel="rbf"):
    return KernelExpansion(
        kernel, 0.3, 2, 0.5, rng.normal(size=(6, 3)), rng.normal(size=6), intercept=1.5
    )


def projected(rng):
    U, _ = np.linalg.qr(rng.normal(size=(3, 1)))
    return ProjectedExpansion(kernel_expansion(rng), U)


def fourier(rng):
    return FourierExpansion(rng.normal(size=(3, 7)), rng.uniform(size=7), rng.normal(size=7), 0.5)


def corrected(rng):
    correction = LinearCorrection(
        rng.normal(size=3), rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    )
    return CorrectedExpansion(kernel_expansion(rng), correction)


def sensitive(rng):
    inner = KernelExpansion(
        "rbf", 0.3, 2, 0.5, rng.normal(size=(6, 2)), rng.normal(size=6), intercept=1.5
    )
    return SensitiveExpansion(inner, rng.normal(size=1))


def perceptron(rng):
    shapes = [(3, 5), (5, 4), (4, 1)]
    return Perceptron(
        tuple(rng.normal(size=shape) for shape in shapes),
        tuple(rng.normal(size=width) for _, width in shapes),
    )


MAKERS = {
    "kernel": kernel_expansion,
    "fourier": fourier,
    "projected": projected,
    "corrected": corrected,
    "sensitive": sensitive,
    "perceptron": perceptron,
    "constant": lambda rng: ConstantPrediction(2.5),
}


@pytest.mark.parametrize("kind", sorted(PREDICTORS))
def test_a_predictor_survives_a_file_without_pickle(rng, kind):
    predictor = MAKERS[kind](rng)
    X = rng.normal(size=(11, 3))
    file = io.BytesIO()
    np.savez(file, **predictor.arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        restored = PREDICTORS[kind].from_arrays(arrays)
    assert_array_equal(restored.predict(X), predictor.predict(X))


@pytest.mark.parametrize("kind", sorted(PREDICTORS))
def test_blocks_leave_no_seam(rng, kind, monkeypatch):
    monkeypatch.setattr("fkd.core.predictors.BLOCK_ROWS", 4)
    predictor = MAKERS[kind](rng)
    X = rng.normal(size=(11, 3))
    X.flags.writeable = False
    one_by_one = [predictor.predict(X[i : i + 1])[0] for i in range(11)]
    assert_allclose(predictor.predict(X), one_by_one, rtol=1e-12)


def test_a_kernel_expansion_is_its_formula(rng):
    f = kernel_expansion(rng)
    X = rng.normal(size=(4, 3))
    distance = ((X[:, None] - f.centers) ** 2).sum(axis=2)
    assert_allclose(f.predict(X), np.exp(-0.3 * distance) @ f.coef + 1.5)


def test_a_projected_expansion_does_not_see_the_removed_direction(rng):
    f = projected(rng)
    X = rng.normal(size=(4, 3))
    assert_allclose(f.predict(X + 5 * f.U.T), f.predict(X), rtol=1e-9)
    assert np.abs(f.inner.predict(X + 5 * f.U.T) - f.inner.predict(X)).max() > 1e-3  # it would


def test_a_corrected_expansion_of_fourier_features_survives_its_arrays(rng):
    f = CorrectedExpansion(fourier(rng), corrected(rng).correction)
    X = rng.normal(size=(4, 3))
    assert_array_equal(CorrectedExpansion.from_arrays(f.arrays()).predict(X), f.predict(X))


def test_a_sensitive_expansion_adds_what_stands_behind_the_inputs(rng):
    inner = fourier(rng)
    f = SensitiveExpansion(inner, np.array([2.0, -1.0]))
    X, S = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    rows = np.hstack([X, S])
    assert_allclose(f.predict(rows), inner.predict(X) + 2 * S[:, 0] - S[:, 1], rtol=1e-12)
    again = SensitiveExpansion.from_arrays(f.arrays())
    assert_array_equal(again.predict(rows), f.predict(rows))
    with pytest.raises(ValueError, match="5 columns"):
        f.predict(X)


def test_a_kernel_function_cannot_be_exported(rng):
    f = kernel_expansion(rng, kernel=lambda X, Z: X @ Z.T)
    assert np.isfinite(f.predict(rng.normal(size=(2, 3)))).all()
    with pytest.raises(ValueError, match="kernel must be a named kernel"):
        f.arrays()


@pytest.mark.parametrize(
    "kind", ["corrected", "kernel", "fourier", "perceptron", "projected", "sensitive"]
)
@pytest.mark.parametrize("shape", [(4, 2), (3,)])
def test_rows_of_another_width_are_refused(rng, kind, shape):
    with pytest.raises(ValueError, match="3 columns"):
        MAKERS[kind](rng).predict(np.ones(shape))


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


def make_perceptron(rng, sizes=(3, 5, 4, 1)):
    pairs = list(pairwise(sizes))
    return Perceptron(
        tuple(rng.normal(size=pair) for pair in pairs),
        tuple(rng.normal(size=o) for _, o in pairs),
    )


def test_selu_by_hand():
    expected = [SELU_SCALE * SELU_ALPHA * (np.exp(-1.0) - 1), 0.0, 2 * SELU_SCALE]
    assert_allclose(selu(np.array([-1.0, 0.0, 2.0])), expected, rtol=1e-15)


def test_selu_keeps_the_moments_of_a_standard_normal(rng):
    activated = selu(rng.normal(size=400_000))
    # The error of a mean over 400 000 draws is 0.0016.
    assert_allclose([activated.mean(), activated.var()], [0.0, 1.0], atol=0.01)


def test_a_prediction_is_the_formula(rng):
    f = make_perceptron(rng)
    X = rng.normal(size=(6, 3))
    (W0, W1, W2), (b0, b1, b2) = f.weights, f.biases
    Z = selu(selu(X @ W0 + b0) @ W1 + b1)
    assert_allclose(f.hidden(X), Z)
    assert_allclose(f.predict(X), (Z @ W2)[:, 0] + b2[0])


def test_blocks_of_a_perceptron_leave_no_seam(rng, monkeypatch):
    monkeypatch.setattr("fkd.core.predictors.BLOCK_ROWS", 4)
    f = make_perceptron(rng)
    X = rng.normal(size=(11, 3))
    assert_allclose(f.predict(X), f.hidden(X) @ f.weights[-1][:, 0] + f.biases[-1], rtol=1e-12)


@pytest.mark.needs("torch")
def test_it_is_the_network_of_pytorch(rng):
    import torch

    f = make_perceptron(rng)
    layers = []
    for W, b in zip(f.weights, f.biases, strict=True):
        linear = torch.nn.Linear(*W.shape, dtype=torch.float64)
        linear.load_state_dict({"weight": torch.tensor(W.T), "bias": torch.tensor(b)})
        layers += [linear, torch.nn.SELU()]
    X = rng.normal(size=(6, 3))
    net = torch.nn.Sequential(*layers[:-1])
    assert_allclose(f.predict(X), net(torch.tensor(X)).detach().numpy()[:, 0], rtol=1e-12)


@pytest.mark.parametrize("shape", [(4, 2), (3,)])
def test_a_perceptron_refuses_rows_of_another_width(rng, shape):
    with pytest.raises(ValueError, match="3 columns"):
        make_perceptron(rng).hidden(np.ones(shape))

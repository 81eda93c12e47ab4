from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.predictors import SELU_ALPHA, SELU_SCALE, Perceptron, selu


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


def test_blocks_leave_no_seam(rng, monkeypatch):
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
def test_rows_of_another_width_are_refused(rng, shape):
    with pytest.raises(ValueError, match="3 columns"):
        make_perceptron(rng).hidden(np.ones(shape))

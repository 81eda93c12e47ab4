from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch", reason="`make neural` installs PyTorch")

from fkd.baselines.network_training import Architecture, Forward  # noqa: E402

pytestmark = pytest.mark.needs("torch")

SIZES = (7, 5, 4, 1)


def linear_layers(sizes=SIZES):
    layers = []
    for i, o in pairwise(sizes):
        layers += [torch.nn.Linear(i, o), torch.nn.SELU()]
    return torch.nn.Sequential(*layers[:-1])


def plain_network(architecture, flat):
    """One network of the stack as PyTorch's own layers."""
    net = linear_layers(architecture.sizes).double()
    with torch.no_grad():
        for layer, (W, b) in zip(net[::2], architecture.layers(flat[None]), strict=True):
            layer.weight.copy_(W[0].T)
            layer.bias.copy_(b[0, 0])
    return net


def make_stack(M, seed=0):
    architecture = Architecture(SIZES)
    rng = torch.Generator().manual_seed(seed)
    flat = torch.cat([architecture.initial(rng) for _ in range(M)]).double()
    X = torch.randn(9, SIZES[0], generator=rng, dtype=torch.float64)
    return architecture, flat.requires_grad_(), X


def test_a_seed_draws_the_weights_that_pytorch_draws():
    torch.manual_seed(3)
    net = linear_layers()
    architecture = Architecture(SIZES)
    flat = architecture.initial(torch.Generator().manual_seed(3))
    for layer, (W, b) in zip(net[::2], architecture.layers(flat), strict=True):
        assert_allclose(W[0].T.numpy(), layer.weight.detach().numpy(), rtol=1e-6)
        assert_allclose(b[0, 0].numpy(), layer.bias.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_each_network_is_one_of_pytorch(k):
    architecture, flat, X = make_stack(3)
    Z, f = Forward.apply(flat, X, architecture)
    net = plain_network(architecture, flat[k].detach())
    assert_allclose(f[k].detach().numpy(), net(X).detach().numpy()[:, 0], rtol=1e-12)
    assert_allclose(Z[k].detach().numpy(), net[:-1](X).detach().numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("uses_hidden", [False, True])
def test_the_gradient_is_that_of_automatic_differentiation(uses_hidden):
    architecture, flat, X = make_stack(3)
    Z, f = Forward.apply(flat, X, architecture)
    (f.square().sum() + uses_hidden * Z.sin().sum()).backward()
    for k, (g, row) in enumerate(zip(flat.grad, flat, strict=True)):
        net = plain_network(architecture, row.detach())
        (net(X).square().sum() + uses_hidden * net[:-1](X).sin().sum()).backward()
        for layer, (dW, db) in zip(net[::2], architecture.layers(g[None]), strict=True):
            assert_allclose(dW[0].T, layer.weight.grad, rtol=1e-10, atol=1e-12, err_msg=str(k))
            assert_allclose(db[0, 0], layer.bias.grad, rtol=1e-10, atol=1e-12, err_msg=str(k))


@pytest.mark.parametrize("sizes", [SIZES, (98, 100, 80, 1), (3, 1)])
def test_rows_of_the_stack_are_whole_registers(sizes):
    architecture = Architecture(sizes)
    weights = sum(W.numel() + b.numel() for W, b in architecture.layers(torch.zeros(1, 100_000)))
    assert architecture.length % 64 == 0
    assert 0 <= architecture.length - weights < 64


def test_networks_leave_as_arrays_that_predict_the_same():
    architecture, flat, X = make_stack(2)
    _, f = Forward.apply(flat, X, architecture)
    shipped = [p.predict(X.numpy()) for p in architecture.perceptrons(flat)]
    assert_allclose(shipped, f.detach().numpy(), rtol=1e-12)
    assert all(np.isfinite(W).all() for p in architecture.perceptrons(flat) for W in p.weights)

"""Networks: dependence of batches, training in stacks, named methods and estimators.

A network must not depend on the other networks of its stack, in any bit.
"""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import check_random_state
from training_sample import fit_one, make_training

torch = pytest.importorskip("torch", reason="`make neural` installs PyTorch")

from stack_sample import DEPENDENCE, SHAPES, stack  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from fkd import measures  # noqa: E402
from fkd.baselines import FremNetwork, HgrNetwork  # noqa: E402
from fkd.baselines.network_training import (  # noqa: E402
    Architecture,
    Forward,
    Recipe,
    aligned,
    batch_sizes,
    chi2,
    denormals_are_zero,
    eipm,
    empty_stack,
    exponential,
    multiply,
    one_thread,
    product,
    train,
)
from fkd.core.predictors import PREDICTORS, TAKEN_BATCHES  # noqa: E402
from fkd.methods import Training, method  # noqa: E402

PENALTIES = (0.0, 0.025, 0.1, 0.2, 0.5)
SIZES = (7, 5, 4, 1)  # of layers
MATRICES = [(3, 5), (8, 8), (1, 1), (50, 13)]
PRODUCTS = {"bmm", "baddbmm", "mm", "addmm", "mv", "addmv", "dot"}
NETWORKS = ("nn_frem", "nn_hgr", "nn_hgr_l")
QUICK = {"epochs": 3, "batch_rows": 40}


def batch(rng, b=200, M=3, l=1):
    """Outputs of M networks that depend on S more and more; two columns differ in scale."""
    S = np.array([0.1, -3.0])[:l] + np.array([0.5, 2.0])[:l] * rng.uniform(size=(b, l))
    f = rng.normal(size=(M, b)) + np.arange(M)[:, None] * 4 * S[:, 0]
    return torch.tensor(f), torch.tensor(S)


def frem(Z, S, *, bandwidth_s=0.05):
    return eipm(Z, S, bandwidth_s=bandwidth_s, bandwidth_z=1.0)


def recipe(epochs=4, widths=(13, 9), batch_rows=50):
    return Recipe(widths, epochs, batch_rows, learning_rate=0.001, weight_decay=0.01)


def run(training, penalties=PENALTIES, name="chi2", **options):
    options = {"recipe": recipe(), "seed": 5, "dependence": DEPENDENCE[name], **options}
    return train(training.X, training.y, training.S, penalties=penalties, **options)


def weights(network):
    return np.concatenate([A.ravel() for A in (*network.weights, *network.biases)])


def plain_loop(training, seed, steps):
    """The network without a penalty, as one would write it."""
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(4, 13), torch.nn.SELU(), torch.nn.Linear(13, 9), torch.nn.SELU()]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(9, 1)).double()
    adam = torch.optim.Adam(net.parameters(), lr=0.001, weight_decay=0.01)
    X, y = torch.tensor(training.X), torch.tensor(training.y)
    for _ in range(steps):
        for rows in torch.randperm(len(X)).split(50):
            adam.zero_grad()
            (net(X[rows])[:, 0] - y[rows]).square().mean().backward()
            adam.step()
    return net(X).detach().numpy()[:, 0]


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


class Products(TorchDispatchMode):
    """Records shapes and alignment of the operands of every matrix product."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in PRODUCTS:
            tensors = [A for A in (*args, found) if isinstance(A, torch.Tensor)]
            places = [(tuple(A.shape), A.stride()[1:], A.data_ptr() % 64) for A in tensors]
            # What is added is copied first, so that its alignment does not matter.
            self.calls.append((name, places[name == "baddbmm" :]))
        return found


def products(shape, name, picks):
    with Products() as recorded:
        stack(shape, name, picks, epochs=1)
    return recorded.calls


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("b", [32, 195, 200])
def test_chi2_is_the_measure(rng, b):
    f, S = batch(rng, b)
    expected = [measures.chi2(row, S[:, 0].numpy()) for row in f.numpy()]
    # The measure has no damping.
    assert_allclose(chi2(f, S).numpy(), expected, rtol=1e-6)


@pytest.mark.needs("maxcorr")
def test_chi2_is_that_of_maxcorr(rng):
    import maxcorr

    f, S = batch(rng)
    oracle = maxcorr.indicator(algorithm="kde", chi_square=True, backend="numpy")
    expected = [oracle.compute(row, S[:, 0].numpy()) for row in f.numpy()]
    # maxcorr works in float32.
    assert_allclose(chi2(f, S).numpy(), expected, rtol=1e-4)


@pytest.mark.needs("maxcorr")
def test_hgr_is_that_of_maxcorr(rng):
    import maxcorr

    f, S = batch(rng)
    oracle = maxcorr.indicator(algorithm="kde", backend="numpy")
    expected = [oracle.compute(row, S[:, 0].numpy()) for row in f.numpy()]
    ours = [measures.hgr(row, S[:, 0].numpy()) for row in f.numpy()]
    assert_allclose(ours, expected, rtol=1e-4)


def test_chi2_of_two_columns_is_the_mean_of_theirs(rng):
    f, S = batch(rng, l=2)
    each = [chi2(f, S[:, [j]]).numpy() for j in range(2)]
    assert_allclose(chi2(f, S).numpy(), np.mean(each, axis=0), rtol=1e-12)


def test_chi2_grows_with_dependence(rng):
    f, S = batch(rng)
    assert (np.diff(chi2(f, S).numpy()) > 0.1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_prediction_has_a_finite_gradient(rng, dtype):
    _, S = batch(rng)
    f = torch.full((2, 200), 0.3, dtype=dtype, requires_grad=True)
    chi2(f, S.to(dtype)).sum().backward()
    assert torch.isfinite(f.grad).all()


@pytest.mark.parametrize(
    "penalty", [lambda f, S: chi2(f, S), lambda f, S: frem(f[:, :, None], S)], ids=["chi2", "eipm"]
)
def test_the_order_of_rows_does_not_matter(rng, penalty):
    f, S = batch(rng, l=2)
    order = torch.tensor(rng.permutation(200))
    assert_allclose(penalty(f[:, order], S[order]), penalty(f, S), rtol=1e-10)


def test_eipm_by_hand():
    points = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    assert_allclose(frem(points[None], points).item(), np.sqrt((1 - np.exp(-0.5)) / 2), rtol=1e-12)
    assert_allclose(frem(points[None], points).item(), 0.443548, atol=5e-7)


def test_eipm_as_defined(rng):
    Z, S = rng.normal(size=(1, 30, 4)), rng.uniform(size=(30, 1))
    W = np.exp(-((S - S.T) ** 2) / (2 * 0.05**2))
    np.fill_diagonal(W, 0.0)
    R = W / W.sum(axis=1, keepdims=True) - 1 / 30
    K = np.exp(-((Z[0][:, None] - Z[0]) ** 2).sum(axis=2) / 2)
    expected = np.sqrt(np.diag(R @ K @ R.T)).mean()
    assert_allclose(frem(torch.tensor(Z), torch.tensor(S)).item(), expected, rtol=1e-10)


def test_eipm_of_a_constant_representation_is_zero(rng):
    Z = torch.full((2, 50, 3), 7.0, dtype=torch.float64, requires_grad=True)
    found = frem(Z, torch.tensor(rng.uniform(size=(50, 1))))
    found.sum().backward()
    # The floor under the square root is 1e-12.
    assert_allclose(found.detach(), 0.0, atol=2e-6)
    assert torch.isfinite(Z.grad).all()


@pytest.mark.parametrize("scale", [0.1, 10.0, 1e3])
def test_eipm_is_bounded(rng, scale):
    S = torch.tensor(rng.uniform(size=(60, 1)))
    assert frem(scale * S.expand(1, 60, 3), S).item() <= np.sqrt(2)


def test_eipm_with_a_huge_bandwidth_is_nearly_zero(rng):
    Z, S = torch.tensor(rng.normal(size=(1, 80, 2))), torch.tensor(rng.uniform(size=(80, 1)))
    wide = frem(Z, S, bandwidth_s=1e4).item()
    assert 0 < wide < 0.02 < frem(Z, S).item()


def test_eipm_in_float32_is_finite_for_a_row_far_from_all_others():
    S = torch.tensor([[0.0], [0.01], [1.0]])
    found = frem(torch.randn(1, 3, 2, generator=torch.Generator().manual_seed(0)), S)
    assert torch.isfinite(found).all()


@pytest.mark.parametrize("batch_rows", [16, 17])
def test_rows_are_gathered_for_a_few_batches_at_a_time(rng, batch_rows, monkeypatch):
    training = make_training(rng, n=1300, d=3)
    options = {"recipe": recipe(epochs=2, batch_rows=batch_rows), "penalties": PENALTIES[:2]}
    whole = run(training, **options)
    asked = []

    def take(positions):
        asked.append(len(positions))
        return training.X[positions]

    options |= {"dependence": DEPENDENCE["chi2"], "seed": 5}
    later = train(take, training.y, training.S, **options)
    assert_array_equal([weights(f) for f in later], [weights(f) for f in whole])
    assert max(asked) == TAKEN_BATCHES * batch_rows < 1300
    # All rows gathered at once give the same.
    monkeypatch.setattr("fkd.baselines.network_training.TAKEN_BATCHES", 10**6)
    assert_array_equal([weights(f) for f in run(training, **options)], [weights(f) for f in whole])


@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (1595, [200] * 7 + [195]),
        (400, [200, 200]),
        (431, [200, 231]),
        (432, [200, 200, 32]),
        (20, [20]),
        (210, [210]),
    ],
)
def test_a_small_rest_is_added_to_the_last_batch(n, sizes):
    assert batch_sizes(n, 200) == sizes


def test_batches_may_be_smaller_than_the_smallest_rest():
    assert batch_sizes(25, 10) == [10, 15]


def test_no_penalty_is_the_plain_network(rng):
    training = make_training(rng, n=150)
    (ours,) = run(training, [0.0], dtype=torch.float64)
    assert_allclose(ours.predict(training.X), plain_loop(training, 5, 4), rtol=1e-8)


@pytest.mark.parametrize("name", sorted(DEPENDENCE))
@pytest.mark.parametrize("pick", [(0,), (1,), (2,), (3,), (4,), (1, 3), (4, 0, 2)])
def test_a_network_does_not_depend_on_the_others_of_its_stack(rng, name, pick):
    training = make_training(rng, n=130, d=7)
    together = run(training, name=name)
    alone = run(training, [PENALTIES[i] for i in pick], name)
    assert_array_equal([weights(f) for f in alone], [weights(together[i]) for i in pick])


@pytest.mark.parametrize("widths", [(100, 80), (250, 230)])
def test_networks_of_the_published_sizes_do_not_depend_on_each_other(rng, widths):
    training = make_training(rng, n=395, d=98)
    options = {"recipe": recipe(epochs=10, widths=widths, batch_rows=200)}
    together = run(training, **options)
    (alone,) = run(training, [PENALTIES[1]], **options)
    assert_array_equal(weights(alone), weights(together[1]))


def test_a_seed_determines_every_bit(rng):
    training = make_training(rng, n=130)
    first, again, other = (run(training, [0.1], seed=s)[0] for s in (1, 1, 2))
    assert_array_equal(weights(first), weights(again))
    assert np.abs(weights(first) - weights(other)).max() > 0.01


def test_training_lowers_the_reported_loss(rng):
    seen = []
    run(
        make_training(rng, n=130),
        recipe=recipe(epochs=60),
        watch=lambda epoch, losses: seen.append((epoch, losses.numpy().copy())),
    )
    assert [epoch for epoch, _ in seen] == list(range(60))
    assert (seen[-1][1] < 0.5 * seen[0][1]).all()


def test_arguments_are_not_changed(rng):
    training = make_training(rng, n=60)
    for A in (training.X, training.y, training.S):
        A.flags.writeable = False
    run(training, [0.1])


def test_a_seed_draws_the_weights_that_pytorch_draws():
    torch.manual_seed(3)
    net = linear_layers()
    architecture = Architecture(SIZES)
    flat = architecture.initial(torch.Generator().manual_seed(3))
    for layer, (W, b) in zip(net[::2], architecture.layers(flat), strict=True):
        assert_allclose(W[0].T.numpy(), layer.weight.detach().numpy(), rtol=1e-6)
        assert_allclose(b[0, 0].numpy(), layer.bias.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_each_network_is_the_network_of_pytorch(k):
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
def test_the_weights_of_a_network_fill_whole_registers(sizes):
    architecture = Architecture(sizes)
    weights = sum(W.numel() + b.numel() for W, b in architecture.layers(torch.zeros(1, 100_000)))
    assert architecture.length % 64 == 0
    assert 0 <= architecture.length - weights < 64


def test_networks_as_arrays_predict_the_same():
    architecture, flat, X = make_stack(2)
    _, f = Forward.apply(flat, X, architecture)
    shipped = [p.predict(X.numpy()) for p in architecture.perceptrons(flat)]
    assert_allclose(shipped, f.detach().numpy(), rtol=1e-12)
    assert all(np.isfinite(W).all() for p in architecture.perceptrons(flat) for W in p.weights)


@pytest.mark.parametrize("name", sorted(DEPENDENCE))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("M", [2, 3, 5, 8])
def test_every_product_is_that_of_a_network_alone(shape, name, M):
    alone = products(shape, name, [1])
    assert len(alone) > 6
    together = products(shape, name, range(M))
    assert together == [call for call in alone for _ in range(M)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", MATRICES)
def test_matrices_of_a_stack_start_at_registers_and_end_with_a_gap(size, dtype):
    A = empty_stack((3, *size), getattr(torch, dtype))
    assert A.shape == (3, *size)
    assert {part.data_ptr() % 64 for part in A} == {0}
    assert A.stride(0) > size[0] * size[1]
    assert A[:1].is_contiguous()


@pytest.mark.parametrize("size", MATRICES)
@pytest.mark.parametrize("transposed", [False, True])
def test_alignment_keeps_values_and_order(rng, size, transposed):
    A = torch.tensor(rng.normal(size=(3, *size)))
    A = A.mT if transposed else A
    B = aligned(A)
    assert torch.equal(A, B)
    assert {part.data_ptr() % 64 for part in B} == {0}
    assert aligned(B) is B
    assert B.stride()[1:] == A.stride()[1:]


def test_alignment_copies_repeated_rows(rng):
    A = torch.tensor(rng.normal(size=(1, 1, 4))).expand(1, 3, 4)
    B = aligned(A)
    assert torch.equal(A, B)
    assert B.stride()[1:] == (4, 1)


def test_products_and_their_gradients_are_those_of_pytorch(rng):
    A, B, C = (
        torch.tensor(rng.normal(size=size), requires_grad=True)
        for size in ((3, 4, 5), (3, 5, 6), (3, 4, 6))
    )
    for ours, theirs in (
        (product(A, B, None), torch.bmm(A, B)),
        (product(A, B, C), torch.baddbmm(C, A, B)),
        (exponential(A), A.exp()),
    ):
        assert_allclose(ours.detach(), theirs.detach(), rtol=1e-12, atol=1e-14)
        gradients = []
        for found in (ours, theirs):
            found.sin().sum().backward()
            gradients.append([T.grad for T in (A, B, C)])
            A.grad = B.grad = C.grad = None
        for mine, other in zip(*gradients, strict=True):
            assert (mine is None) == (other is None)
            if mine is not None:
                assert_allclose(mine, other, rtol=1e-12, atol=1e-14)


def test_an_operand_may_be_shared_by_all_networks(rng):
    A, B = torch.tensor(rng.normal(size=(3, 4, 5))), torch.tensor(rng.normal(size=(5, 6)))
    out = multiply(A, B.expand(3, 5, 6), empty_stack((3, 4, 6), A.dtype))
    assert_allclose(out, A @ B, rtol=1e-12, atol=1e-14)


def test_the_number_of_threads_is_restored_after_the_last_block(three_threads):
    with one_thread():
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_the_number_of_threads_is_restored_after_an_error(three_threads):
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert torch.get_num_threads() == 3


def test_denormals_are_zero_inside_the_block_only():
    tiny = torch.full((64,), 1e-40)
    with denormals_are_zero():
        assert (tiny * 1.0).count_nonzero() == 0
    assert (tiny * 1.0).count_nonzero() == 64


@pytest.mark.parametrize("name", NETWORKS)
def test_a_setting_does_not_depend_on_the_others(rng, name):
    training = make_training(rng)
    declared = method(name)
    settings = [
        declared.parameters(penalty=penalty, learning_rate=rate, **QUICK)
        for penalty in (0.5, 0.0)
        for rate in (0.001, 0.01)
    ]
    together = [f.predict(training.X) for f in declared.fit(training, settings)]
    alone = [fit_one(name, training, **vars(p)).predict(training.X) for p in settings]
    assert_array_equal(together, alone)


def test_more_settings_than_fit_into_a_stack_are_trained(rng, monkeypatch):
    monkeypatch.setattr("fkd.methods.network_methods.LARGEST_STACK", 2)
    training = make_training(rng)
    declared = method("nn_hgr")
    settings = [declared.parameters(penalty=0.1 * k, **QUICK) for k in range(5)]
    together = [f.predict(training.X) for f in declared.fit(training, settings)]
    assert_array_equal(
        together[4], fit_one("nn_hgr", training, penalty=0.4, **QUICK).predict(training.X)
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_differ_in_their_penalty_share_a_task(name):
    declared = method(name)
    cheap, dear, slow = (
        declared.shared(declared.parameters(**p))
        for p in ({}, {"penalty": 1.0}, {"learning_rate": 0.1})
    )
    assert cheap == dear != slow


def test_networks_of_different_methods_share_no_task():
    declared = [method(name) for name in NETWORKS]
    assert len({one.shared(one.parameters()) for one in declared}) == 3


@pytest.mark.parametrize(
    ("name", "widths"), [("nn_hgr", (100, 80)), ("nn_hgr_l", (250, 230)), ("nn_frem", (100, 80))]
)
def test_the_published_widths_are_the_default(rng, name, widths):
    f = fit_one(name, make_training(rng), epochs=1)
    assert [W.shape[1] for W in f.weights] == [*widths, 1]
    assert type(f) is PREDICTORS["perceptron"]


@pytest.mark.parametrize(("name", "penalty"), [("nn_hgr", 2.0), ("nn_frem", 5.0)])
def test_a_penalty_lowers_the_dependence_on_every_column(rng, name, penalty):
    training = make_training(rng, n=300)
    options = {"epochs": 60, "batch_rows": 100, "first_width": 20, "second_width": 10}
    plain = fit_one(name, training, **options).predict(training.X)
    fair = fit_one(name, training, penalty=penalty, **options).predict(training.X)
    before, after = (np.abs([np.corrcoef(f, s)[0, 1] for s in training.S.T]) for f in (plain, fair))
    assert (after < 0.7 * before).all()
    assert before.min() > 0.1


def test_the_representation_of_frem_is_its_hidden_layer(rng):
    training = make_training(rng)
    declared = method("nn_frem")
    p = declared.parameters(penalty=1.0, **QUICK)
    Z = declared.represent(training, p, training.X)
    f = fit_one("nn_frem", training, penalty=1.0, **QUICK)
    assert Z.shape == (60, 80)
    assert_array_equal(Z @ f.weights[-1][:, 0] + f.biases[-1], f.predict(training.X))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_cost_grows_with_networks_and_widths(name):
    declared = method(name)
    one = declared.cost([declared.parameters()], 1000, 100)
    two = declared.cost([declared.parameters(), declared.parameters(penalty=1.0)], 1000, 100)
    wide = declared.cost([declared.parameters(first_width=1000)], 1000, 100)
    assert two.flops == 2 * one.flops
    assert wide.flops > 1.5 * one.flops
    assert wide.bytes > one.bytes


@pytest.mark.parametrize(
    ("kind", "name", "own"),
    [
        (HgrNetwork, "nn_hgr", {}),
        (FremNetwork, "nn_frem", {"bandwidth_s": 0.1, "bandwidth_z": 0.5}),
    ],
)
def test_an_estimator_is_the_method_on_scaled_target_and_columns(rng, kind, name, own):
    training = make_training(rng, n=200)
    X, (y, S) = (
        training.X,
        ((A - A.min(axis=0)) / np.ptp(A, axis=0) for A in (training.y, training.S)),
    )
    setting = {"penalty": 0.5, "first_width": 8, "second_width": 6, "epochs": 3, **own}
    seed = int(check_random_state(7).randint(2**31 - 1))
    known = fit_one(name, Training(X, y, S, seed), **setting)
    model = kind(random_state=7, **setting)
    found = model.fit(X, 100 * y + 20, sensitive_features=5 * S - 3).predict(X)
    assert_allclose(found, 100 * known.predict(X) + 20, rtol=1e-4)


@pytest.mark.parametrize("kind", [HgrNetwork, FremNetwork])
def test_a_path_has_the_networks_of_single_fits(rng, kind):
    training = make_training(rng, n=200)
    model = kind(random_state=7, penalty=0.5, first_width=8, second_width=6, epochs=3)
    rows, s = (training.X, training.y), {"sensitive_features": training.S}
    path = model.fit_path(*rows, **s, penalties=[0.0, 0.5])
    assert not hasattr(model, "expansion_")
    alone = model.fit(*rows, **s).predict(training.X)
    assert_array_equal(path[0.5].predict(training.X), alone)
    assert path[0.0].penalty == 0.0
    assert np.abs(path[0.0].predict(training.X) - alone).max() > 0

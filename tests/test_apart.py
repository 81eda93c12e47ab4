import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch", reason="`make neural` installs PyTorch")

from stack_sample import SHAPES, stack  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from fkd.baselines.network_training import apart, at_registers, exponential, multiply, product  # noqa: E402

pytestmark = pytest.mark.needs("torch")

SIZES = [(3, 5), (8, 8), (1, 1), (50, 13)]
PRODUCTS = {"bmm", "baddbmm", "mm", "addmm", "mv", "addmv", "dot"}


class Products(TorchDispatchMode):
    """Notes of every matrix product its shapes with the place of each operand in a register."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in PRODUCTS:
            tensors = [A for A in (*args, found) if isinstance(A, torch.Tensor)]
            places = [(tuple(A.shape), A.stride()[1:], A.data_ptr() % 64) for A in tensors]
            # What is added is copied first: its place does not matter.
            self.calls.append((name, places[name == "baddbmm" :]))
        return found


def products(shape, penalty, picks):
    with Products() as noted:
        stack(shape, penalty, picks, epochs=1)
    return noted.calls


@pytest.mark.parametrize("penalty", ["chi2", "eipm"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("M", [2, 3, 5, 8])
def test_every_product_is_the_one_of_a_network_alone(shape, penalty, M):
    alone = products(shape, penalty, [1])
    assert len(alone) > 6
    together = products(shape, penalty, range(M))
    assert together == [call for call in alone for _ in range(M)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_networks_begin_at_registers_with_a_gap_behind_each(size, dtype):
    A = apart(3, size, getattr(torch, dtype))
    assert A.shape == (3, *size)
    assert {part.data_ptr() % 64 for part in A} == {0}
    assert A.stride(0) > size[0] * size[1]
    assert A[:1].is_contiguous()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_copy_at_registers_keeps_values_and_order(rng, size, transposed):
    A = torch.tensor(rng.normal(size=(3, *size)))
    A = A.mT if transposed else A
    B = at_registers(A)
    assert torch.equal(A, B)
    assert {part.data_ptr() % 64 for part in B} == {0}
    assert at_registers(B) is B
    assert B.stride()[1:] == A.stride()[1:]


def test_a_copy_of_repeated_rows_is_an_array_of_rows(rng):
    A = torch.tensor(rng.normal(size=(1, 1, 4))).expand(1, 3, 4)
    B = at_registers(A)
    assert torch.equal(A, B)
    assert B.stride()[1:] == (4, 1)


def test_products_with_their_gradients_are_those_of_pytorch(rng):
    A, B, C = (
        torch.tensor(rng.normal(size=size), requires_grad=True)
        for size in ((3, 4, 5), (3, 5, 6), (3, 4, 6))
    )
    for ours, theirs in (
        (product(A, B), torch.bmm(A, B)),
        (product(A, B, plus=C), torch.baddbmm(C, A, B)),
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
    out = multiply(A, B.expand(3, 5, 6), apart(3, (4, 6), A.dtype))
    assert_allclose(out, A @ B, rtol=1e-12, atol=1e-14)

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch", reason="`make neural` installs PyTorch")

from fkd import measures  # noqa: E402
from fkd.baselines.network_training import chi2, eipm  # noqa: E402

pytestmark = pytest.mark.needs("torch")


def batch(rng, b=200, M=3, l=1):
    """Outputs of M networks that lean on S more and more; two columns differ in scale."""
    S = np.array([0.1, -3.0])[:l] + np.array([0.5, 2.0])[:l] * rng.uniform(size=(b, l))
    f = rng.normal(size=(M, b)) + np.arange(M)[:, None] * 4 * S[:, 0]
    return torch.tensor(f), torch.tensor(S)


def frem(Z, S, *, bandwidth_s=0.05):
    return eipm(Z, S, bandwidth_s=bandwidth_s, bandwidth_z=1.0)


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
def test_the_maximal_correlation_of_the_measures_is_that_of_maxcorr(rng):
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


def test_eipm_of_a_constant_representation_is_nothing(rng):
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


def test_eipm_far_beyond_the_range_of_s_is_what_leaving_one_out_leaves(rng):
    Z, S = torch.tensor(rng.normal(size=(1, 80, 2))), torch.tensor(rng.uniform(size=(80, 1)))
    wide = frem(Z, S, bandwidth_s=1e4).item()
    assert 0 < wide < 0.02 < frem(Z, S).item()


def test_eipm_in_float32_survives_a_row_far_from_all_others():
    S = torch.tensor([[0.0], [0.01], [1.0]])
    found = frem(torch.randn(1, 3, 2, generator=torch.Generator().manual_seed(0)), S)
    assert torch.isfinite(found).all()

import pytest

torch = pytest.importorskip("torch", reason="`make neural` installs PyTorch")

from fkd.baselines.network_training import denormals_are_zero, one_thread  # noqa: E402

pytestmark = pytest.mark.needs("torch")


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_count_comes_back_after_the_last_block(three_threads):
    with one_thread():
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_the_count_comes_back_after_an_error(three_threads):
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert torch.get_num_threads() == 3


def test_the_smallest_numbers_are_zero_inside_only():
    tiny = torch.full((64,), 1e-40)
    with denormals_are_zero():
        assert (tiny * 1.0).count_nonzero() == 0
    assert (tiny * 1.0).count_nonzero() == 64

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from training_sample import make_training

torch = pytest.importorskip("torch", reason="`make neural` installs PyTorch")

from fkd.baselines.network_training import Recipe, batch_sizes, chi2, eipm, train  # noqa: E402  # noqa: E402
from fkd.core.predictors import TAKEN_BATCHES  # noqa: E402

pytestmark = pytest.mark.needs("torch")

PRICES = (0.0, 0.025, 0.1, 0.2, 0.5)
PENALTIES = {
    "chi2": lambda Z, f, S: chi2(f, S),
    "eipm": lambda Z, f, S: eipm(Z, S, bandwidth_s=0.05, bandwidth_z=1.0),
}


def recipe(epochs=4, widths=(13, 9), batch_rows=50):
    return Recipe(widths, epochs, batch_rows, learning_rate=0.001, weight_decay=0.01)


def run(training, prices=PRICES, penalty="chi2", **options):
    options = {"recipe": recipe(), "seed": 5, **options}
    return train(
        training.X, training.y, training.S, prices=prices, penalty=PENALTIES[penalty], **options
    )


def weights(network):
    return np.concatenate([A.ravel() for A in (*network.weights, *network.biases)])


def plain_loop(training, seed, steps):
    """The network without a price, as one would write it."""
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


@pytest.mark.parametrize("batch_rows", [16, 17])
def test_rows_may_come_a_few_batches_at_a_time(rng, batch_rows, monkeypatch):
    training = make_training(rng, n=1300, d=3)
    options = {"recipe": recipe(epochs=2, batch_rows=batch_rows), "prices": PRICES[:2]}
    whole = run(training, **options)
    asked = []

    def take(positions):
        asked.append(len(positions))
        return training.X[positions]

    later = train(take, training.y, training.S, penalty=PENALTIES["chi2"], seed=5, **options)
    assert_array_equal([weights(f) for f in later], [weights(f) for f in whole])
    assert max(asked) == TAKEN_BATCHES * batch_rows < 1300
    # In one piece, as all rows were taken once.
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
def test_a_small_rest_joins_the_batch_before(n, sizes):
    assert batch_sizes(n, 200) == sizes


def test_batches_may_be_smaller_than_the_rest_that_counts():
    assert batch_sizes(25, 10) == [10, 15]


def test_no_price_is_the_plain_network(rng):
    training = make_training(rng, n=150)
    (ours,) = run(training, [0.0], dtype=torch.float64)
    assert_allclose(ours.predict(training.X), plain_loop(training, 5, 4), rtol=1e-8)


@pytest.mark.parametrize("penalty", sorted(PENALTIES))
@pytest.mark.parametrize("pick", [(0,), (1,), (2,), (3,), (4,), (1, 3), (4, 0, 2)])
def test_a_network_does_not_depend_on_those_beside_it(rng, penalty, pick):
    training = make_training(rng, n=130, d=7)
    together = run(training, penalty=penalty)
    apart = run(training, [PRICES[i] for i in pick], penalty)
    assert_array_equal([weights(a) for a in apart], [weights(together[i]) for i in pick])


@pytest.mark.parametrize("widths", [(100, 80), (250, 230)])
def test_networks_of_the_published_sizes_do_not_depend_on_those_beside_them(rng, widths):
    training = make_training(rng, n=395, d=98)
    options = {"recipe": recipe(epochs=10, widths=widths, batch_rows=200)}
    together = run(training, **options)
    (apart,) = run(training, [PRICES[1]], **options)
    assert_array_equal(weights(apart), weights(together[1]))


def test_a_seed_decides_every_bit(rng):
    training = make_training(rng, n=130)
    first, again, other = (run(training, [0.1], seed=s)[0] for s in (1, 1, 2))
    assert_array_equal(weights(first), weights(again))
    assert np.abs(weights(first) - weights(other)).max() > 0.01


def test_the_training_lowers_the_loss_that_it_reports(rng):
    heard = []
    run(
        make_training(rng, n=130),
        recipe=recipe(epochs=60),
        watch=lambda epoch, losses: heard.append((epoch, losses.numpy().copy())),
    )
    assert [epoch for epoch, _ in heard] == list(range(60))
    assert (heard[-1][1] < 0.5 * heard[0][1]).all()


def test_arguments_stay_as_they_are(rng):
    training = make_training(rng, n=60)
    for A in (training.X, training.y, training.S):
        A.flags.writeable = False
    run(training, [0.1])

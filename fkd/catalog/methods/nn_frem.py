"""A neural network whose hidden layer pays for dependence (NN-FREM, Kong et al. 2025)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.cost import Cost
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.networks import NetworkParameters, fit_networks, network_cost, stack_key
from fkd.core.arrays import Array
from fkd.core.predictors import Perceptron
from fkd.core.training import Training
from fkd.rivals.network_penalties import frem_penalty
from fkd.rivals.optional_packages import NEURAL


@dataclass(frozen=True)
class Parameters(NetworkParameters):
    """Those of any network, with the widths of the Gaussian kernels on S, on the hidden layer."""

    bandwidth_s: float = number(0.05, above=0)
    bandwidth_z: float = number(1.0, above=0)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Perceptron]:
    """Return networks whose last hidden layer is to look the same at every s."""
    return fit_networks(training, settings, lambda p: frem_penalty(p.bandwidth_s, p.bandwidth_z))


def _cost(settings: Sequence[Parameters], n: int, d: int) -> Cost:
    """Return the cost of the networks with that of comparing the rows of a batch in pairs."""
    plain = network_cost(settings, n, d)
    pairs = sum(
        6.0 * n * p.epochs * p.batch_rows * (p.second_width + p.batch_rows) for p in settings
    )
    return Cost(plain.flops + pairs, plain.bytes)


def _represent(training: Training, p: Parameters, X: Array) -> Array:
    """Return the hidden layer of rows X, from a training of its own."""
    (network,) = _fit(training, [p])
    return network.hidden(X)


METHOD = Method(
    name="nn_frem",
    title="NN-FREM",
    parameters=Parameters,
    fit=_fit,
    strength="penalty",
    shared=stack_key,
    represent=_represent,
    published={"acs_income": Published(grid={"penalty": (0.0, 0.5, 1.5, 5.0, 10.0)})},
    extra=NEURAL,
    cost=_cost,
)

"""Neural networks with a penalty on dependence: NN-HGR, NN-HGR-L, NN-FREM."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

from fkd.baselines.base import NEURAL
from fkd.baselines.networks import frem_dependence, hgr_dependence
from fkd.core.arrays import Array
from fkd.core.predictors import TAKEN_BATCHES, Perceptron
from fkd.core.training import Training
from fkd.methods.declaration import Cost, Method, Published, number

if TYPE_CHECKING:  # importing it needs PyTorch, which only training needs
    from fkd.baselines.network_training import Dependence

# A larger stack of networks does not fit into the cache and gains nothing.
LARGEST_STACK = 8
# Cost of a step besides matrix products, in their operations: a quarter of a millisecond.
_STEP = 1.7e7


@dataclass(frozen=True)
class NetworkParameters:
    """Penalty of dependence, widths of two hidden layers, batches, epochs, optimiser."""

    method: ClassVar[str] = "nn_hgr"
    penalty: float = number(0.0, at_least=0)
    first_width: int = number(100, at_least=1)
    second_width: int = number(80, at_least=1)
    epochs: int = number(500, at_least=1)
    batch_rows: int = number(200, at_least=2)
    learning_rate: float = number(0.001, above=0)
    weight_decay: float = number(0.01, at_least=0)


@dataclass(frozen=True)
class LargeNetworkParameters(NetworkParameters):
    """A network with wider layers."""

    method: ClassVar[str] = "nn_hgr_l"
    first_width: int = number(250, at_least=1)
    second_width: int = number(230, at_least=1)


@dataclass(frozen=True)
class FremParameters(NetworkParameters):
    """A network with the widths of the Gaussian kernels on S and on the hidden layer."""

    method: ClassVar[str] = "nn_frem"
    bandwidth_s: float = number(0.05, above=0)
    bandwidth_z: float = number(1.0, above=0)


P = TypeVar("P", bound=NetworkParameters)


def _stack_key(p: NetworkParameters) -> Hashable:
    """Return the key of a stack: networks that differ in their penalty only train together."""
    return (p.method, replace(p, penalty=0.0))


def _cost(settings: Sequence[NetworkParameters], n: int, d: int) -> Cost:
    """Return the cost of training on n rows of d inputs: six operations per weight, row, epoch."""
    weights = [(d + p.second_width) * p.first_width for p in settings]
    rows = [float(n * p.epochs) for p in settings]
    steps = [r / p.batch_rows for r, p in zip(rows, settings, strict=True)]
    return Cost(
        flops=sum(6 * w * r for w, r in zip(weights, rows, strict=True)) + _STEP * sum(steps),
        # A few batches, encoded and in float32; per network its weights, gradient, two moments.
        bytes=12.0 * max(min(n, TAKEN_BATCHES * p.batch_rows) for p in settings) * d
        + 4.0 * 8 * sum(weights)
        + 1e8,
    )


def _frem_cost(settings: Sequence[FremParameters], n: int, d: int) -> Cost:
    """Return the cost with that of comparing the rows of a batch in pairs."""
    plain = _cost(settings, n, d)
    pairs = sum(
        6.0 * n * p.epochs * p.batch_rows * (p.second_width + p.batch_rows) for p in settings
    )
    return Cost(plain.flops + pairs, plain.bytes)


def _fit(
    training: Training, settings: Sequence[P], dependence: Callable[[P], "Dependence"]
) -> Iterator[Perceptron]:
    """Yield one network per setting, in order. A stack is trained when its first one is needed."""
    NEURAL.check(settings[0].method)
    from fkd.baselines.network_training import Recipe, train

    found: dict[P, Perceptron] = {}
    for p in settings:
        if p not in found:
            same = [o for o in settings if _stack_key(o) == _stack_key(p) and o not in found]
            stack = list(dict.fromkeys(same))[:LARGEST_STACK]
            networks = train(
                training.rows,
                training.y,
                training.S,
                penalties=[o.penalty for o in stack],
                dependence=dependence(p),
                recipe=Recipe(
                    widths=(p.first_width, p.second_width),
                    epochs=p.epochs,
                    batch_rows=p.batch_rows,
                    learning_rate=p.learning_rate,
                    weight_decay=p.weight_decay,
                ),
                seed=training.seed,
            )
            found.update(zip(stack, networks, strict=True))
        yield found[p]


def _fit_hgr(training: Training, settings: Sequence[NetworkParameters]) -> Iterator[Perceptron]:
    """Return networks that pay for an upper bound of HGR (Mary et al. 2019) in each batch."""
    return _fit(training, settings, lambda _: hgr_dependence())


def _fit_frem(training: Training, settings: Sequence[FremParameters]) -> Iterator[Perceptron]:
    """Return networks that pay for dependence of the hidden layer on S (Kong et al. 2025)."""
    return _fit(training, settings, lambda p: frem_dependence(p.bandwidth_s, p.bandwidth_z))


def _hidden(training: Training, p: FremParameters, X: Array) -> Array:
    """Return the hidden layer of rows X, from a training of its own."""
    (network,) = _fit_frem(training, [p])
    return network.hidden(X)


_CENSUS = Published(grid={"penalty": (0.0, 0.00625, 0.0125, 0.05)})
_HGR_PUBLISHED = {
    "crimes": Published(grid={"penalty": (0.0, 0.025, 0.1, 0.2, 0.5)}),
    "acs_income": _CENSUS,
    "acs_travel_time": _CENSUS,
}

METHODS = (
    Method(
        name="nn_hgr",
        title="NN-HGR",
        parameters=NetworkParameters,
        fit=_fit_hgr,
        strength="penalty",
        shared=_stack_key,
        published=_HGR_PUBLISHED,
        extra=NEURAL,
        cost=_cost,
    ),
    Method(
        name="nn_hgr_l",
        title="NN-HGR-L",
        parameters=LargeNetworkParameters,
        fit=_fit_hgr,
        strength="penalty",
        shared=_stack_key,
        published=_HGR_PUBLISHED,
        extra=NEURAL,
        cost=_cost,
    ),
    Method(
        name="nn_frem",
        title="NN-FREM",
        parameters=FremParameters,
        fit=_fit_frem,
        strength="penalty",
        shared=_stack_key,
        represent=_hidden,
        published={"acs_income": Published(grid={"penalty": (0.0, 0.5, 1.5, 5.0, 10.0)})},
        extra=NEURAL,
        cost=_frem_cost,
    ),
)

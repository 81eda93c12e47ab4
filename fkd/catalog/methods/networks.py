"""What the methods that train a neural network have in common."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.cost import Cost
from fkd.core.predictors import TAKEN_BATCHES, Perceptron
from fkd.core.training import Training
from fkd.rivals.optional_packages import NEURAL

if TYPE_CHECKING:  # importing it needs PyTorch, which only a training does
    from fkd.rivals.neural.training import Penalty

# Beyond this many networks a stack leaves the cache, so a larger one gains nothing.
LARGEST_STACK = 8
# What a step costs besides matrix products, in operations of them: a quarter of a millisecond.
_STEP = 1.7e7


@dataclass(frozen=True)
class NetworkParameters:
    """Price of dependence; two hidden widths; batches, epochs, steps of the optimiser Adam."""

    penalty: float = number(0.0, at_least=0)
    first_width: int = number(100, at_least=1)
    second_width: int = number(80, at_least=1)
    epochs: int = number(500, at_least=1)
    batch_rows: int = number(200, at_least=2)
    learning_rate: float = number(0.001, above=0)
    weight_decay: float = number(0.01, at_least=0)


P = TypeVar("P", bound=NetworkParameters)


def stack_key(p: NetworkParameters) -> Hashable:
    """Return the key of a stack: networks that differ by their price alone are trained at once."""
    return (_method_of(p), replace(p, penalty=0.0))


def _method_of(p: NetworkParameters) -> str:
    """Return the name of the method that declares these parameters: that of its file."""
    return type(p).__module__.rpartition(".")[2]


def network_cost(settings: Sequence[NetworkParameters], n: int, d: int) -> Cost:
    """Return the cost of training on n rows of d inputs: six operations per weight, row, epoch."""
    weights = [(d + p.second_width) * p.first_width for p in settings]
    rows = [float(n * p.epochs) for p in settings]
    steps = [r / p.batch_rows for r, p in zip(rows, settings, strict=True)]
    return Cost(
        flops=sum(6 * w * r for w, r in zip(weights, rows, strict=True)) + _STEP * sum(steps),
        # A few batches, encoded, then in float32; per network its weights with gradient, two
        # moments, a batch.
        bytes=12.0 * max(min(n, TAKEN_BATCHES * p.batch_rows) for p in settings) * d
        + 4.0 * 8 * sum(weights)
        + 1e8,
    )


def fit_networks(
    training: Training, settings: Sequence[P], penalty: Callable[[P], "Penalty"]
) -> Iterator[Perceptron]:
    """Yield one network per setting, in order; a stack is trained when its first one is asked for.

    Parameters
    ----------
    training
        The rows.
    settings
        Parameters; those with equal `stack_key` share a training.
    penalty
        From the parameters of a stack to what a batch pays for.
    """
    NEURAL.check(_method_of(settings[0]))
    from fkd.rivals.neural.training import Recipe, train

    found: dict[P, Perceptron] = {}
    for p in settings:
        if p not in found:
            same = [o for o in settings if stack_key(o) == stack_key(p) and o not in found]
            stack = list(dict.fromkeys(same))[:LARGEST_STACK]
            recipe = Recipe(
                widths=(p.first_width, p.second_width),
                epochs=p.epochs,
                batch_rows=p.batch_rows,
                learning_rate=p.learning_rate,
                weight_decay=p.weight_decay,
            )
            networks = train(
                training.rows,
                training.y,
                training.S,
                prices=[o.penalty for o in stack],
                penalty=penalty(p),
                recipe=recipe,
                seed=training.seed,
            )
            found.update(zip(stack, networks, strict=True))
        yield found[p]

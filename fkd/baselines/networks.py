"""What the batches of the neural rivals pay for, without importing PyTorch before it is needed."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import check_random_state

from fkd.baselines.base import NEURAL, RivalRegressor, in_range, repeated
from fkd.core.docstrings import fill_docstring
from fkd.core.predictors import Perceptron
from fkd.core.validation import not_negative, positive, whole

if TYPE_CHECKING:
    from fkd.baselines.network_training import Penalty


def hgr_penalty() -> "Penalty":
    """Return chi-squared of the output with S, of Mary et al. (2019)."""
    from fkd.baselines.network_training import chi2

    return lambda _, f, S: chi2(f, S)


def frem_penalty(bandwidth_s: float, bandwidth_z: float) -> "Penalty":
    """Return the integral probability metric of the hidden layer, of Kong et al. (2025)."""
    from fkd.baselines.network_training import eipm

    return lambda Z, _, S: eipm(Z, S, bandwidth_s=bandwidth_s, bandwidth_z=bandwidth_z)


if TYPE_CHECKING:  # importing it needs PyTorch, which only a training does
    from fkd.baselines.network_training import Penalty, Recipe


class NetworkRegressor(RivalRegressor):
    """A network of two hidden layers whose loss has a price on dependence."""

    def __init__(
        self,
        penalty: float = 0.1,
        *,
        first_width: int = 100,
        second_width: int = 80,
        epochs: int = 500,
        batch_rows: int = 200,
        learning_rate: float = 0.001,
        weight_decay: float = 0.01,
        random_state: Any = 0,
    ) -> None:
        self.penalty = penalty
        self.first_width = first_width
        self.second_width = second_width
        self.epochs = epochs
        self.batch_rows = batch_rows
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Return self, trained on these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d), best standardised, with their target (n,).
        sensitive_features
            One or several columns (n,) or (n, l). Required.
        sample_weight
            How often each row is repeated, (n,), whole numbers; None is once, 0 leaves it out.
        """
        rows = X, y, sensitive_features, sample_weight
        (self.expansion_,) = self._trained(rows, [self.penalty])
        return self

    def fit_path(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        penalties: Sequence[float],
    ) -> dict[float, Self]:
        """Return a trained network per price, all trained at once on the same batches.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As `fit` takes them.
        penalties
            Prices of dependence.
        """
        first = copy(self)
        networks = first._trained((X, y, sensitive_features, sample_weight), penalties)
        found = {}
        for penalty, network in zip(penalties, networks, strict=True):
            found[penalty] = copy(first)
            found[penalty].penalty, found[penalty].expansion_ = penalty, network
        return found

    def _trained(
        self, rows: tuple[Any, Any, Any, Any], penalties: Sequence[float]
    ) -> list[Perceptron]:
        """Return one network per price, which predicts in the unit of the target."""
        NEURAL.require(type(self).__name__)
        from fkd.baselines.network_training import train

        recipe, pays = self._recipe(), self._penalty()
        prices = [not_negative("penalty", penalty) for penalty in penalties]
        *parts, w = self._rows(*rows)
        X, y, S = (repeated(part, w) for part in parts)
        low, span = float(y.min(axis=0)), float(np.ptp(y)) or 1.0
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        networks = train(
            X,
            (y - low) / span,
            in_range(S),
            prices=prices,
            penalty=pays,
            recipe=recipe,
            seed=seed,
        )
        return [_rescaled(network, span, low) for network in networks]

    def _recipe(self) -> "Recipe":
        """Return the checked shape and training of the network."""
        from fkd.baselines.network_training import Recipe

        return Recipe(
            widths=(
                whole("first_width", self.first_width, low=1),
                whole("second_width", self.second_width, low=1),
            ),
            epochs=whole("epochs", self.epochs, low=1),
            batch_rows=whole("batch_rows", self.batch_rows, low=2),
            learning_rate=positive("learning_rate", self.learning_rate),
            weight_decay=not_negative("weight_decay", self.weight_decay),
        )

    def _penalty(self) -> "Penalty":
        """Return what a batch pays for."""
        raise NotImplementedError


@fill_docstring
class HgrNetwork(NetworkRegressor):
    """A neural network that pays for an upper bound of HGR (NN-HGR).

    Two hidden layers of SELU units, trained by Adam on the squared error of the target in units of
    its range, plus `penalty` times the chi-squared of each batch's predictions with the sensitive
    columns.

    Parameters
    ----------
    penalty
        Price of dependence, not negative; 0 is a plain network.
    {network_parameters}

    Attributes
    ----------
    expansion_ : Perceptron
        The network as plain arrays, which predict without PyTorch.

    Notes
    -----
    PyTorch, of the extra ``neural``, trains it. The numbers depend on `random_state`, on the order
    of the rows, and in their last digits on the processor.

    References
    ----------
    Mary, Calauzènes & El Karoui (2019), "Fairness-Aware Learning for Continuous Attributes and
    Treatments", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.rivals import HgrNetwork
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = HgrNetwork(penalty=1.0, epochs=5)
    >>> model.fit(X, X[:, 1], sensitive_features=X[:, 0]).predict(X).shape
    (200,)
    """

    def _penalty(self) -> "Penalty":
        return hgr_penalty()


@fill_docstring
class FremNetwork(NetworkRegressor):
    """A neural network whose hidden layer pays for dependence (NN-FREM).

    Two hidden layers of SELU units, trained by Adam on the squared error of the target in units of
    its range, plus `penalty` times an integral probability metric: how differently the last hidden
    layer is distributed near each value of the sensitive columns.

    Parameters
    ----------
    penalty
        Price of dependence, not negative; 0 is a plain network.
    bandwidth_s, bandwidth_z
        Widths of the Gaussian kernels: on the sensitive columns in units of their range, on the
        hidden layer. Above 0.
    {network_parameters}

    Attributes
    ----------
    expansion_ : Perceptron
        The network as plain arrays, which predict without PyTorch.

    Notes
    -----
    PyTorch, of the extra ``neural``, trains it. The numbers depend on `random_state`, on the order
    of the rows, and in their last digits on the processor.

    References
    ----------
    Kong et al. (2025), "Fair Representation Learning for Continuous Sensitive Attributes using
    Expectation of Integral Probability Metrics".

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.rivals import FremNetwork
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = FremNetwork(penalty=1.0, epochs=5)
    >>> model.fit(X, X[:, 1], sensitive_features=X[:, 0]).predict(X).shape
    (200,)
    """

    def __init__(
        self,
        penalty: float = 1.0,
        *,
        bandwidth_s: float = 0.05,
        bandwidth_z: float = 1.0,
        first_width: int = 100,
        second_width: int = 80,
        epochs: int = 500,
        batch_rows: int = 200,
        learning_rate: float = 0.001,
        weight_decay: float = 0.01,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            penalty,
            first_width=first_width,
            second_width=second_width,
            epochs=epochs,
            batch_rows=batch_rows,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            random_state=random_state,
        )
        self.bandwidth_s = bandwidth_s
        self.bandwidth_z = bandwidth_z

    def _penalty(self) -> "Penalty":
        return frem_penalty(
            positive("bandwidth_s", self.bandwidth_s), positive("bandwidth_z", self.bandwidth_z)
        )


def _rescaled(network: Perceptron, scale: float, level: float) -> Perceptron:
    """Return scale·f + level."""
    *hidden, last = network.weights
    *inner, bias = network.biases
    return replace(network, weights=(*hidden, scale * last), biases=(*inner, scale * bias + level))

"""Neural networks with a penalty on dependence, NN-HGR and NN-FREM.

PyTorch is imported when a network is trained (`fkd.baselines.network_training`), not before.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import check_random_state

from fkd.baselines.base import (
    NEURAL,
    BaselineRegressor,
    repeat_rows,
    scale_to_range,
    validate_training,
)
from fkd.core.docstrings import fill_docstring
from fkd.core.predictors import Perceptron
from fkd.core.validation import not_negative, positive, whole

if TYPE_CHECKING:  # needs PyTorch
    from fkd.baselines.network_training import Dependence


@dataclass(eq=False, repr=False)
class NetworkRegressor(BaselineRegressor, ABC):
    """A network of two hidden layers whose loss contains a penalty on dependence.

    Parameters
    ----------
    first_width, second_width
        Units of the two hidden layers.
    epochs, batch_rows
        Passes over the rows, rows per step; density estimates need some hundred rows.
    learning_rate, weight_decay
        Parameters of Adam.
    random_state
        Seed of the initial weights and of the order of the batches.
    """

    penalty: float = 0.1
    _: KW_ONLY
    first_width: int = 100
    second_width: int = 80
    epochs: int = 500
    batch_rows: int = 200
    learning_rate: float = 0.001
    weight_decay: float = 0.01
    random_state: Any = 0

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Train on these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d), preferably standardised, and their target (n,).
        sensitive_features
            One or several columns (n,) or (n, l). Required.
        sample_weight
            How often each row is repeated, (n,), whole numbers; None is 1 for each. A row of
            weight 0 is left out.
        """
        rows = X, y, sensitive_features, sample_weight
        (self.expansion_,) = self._train(*rows, penalties=[self.penalty])
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
        """Train one network per penalty at once on the same batches, and return them by penalty.

        Each network equals that of `fit` with this penalty. The estimator itself does not change.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.
        penalties
            Weights of dependence in the loss.
        """
        first, found = copy(self), {}
        networks = first._train(X, y, sensitive_features, sample_weight, penalties=penalties)
        for penalty, network in zip(penalties, networks, strict=True):
            found[penalty] = copy(first)
            found[penalty].penalty, found[penalty].expansion_ = penalty, network
        return found

    def _train(self, *rows: Any, penalties: Sequence[float]) -> list[Perceptron]:
        """Return one network per penalty, in the unit of the target."""
        NEURAL.check(type(self).__name__)
        from fkd.baselines.network_training import Recipe, train

        first, second = (whole(w, getattr(self, w), low=1) for w in ("first_width", "second_width"))
        recipe = Recipe(
            widths=(first, second),
            epochs=whole("epochs", self.epochs, low=1),
            batch_rows=whole("batch_rows", self.batch_rows, low=2),
            learning_rate=positive("learning_rate", self.learning_rate),
            weight_decay=not_negative("weight_decay", self.weight_decay),
        )
        dependence = self._dependence()
        checked = [not_negative("penalty", penalty) for penalty in penalties]
        training = validate_training(self, *rows)
        parts = (training.X, training.y, training.S)
        X, y, S = (repeat_rows(part, training.weights.fit) for part in parts)
        low, span = float(y.min(axis=0)), float(np.ptp(y)) or 1.0
        networks = train(
            X,
            (y - low) / span,
            scale_to_range(S),
            penalties=checked,
            dependence=dependence,
            recipe=recipe,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )
        return [_rescaled(network, span, low) for network in networks]

    @abstractmethod
    def _dependence(self) -> "Dependence":
        """Return the dependence of a batch, which the penalty multiplies."""


@fill_docstring
@dataclass(eq=False, repr=False)
class HgrNetwork(NetworkRegressor):
    """A neural network with a penalty on an upper bound of HGR (NN-HGR).

    Two hidden layers of SELU units, trained by Adam. The loss is the squared error of the target,
    scaled to its range, plus `penalty` times the chi-squared of each batch's predictions with the
    sensitive columns.

    Parameters
    ----------
    penalty
        Weight of dependence in the loss, not negative; 0 is a plain network.
    {first_width, second_width}
    {epochs, batch_rows}
    {learning_rate, weight_decay}
    {random_state}

    Attributes
    ----------
    expansion_ : Perceptron
        The network as plain arrays, which predict without PyTorch.

    Notes
    -----
    Training needs PyTorch, the extra ``neural``. The result depends on `random_state`, on the order
    of the rows, and in the last digits on the processor.

    References
    ----------
    Mary, Calauzènes & El Karoui (2019), "Fairness-Aware Learning for Continuous Attributes and
    Treatments", ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.baselines import HgrNetwork
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = HgrNetwork(penalty=1.0, epochs=5)
    >>> model.fit(X, X[:, 1], sensitive_features=X[:, 0]).predict(X).shape
    (200,)
    """

    def _dependence(self) -> "Dependence":
        return hgr_dependence()


@fill_docstring
@dataclass(eq=False, repr=False)
class FremNetwork(NetworkRegressor):
    """A neural network with a penalty on dependence of its hidden layer (NN-FREM).

    Two hidden layers of SELU units, trained by Adam. The loss is the squared error of the target,
    scaled to its range, plus `penalty` times an integral probability metric: the difference between
    the distribution of the last hidden layer near a value of the sensitive columns and that of all
    rows, averaged over the values.

    Parameters
    ----------
    penalty
        Weight of dependence in the loss, not negative; 0 is a plain network.
    bandwidth_s, bandwidth_z
        Widths of the Gaussian kernels, above 0: on the sensitive columns, scaled to their range,
        and on the hidden layer.
    {first_width, second_width}
    {epochs, batch_rows}
    {learning_rate, weight_decay}
    {random_state}

    Attributes
    ----------
    expansion_ : Perceptron
        The network as plain arrays, which predict without PyTorch.

    Notes
    -----
    Training needs PyTorch, the extra ``neural``. The result depends on `random_state`, on the order
    of the rows, and in the last digits on the processor.

    References
    ----------
    Kong et al. (2025), "Fair Representation Learning for Continuous Sensitive Attributes using
    Expectation of Integral Probability Metrics".

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.baselines import FremNetwork
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = FremNetwork(penalty=1.0, epochs=5)
    >>> model.fit(X, X[:, 1], sensitive_features=X[:, 0]).predict(X).shape
    (200,)
    """

    penalty: float = 1.0
    _: KW_ONLY
    bandwidth_s: float = 0.05
    bandwidth_z: float = 1.0

    def _dependence(self) -> "Dependence":
        bandwidth_s = positive("bandwidth_s", self.bandwidth_s)
        return frem_dependence(bandwidth_s, positive("bandwidth_z", self.bandwidth_z))


def hgr_dependence() -> "Dependence":
    """Return chi-squared of the output with S (Mary et al. 2019)."""
    from fkd.baselines.network_training import chi2

    return lambda _, f, S: chi2(f, S)


def frem_dependence(bandwidth_s: float, bandwidth_z: float) -> "Dependence":
    """Return the integral probability metric of the hidden layer given S (Kong et al. 2025)."""
    from fkd.baselines.network_training import eipm

    return lambda Z, _, S: eipm(Z, S, bandwidth_s=bandwidth_s, bandwidth_z=bandwidth_z)


def _rescaled(network: Perceptron, scale: float, level: float) -> Perceptron:
    """Return scale·f + level."""
    *hidden, last = network.weights
    *inner, bias = network.biases
    return replace(network, weights=(*hidden, scale * last), biases=(*inner, scale * bias + level))

"""Kernel ridge regression on inputs after closed-form linear erasure (KRR-LEACE)."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.corrected_ridge import corrected_ridges
from fkd.catalog.methods.method_declaration import Method
from fkd.core.arrays import Array
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import CorrectedExpansion
from fkd.core.training import Training
from fkd.rivals.linear_erasure import leace
from fkd.rivals.optional_packages import LEACE


@dataclass(frozen=True)
class Parameters:
    """RBF width, ridge of the predictor."""

    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    fit_intercept: bool = False
    approximation: Approximation = field(default_factory=Approximation)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[CorrectedExpansion]:
    """Yield the predictors, all on the same erased inputs."""
    LEACE.check("leace")
    return corrected_ridges(training, leace(training.X, training.S), settings)


def _represent(training: Training, _: Parameters, X: Array) -> Array:
    """Return the erased inputs."""
    return leace(training.X, training.S)(X)


def _unremoved(_: Training, __: Parameters, X: Array) -> Array:
    """Return the inputs as they are."""
    return X


def _shared(_: Parameters) -> Hashable:
    """Return one key: the erasure has no parameter."""
    return "leace"


METHOD = Method(
    name="leace",
    title="KRR-LEACE",
    parameters=Parameters,
    fit=_fit,
    shared=_shared,
    represent=_represent,
    unremoved=_unremoved,
    extra=LEACE,
)

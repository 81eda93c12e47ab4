"""The median of the training targets for everyone: the constant of least absolute error."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from fkd.catalog.methods.method_declaration import Method
from fkd.core.predictors import ConstantPrediction
from fkd.core.training import Training
from fkd.core.weights import weighted_median


@dataclass(frozen=True)
class Parameters:
    """There is nothing to set."""


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[ConstantPrediction]:
    """Yield the median once per setting."""
    (median,) = weighted_median(training.y[:, None], training.weights.fit)
    for _ in settings:
        yield ConstantPrediction(float(median))


def _shared(parameters: Parameters) -> Hashable:
    """Dummies cost nothing, so they travel together."""
    return "dummy"


METHOD = Method(
    name="median_dummy",
    title="Median dummy",
    parameters=Parameters,
    fit=_fit,
    shared=_shared,
    weighs="fit",
)

"""The mean of the training targets for everyone (MAE's yardstick)."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from fkd.catalog.methods.method_declaration import Method
from fkd.core.predictors import ConstantPrediction
from fkd.core.training import Training
from fkd.core.weights import weighted_mean


@dataclass(frozen=True)
class Parameters:
    """There is nothing to set."""


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[ConstantPrediction]:
    """Yield the mean once per setting."""
    for _ in settings:
        yield ConstantPrediction(float(weighted_mean(training.y, training.weights.fit)))


def _shared(parameters: Parameters) -> Hashable:
    """Dummies cost nothing, so they travel together."""
    return "dummy"


METHOD = Method(
    name="dummy", title="Dummy", parameters=Parameters, fit=_fit, shared=_shared, weighs="fit"
)

"""The median of the training targets for everyone: the constant of least absolute error."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fkd.catalog.methods.method_declaration import Method
from fkd.catalog.methods.training_fold import Training
from fkd.core.predictors import ConstantPrediction


@dataclass(frozen=True)
class Parameters:
    """There is nothing to set."""


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[ConstantPrediction]:
    """Yield the median once per setting."""
    for _ in settings:
        yield ConstantPrediction(float(np.median(training.y, axis=0)))


def _shared(parameters: Parameters) -> Hashable:
    """Dummies cost nothing, so they travel together."""
    return "dummy"


METHOD = Method(
    name="median_dummy", title="Median dummy", parameters=Parameters, fit=_fit, shared=_shared
)

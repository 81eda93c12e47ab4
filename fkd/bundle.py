"""A fitted predictor with its encoder: all that is needed to predict from raw columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fkd.encoding import Encoder
from fkd.expansion import PREDICTORS, Predictor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bundle:
    """Raw columns in, the target's own unit out.

    Attributes
    ----------
    encoder
        One-hot levels and scaler of the inputs, learnt on the predictor's training rows.
    predictor
        The model on encoded rows, in scaled units.
    target_range
        Scaled prediction 0, scaled prediction 1, in the target's own unit.
    """

    encoder: Encoder
    predictor: Predictor
    target_range: tuple[float, float]

    def predict(self, frame: pd.DataFrame) -> Array:
        """Return low + (high - low) f(x) for every row of raw columns."""
        low, high = self.target_range
        return low + (high - low) * self.predictor.predict(self.encoder.transform_frame(frame))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the bundle as arrays of numbers or text, which npz keeps without pickle."""
        kind = next(k for k, c in PREDICTORS.items() if type(self.predictor) is c)
        return {
            "kind": np.array(kind),
            "target_range": np.array(self.target_range),
            **{f"encoder.{k}": v for k, v in self.encoder.arrays().items()},
            **{f"predictor.{k}": v for k, v in self.predictor.arrays().items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the bundle whose `arrays` these are."""
        low, high = arrays["target_range"].tolist()
        return cls(
            encoder=Encoder.from_arrays(_part(arrays, "encoder.")),
            predictor=PREDICTORS[str(arrays["kind"])].from_arrays(_part(arrays, "predictor.")),
            target_range=(low, high),
        )


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of one part, without its prefix."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

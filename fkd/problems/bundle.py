"""A fitted predictor with its encoder: all that is needed to predict from raw columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.core.predictors import PREDICTORS, Predictor
from fkd.problems.encoder import Encoder

if TYPE_CHECKING:
    import pandas as pd


# Arrays in which NaN has a meaning: a number that may not be missing, a column without values.
_MAY_BE_NAN = ("encoder.fill", "ranges")


class NonFinitePredictionError(ValueError):
    """A model predicts NaN or infinity for rows with complete inputs."""

    def __init__(self, rows: IntArray) -> None:
        self.rows = rows  # positions in the frame
        shown = ", ".join(map(str, rows[:5].tolist()))
        super().__init__(
            f"predictions must be finite, got NaN or infinity in {len(rows)} rows (positions "
            f"{shown}{', ...' if len(rows) > 5 else ''})"
        )


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
    ranges
        Smallest and largest value of each numeric input among the training rows, (p, 2). Scoring
        compares new rows with them.
    sensitive, sensitive_range
        Sensitive columns that the predictor needs behind its inputs, with the ranges (l, 2) that
        scale them. Most methods need none.
    """

    encoder: Encoder
    predictor: Predictor
    target_range: tuple[float, float]
    ranges: Array
    sensitive: tuple[str, ...] = ()
    sensitive_range: Array = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def input_columns(self) -> tuple[str, ...]:
        """The raw columns that a row to predict must have."""
        return (*self.encoder.input_columns, *self.sensitive)

    def predict(self, frame: "pd.DataFrame") -> Array:
        """Return low + (high - low) f(x) for every row of raw columns.

        A row without a sensitive value that the predictor needs has the prediction NaN.
        """
        if missing := [name for name in self.sensitive if name not in frame.columns]:
            raise ValueError(f"frame must have the column {missing[0]}, which this model needs")
        low, high = self.target_range
        X = self.encoder.transform_frame(frame)
        if self.sensitive:
            least, most = self.sensitive_range.T
            S = (frame[list(self.sensitive)].to_numpy(dtype=np.float64) - least) / (most - least)
            X = np.hstack([X, S])
        f = low + (high - low) * self.predictor.predict(X)
        if not np.isfinite(f).all():
            rows = np.flatnonzero(~np.isfinite(f) & ~np.isnan(X).any(axis=1))
            if len(rows):
                raise NonFinitePredictionError(rows)
        return f

    def arrays(self) -> dict[str, AnyArray]:
        """Return the bundle as arrays of numbers or text, which npz keeps without pickle."""
        kind = next(k for k, c in PREDICTORS.items() if type(self.predictor) is c)
        return {
            "kind": np.array(kind),
            "target_range": np.array(self.target_range),
            "ranges": self.ranges,
            "sensitive": np.array(self.sensitive, dtype=np.str_),
            "sensitive_range": self.sensitive_range,
            **{f"encoder.{k}": v for k, v in self.encoder.arrays().items()},
            **{f"predictor.{k}": v for k, v in self.predictor.arrays().items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the bundle whose `arrays` these are; all numbers must be finite."""
        for name, array in arrays.items():
            bad = np.isinf if name in _MAY_BE_NAN else _is_not_finite
            if array.dtype.kind == "f" and bad(array).any():
                raise ValueError(f"array {name} of a bundle must be finite, got NaN or infinity")
        low, high = arrays["target_range"].tolist()
        return cls(
            encoder=Encoder.from_arrays(_part(arrays, "encoder.")),
            predictor=PREDICTORS[str(arrays["kind"])].from_arrays(_part(arrays, "predictor.")),
            target_range=(low, high),
            ranges=arrays["ranges"],
            sensitive=tuple(str(name) for name in arrays["sensitive"]),
            sensitive_range=arrays["sensitive_range"],
        )


def _is_not_finite(array: AnyArray) -> AnyArray:
    return ~np.isfinite(array)


def _part(arrays: Mapping[str, AnyArray], prefix: str) -> dict[str, AnyArray]:
    """Return the arrays of one part, without its prefix."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

"""A fitted predictor with its encoder, which predicts from raw columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.core.predictors import PREDICTORS, Predictor
from fkd.problems.encoder import Encoder

if TYPE_CHECKING:
    import pandas as pd

# Arrays in which NaN has a meaning: a required number, a column without values.
_MAY_BE_NAN = ("encoder.fill", "ranges")


class NonFinitePredictionError(ValueError):
    """A model predicts NaN or infinity for rows with complete inputs.

    Parameters
    ----------
    rows
        Positions of these rows in the frame.
    """

    def __init__(self, rows: IntArray) -> None:
        self.rows = rows
        shown = ", ".join(map(str, rows[:5].tolist()))
        super().__init__(
            f"predictions must be finite, got NaN or infinity in {len(rows)} rows (positions "
            f"{shown}{', ...' if len(rows) > 5 else ''})"
        )


@dataclass(frozen=True)
class Bundle:
    """A model that predicts the target in its own unit from raw columns.

    Parameters
    ----------
    encoder
        One-hot levels and scales of the inputs, learned from the training rows.
    predictor
        The model of encoded rows, in scaled units.
    target_range
        The target values that are 0 and 1 in scaled units.
    ranges
        Smallest and largest value of each numeric input in the training rows, (p, 2). Scoring
        compares new rows with them.
    sensitive, sensitive_range
        Sensitive columns that the predictor takes after its inputs, with the ranges (l, 2) that
        scale them. Most methods take none.
    """

    encoder: Encoder
    predictor: Predictor
    target_range: tuple[float, float]
    ranges: Array
    sensitive: tuple[str, ...] = ()
    sensitive_range: Array = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Raw columns that rows to predict must have."""
        return (*self.encoder.input_columns, *self.sensitive)

    def predict(self, frame: "pd.DataFrame") -> Array:
        """Return the predictions low + (high - low) f(x) of raw rows.

        The prediction is NaN if the predictor takes a sensitive column and its value is missing.
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
        """Return the bundle as arrays of numbers and text, for npz files without pickle."""
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
        """Return the bundle that `arrays` stored. All numbers must be finite."""
        for name, array in arrays.items():
            if array.dtype.kind != "f":
                continue
            bad = np.isinf(array) if name in _MAY_BE_NAN else ~np.isfinite(array)
            if bad.any():
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


def _part(arrays: Mapping[str, AnyArray], prefix: str) -> dict[str, AnyArray]:
    """Return the arrays with a prefix, under their names without it."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

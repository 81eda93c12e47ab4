"""Kernel ridge regression of what is left of y after a linear fit on the sensitive columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.kernel_settings import kernel_key
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.plain_ridge import ridge_on
from fkd.catalog.methods.training_fold import Approximation, Training
from fkd.core.arrays import Array
from fkd.core.predictors import Predictor


@dataclass(frozen=True)
class Parameters:
    """Share of the linear fit to take out of y; RBF width, ridge of the predictor."""

    share: float = number(1.0, at_least=0, at_most=1)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    fit_intercept: bool = False
    approximation: Approximation = field(default_factory=Approximation)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield regressions on y - share·(S - mean) w, from the moments that all methods share."""
    w = _slopes(training.S, training.y)
    for p in settings:
        feature_map, moments = training.reduced(p.gamma, p.approximation)
        # Gᵀ(S - mean) is known, so a new target needs no second pass; its sum is that of y.
        c = moments.c - moments.sensitive(center=True) @ (p.share * w)
        yield ridge_on(feature_map, replace(moments, c=c), p)


def _slopes(S: Array, y: Array) -> Array:
    """Return the weights w of the least-squares fit of y on S with a constant."""
    w: Array = np.linalg.lstsq(S - S.mean(axis=0), y - y.mean(axis=0), rcond=None)[0]
    return w


METHOD = Method(
    name="residual_y",
    title="KRR-RY",
    parameters=Parameters,
    fit=_fit,
    strength="share",
    shared=kernel_key,
    published={"acs_income": Published(grid={"share": (0.0, 0.25, 0.5, 0.75, 1.0)})},
)

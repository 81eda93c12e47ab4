"""Constant predictions, the fair ridge regression model, and regression on a residual target."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fkd.baselines.frrm import SensitiveRidge
from fkd.baselines.residual import fit_residual_ridge, sensitive_slopes
from fkd.core.feature_maps import FeatureMap, IdentityMap
from fkd.core.moments import Moments, training_moments
from fkd.core.predictors import ConstantPrediction, Predictor, SensitiveExpansion
from fkd.core.training import Training
from fkd.core.weights import weighted_mean, weighted_median
from fkd.methods.declaration import Method, Published, number
from fkd.methods.kernel_methods import KernelParameters, RidgeParameters, kernel_key, ridge_setting

# At a penalty of the variance of s, 0.06 on Crimes, the weights of s are halved. At the last one
# less than a ten-thousandth of the prediction's variance depends on s.
_PENALTIES = (0.0, *(0.005 * 2.0**k for k in range(12)))


@dataclass(frozen=True)
class Nothing:
    """No parameters."""


@dataclass(frozen=True)
class FRRM:
    """Penalty of the weights of s per training row, bound on their share of variance, ridge.

    If both are given, the larger of the penalty and the one that the bound requires holds. An
    intercept is always fitted.
    """

    penalty: float = number(0.0, at_least=0)
    unfairness: float = number(1.0, at_least=0, at_most=1)
    alpha: float = number(0.25, above=0)


@dataclass(frozen=True)
class KernelFRRM(FRRM, KernelParameters):
    """The same in the features of a kernel."""


@dataclass(frozen=True)
class Residual(RidgeParameters):
    """Share of the linear fit on s that is subtracted from y, kernel ridge regression."""

    share: float = number(1.0, at_least=0, at_most=1)


P = TypeVar("P", bound=FRRM)


def _fit_mean(training: Training, settings: Sequence[Nothing]) -> Iterator[ConstantPrediction]:
    """Yield the mean of the training targets."""
    for _ in settings:
        yield ConstantPrediction(float(weighted_mean(training.y, training.weights.fit)))


def _fit_median(training: Training, settings: Sequence[Nothing]) -> Iterator[ConstantPrediction]:
    """Yield the median of the training targets, the constant of least absolute error."""
    (median,) = weighted_median(training.y[:, None], training.weights.fit)
    for _ in settings:
        yield ConstantPrediction(float(median))


def _fit_frrm(training: Training, settings: Sequence[FRRM]) -> Iterator[SensitiveExpansion]:
    """Yield the predictors, all penalties of one ridge from one factorisation."""
    inputs = IdentityMap(training.X.shape[1])
    moments = training_moments(inputs, training.X, training.S, training.y)
    return _frrm_expansions(training, settings, lambda _: (inputs, moments))


def _fit_kernel_frrm(
    training: Training, settings: Sequence[KernelFRRM]
) -> Iterator[SensitiveExpansion]:
    """Yield the predictors, all penalties of one kernel and ridge from one factorisation."""
    return _frrm_expansions(
        training, settings, lambda p: (training.feature_map(p.kernel), training.moments(p.kernel))
    )


def _frrm_expansions(
    training: Training, settings: Sequence[P], features: Callable[[P], tuple[FeatureMap, Moments]]
) -> Iterator[SensitiveExpansion]:
    solved: dict[Hashable, SensitiveRidge] = {}
    for p in settings:
        feature_map, moments = features(p)
        key = (id(moments), p.alpha)
        if key not in solved:
            rows = training.S, training.y
            solved[key] = SensitiveRidge.from_moments(moments, *rows, alpha=p.alpha)
        yield solved[key].expansion(feature_map, penalty=p.penalty, unfairness=p.unfairness)


def _fit_residual(training: Training, settings: Sequence[Residual]) -> Iterator[Predictor]:
    """Yield regressions of y - share·(S - mean) w, from the moments that all methods share."""
    slopes = sensitive_slopes(training.S, training.y, training.weights.fit)
    for p in settings:
        yield fit_residual_ridge(training, ridge_setting(training, p, None, 0), p.share * slopes)


_FRRM_PUBLISHED = {"acs_income": Published(grid={"penalty": _PENALTIES})}

METHODS = (
    Method(
        name="dummy",
        title="Dummy",
        parameters=Nothing,
        fit=_fit_mean,
        shared=lambda _: "dummy",
        weighs="fit",
    ),
    Method(
        name="median_dummy",
        title="Median dummy",
        parameters=Nothing,
        fit=_fit_median,
        shared=lambda _: "dummy",
        weighs="fit",
    ),
    Method(
        name="frrm",
        title="FRRM",
        parameters=FRRM,
        fit=_fit_frrm,
        strength="penalty",
        bound="unfairness",
        published=_FRRM_PUBLISHED,
        shared=lambda _: "frrm",  # all settings use the same moments
        needs_sensitive=True,
    ),
    Method(
        name="krr_frrm",
        title="KRR-FRRM",
        parameters=KernelFRRM,
        fit=_fit_kernel_frrm,
        strength="penalty",
        bound="unfairness",
        published=_FRRM_PUBLISHED,
        shared=kernel_key,
        needs_sensitive=True,
    ),
    Method(
        name="residual_y",
        title="KRR-RY",
        parameters=Residual,
        fit=_fit_residual,
        strength="share",
        shared=kernel_key,
        published={"acs_income": Published(grid={"share": (0.0, 0.25, 0.5, 0.75, 1.0)})},
        weighs="both",
    ),
)

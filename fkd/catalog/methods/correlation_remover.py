"""Kernel ridge regression after fairlearn's CorrelationRemover, which sees s when predicting."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.corrected_ridge import corrected_ridges
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import CorrectedExpansion, LinearCorrection
from fkd.core.training import Training
from fkd.rivals.optional_packages import FAIRLEARN


@dataclass(frozen=True)
class Parameters:
    """Share of the linear relation to remove; RBF width, ridge of the predictor."""

    share: float = number(1.0, at_least=0, at_most=1)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    fit_intercept: bool = False
    approximation: Approximation = field(default_factory=Approximation)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[CorrectedExpansion]:
    """Yield the predictors, settings of one share from the same corrected inputs."""
    FAIRLEARN.check("correlation_remover")
    found: dict[Parameters, CorrectedExpansion] = {}
    for share in dict.fromkeys(p.share for p in settings):
        group = [p for p in settings if p.share == share]
        fitted = corrected_ridges(training, _correction(training, share), group)
        found.update(zip(group, fitted, strict=True))
    yield from (found[p] for p in settings)


def _correction(training: Training, share: float) -> LinearCorrection:
    """Return X - share·(S - mean) β with fairlearn's least-squares β, on rows (X, S)."""
    from fairlearn.preprocessing import CorrelationRemover

    d, l = training.X.shape[1], training.S.shape[1]
    remover = CorrelationRemover(sensitive_feature_ids=list(range(d, d + l)), alpha=share)
    remover.fit(np.hstack([training.X, training.S]))
    return LinearCorrection(
        mean=np.concatenate([np.zeros(d), remover.sensitive_mean_]),
        R=np.vstack([np.zeros((d, l)), np.eye(l)]),
        L=share * remover.beta_.T,
    )


def _shared(p: Parameters) -> Hashable:
    """Return the key of the corrected inputs' kernel."""
    return ("correlation_remover", p.share, p.gamma, p.approximation)


METHOD = Method(
    name="correlation_remover",
    title="KRR-CR",
    parameters=Parameters,
    fit=_fit,
    strength="share",
    shared=_shared,
    published={"acs_income": Published(grid={"share": (0.0, 0.25, 0.5, 0.75, 1.0)})},
    needs_sensitive=True,
    extra=FAIRLEARN,
)

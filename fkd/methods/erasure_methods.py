"""Regression after a linear removal: LEACE, null-space projection, correlation remover.

`leace` and `correlation_remover` change the inputs of a kernel ridge regression, `leace_nystroem`
and `svr_leace_nystroem` erase from the features of a kernel, `svr_inlp` projects the inputs.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby

import numpy as np
import sklearn.svm

from fkd.baselines.base import FAIRLEARN, LEACE
from fkd.baselines.erasure import fit_projected_svr, inlp_path, leace, leace_from_moments
from fkd.core.arrays import Array, RowBlock, Source
from fkd.core.feature_maps import Approximation
from fkd.core.linalg import ShiftedInverse, project
from fkd.core.predictors import CorrectedExpansion, LinearCorrection, Predictor, ProjectedExpansion
from fkd.core.removal import RemovalPath
from fkd.core.svr import LIBSVM_STEPS, LIBSVM_TOL, batched_regressions
from fkd.core.training import PathSettings, Training
from fkd.core.validation import positive
from fkd.methods.declaration import Method, Published, number, option
from fkd.methods.kernel_methods import (
    RIDGE_RULES,
    SVR,
    SVR_PUBLISHED,
    KernelParameters,
    RidgeParameters,
    effective_ridge,
    kernel_key,
    plain_ridge,
)


def _few_landmarks() -> Approximation:
    """Return the default map. Erasure generalises with far fewer features than rows only."""
    return Approximation(kind="nystroem", landmarks=500)


@dataclass(frozen=True)
class CorrelationRemover(RidgeParameters):
    """Share of the linear relation that is removed, ridge regression on the rest."""

    share: float = number(1.0, at_least=0, at_most=1)


@dataclass(frozen=True)
class ErasedRidge(RidgeParameters):
    """Ridge regression on erased features."""

    approximation: Approximation = field(default_factory=_few_landmarks)
    ridges: str = option("fixed", choices=RIDGE_RULES)


@dataclass(frozen=True)
class ErasedSVR(SVR):
    """Support vector regression on erased features."""

    approximation: Approximation = field(default_factory=_few_landmarks)


@dataclass(frozen=True)
class ProjectedSVR:
    """Iterations of the projection with their ridge, and a support vector regression."""

    iterations: int = number(0, at_least=0)
    gamma: float = number(0.05, above=0)
    C: float = number(0.5, above=0)
    epsilon: float = number(0.005, at_least=0)
    ridge: float = number(0.05, above=0)
    center_sensitive: bool = False

    @property
    def removal(self) -> PathSettings:
        """The removal from the inputs."""
        return PathSettings(self.ridge, self.center_sensitive)


def _corrected_ridges(
    training: Training, correction: LinearCorrection, settings: Sequence[RidgeParameters]
) -> Iterator[CorrectedExpansion]:
    """Yield one ridge regression per setting on the corrected inputs.

    A correction of more columns than there are inputs also takes the sensitive columns, which
    follow the inputs.
    """
    wide = len(correction.mean) > training.X.shape[1]
    rows = np.hstack([training.X, training.S]) if wide else training.X
    corrected = Training(correction(rows), training.y, training.S, training.seed)
    for p in settings:
        yield CorrectedExpansion(plain_ridge(corrected, p), correction)


def _fit_correlation_remover(
    training: Training, settings: Sequence[CorrelationRemover]
) -> Iterator[CorrectedExpansion]:
    """Yield the predictors, settings of one share from the same corrected inputs."""
    FAIRLEARN.check("correlation_remover")
    found: dict[CorrelationRemover, CorrectedExpansion] = {}
    for share in dict.fromkeys(p.share for p in settings):
        group = [p for p in settings if p.share == share]
        fitted = _corrected_ridges(training, _correlation(training, share), group)
        found.update(zip(group, fitted, strict=True))
    yield from (found[p] for p in settings)


def _correlation(training: Training, share: float) -> LinearCorrection:
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


def _correlation_key(p: CorrelationRemover) -> Hashable:
    """Return the key of the kernel of the corrected inputs."""
    return ("correlation_remover", p.share, p.gamma, p.approximation)


def _fit_leace(
    training: Training, settings: Sequence[RidgeParameters]
) -> Iterator[CorrectedExpansion]:
    """Yield the predictors, all on the same erased inputs."""
    LEACE.check("leace")
    return _corrected_ridges(training, leace(training.X, training.S), settings)


def _erased_inputs(training: Training, _: RidgeParameters, X: Array) -> Array:
    """Return rows X after the erasure."""
    return leace(training.X, training.S)(X)


def _inputs(_: Training, __: RidgeParameters, X: Array) -> Array:
    """Return rows X as they are."""
    return X


def _erasure(training: Training, p: KernelParameters) -> LinearCorrection:
    """Return the erasure of the sensitive columns from the features of a map."""
    return leace_from_moments(training.moments(p.kernel), training.S.std(axis=0))


def _erased_features(training: Training, p: KernelParameters, X: Array) -> Array:
    """Return the features of rows X after the erasure."""
    return _erasure(training, p)(_plain_features(training, p, X))


def _plain_features(training: Training, p: KernelParameters, X: Array) -> Array:
    """Return the features of rows X before the erasure."""
    return training.feature_map(p.kernel).transform(X)


def _fit_erased_ridge(training: Training, settings: Sequence[ErasedRidge]) -> Iterator[Predictor]:
    """Yield the predictors, those on one map from one erasure."""
    LEACE.check("leace_nystroem")
    found: dict[ErasedRidge, Predictor] = {}
    for kernel in dict.fromkeys(p.kernel for p in settings):
        group = [p for p in settings if p.kernel == kernel]
        correction = _erasure(training, group[0])
        erased = training.moments(kernel).corrected(correction)
        for p in group:
            C, c = erased.normal_equations(fit_intercept=p.fit_intercept)
            alpha = positive("alpha", effective_ridge(p.alpha, p, erased.n))
            beta = ShiftedInverse.from_matrix(C, alpha, name="alpha") @ c
            intercept = erased.intercept(beta) if p.fit_intercept else 0.0
            weights, shift = correction.pulled_back(beta)
            found[p] = training.feature_map(kernel).expansion(weights, intercept + shift)
    yield from (found[p] for p in settings)


def _fit_erased_svr(training: Training, settings: Sequence[ErasedSVR]) -> Iterator[Predictor]:
    """Yield the predictors, neighbours on one map from one erasure."""
    LEACE.check("svr_leace_nystroem")
    for _, members in groupby(settings, key=lambda p: (kernel_key(p), p.solver)):
        group = list(members)
        feature_map = training.feature_map(group[0].kernel)
        correction = _erasure(training, group[0])
        solve = _batched if group[0].solver == "batched" else _libsvm
        for beta, constant in solve(training, group, correction):
            weights, shift = correction.pulled_back(beta)
            yield feature_map.expansion(weights, constant + shift)


def _batched(
    training: Training, group: Sequence[ErasedSVR], correction: LinearCorrection
) -> Iterator[tuple[Array, float]]:
    """Yield weights of erased features and a constant, from passes over the rows."""
    kernel = group[0].kernel
    moments = training.moments(kernel, "once")
    source = _erased(training.features(kernel), correction)
    nothing = RemovalPath.nothing(len(moments.g))
    wanted = [(0, p.effective_C(training), p.epsilon) for p in group]
    for one in batched_regressions(source, moments.corrected(correction), nothing, wanted):
        yield one.beta, one.intercept


def _erased(source: Source, correction: LinearCorrection) -> Source:
    """Return the rows of a source with erased features, in the precision of the plain ones."""
    m = correction.R.T @ correction.mean

    def blocks() -> Iterator[RowBlock]:
        for block in source():
            # Only thin matrices are converted: every pass reads every row again.
            R, L, shift = (A.astype(block.G.dtype) for A in (correction.R, correction.L, m))
            yield replace(block, G=block.G - (block.G @ R - shift) @ L.T)

    return blocks


def _libsvm(
    training: Training, group: Sequence[ErasedSVR], correction: LinearCorrection
) -> Iterator[tuple[Array, float]]:
    """Yield the same by libsvm, from the erased features of all rows."""
    feature_map = training.feature_map(group[0].kernel)
    E = np.concatenate([correction(G) for G in feature_map.training_blocks(training.X)])
    K = E @ E.T
    for p in group:
        svr = _precomputed_svr(p.effective_C(training), p.epsilon).fit(K, training.y)
        yield E[svr.support_].T @ svr.dual_coef_[0], float(svr.intercept_[0])


def _precomputed_svr(C: float, epsilon: float) -> sklearn.svm.SVR:
    return sklearn.svm.SVR(
        kernel="precomputed",
        C=C,
        epsilon=epsilon,
        cache_size=1000,
        tol=LIBSVM_TOL,
        max_iter=LIBSVM_STEPS,
    )


def _fit_projected(
    training: Training, settings: Sequence[ProjectedSVR]
) -> Iterator[ProjectedExpansion]:
    """Yield the predictors as soon as each is fitted, settings of one path from one run of it."""
    longest = max((p.iterations for p in settings), default=0)

    path = cache(lambda removal: inlp_path(training, removal, longest))
    for p in settings:
        U = np.ascontiguousarray(path(p.removal).at(p.iterations).V)
        svr = _precomputed_svr(p.C, p.epsilon)
        yield fit_projected_svr(training, U, svr, p.gamma)


def _projected(training: Training, p: ProjectedSVR, X: Array) -> Array:
    """Return X - (X U) Uᵀ, the projected inputs."""
    return project(X, inlp_path(training, p.removal, p.iterations).at(p.iterations).V)


def _path_key(p: ProjectedSVR) -> Hashable:
    """Return the key of the removal path, which settings of any length share."""
    return ("inlp", p.ridge, p.center_sensitive)


METHODS = (
    Method(
        name="correlation_remover",
        title="KRR-CR",
        parameters=CorrelationRemover,
        fit=_fit_correlation_remover,
        strength="share",
        shared=_correlation_key,
        published={"acs_income": Published(grid={"share": (0.0, 0.25, 0.5, 0.75, 1.0)})},
        needs_sensitive=True,
        extra=FAIRLEARN,
    ),
    Method(
        name="leace",
        title="KRR-LEACE",
        parameters=RidgeParameters,
        fit=_fit_leace,
        shared=lambda _: "leace",  # the erasure of inputs has no parameter
        represent=_erased_inputs,
        unremoved=_inputs,
        extra=LEACE,
    ),
    Method(
        name="leace_nystroem",
        title="KRR-LEACE-N",
        parameters=ErasedRidge,
        fit=_fit_erased_ridge,
        shared=kernel_key,
        represent=_erased_features,
        unremoved=_plain_features,
        extra=LEACE,
    ),
    Method(
        name="svr_leace_nystroem",
        title="SVR-LEACE-N",
        parameters=ErasedSVR,
        fit=_fit_erased_svr,
        shared=kernel_key,
        represent=_erased_features,
        unremoved=_plain_features,
        published=SVR_PUBLISHED,
        extra=LEACE,
    ),
    Method(
        name="svr_inlp",
        title="SVR-INLP",
        parameters=ProjectedSVR,
        fit=_fit_projected,
        strength="iterations",
        shared=_path_key,
        represent=_projected,
        published={"acs_income": Published(grid={"iterations": (0, 60, 100, 160, 180, 200)})},
        weighs="each",
    ),
)

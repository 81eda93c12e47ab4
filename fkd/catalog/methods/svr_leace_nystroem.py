"""Support vector regression on Nystroem features after linear erasure (SVR-LEACE-N)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
from sklearn.svm import SVR

from fkd.catalog.methods import svr_fkd
from fkd.catalog.methods.bounds import number, option
from fkd.catalog.methods.erasure_settings import (
    erased_features,
    erasure_of,
    few_landmarks,
    plain_features,
)
from fkd.catalog.methods.kernel_settings import RIDGE_RULES, kernel_key, kernel_of
from fkd.catalog.methods.machine_settings import SETTING_SOLVERS, effective_C
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.core.arrays import Array, RowBlock, Source
from fkd.core.feature_maps import Approximation
from fkd.core.predictors import LinearCorrection, Predictor
from fkd.core.removal import RemovalPath
from fkd.core.svr import LIBSVM_STEPS, LIBSVM_TOL, batched_regressions
from fkd.core.training import Training
from fkd.rivals.optional_packages import LEACE


@dataclass(frozen=True)
class Parameters:
    """RBF width with its features, penalty, insensitive width."""

    gamma: float = number(0.05, above=0)
    C: float = number(0.75, above=0)
    epsilon: float = number(0.01, at_least=0)
    approximation: Approximation = field(default_factory=few_landmarks)
    solver: str = field(default="auto", metadata={"choices": SETTING_SOLVERS})
    C_rule: str = option("fixed", choices=RIDGE_RULES)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, those on one map from one erasure."""
    LEACE.check("svr_leace_nystroem")
    for _, members in groupby(settings, key=lambda p: (kernel_key(p), p.solver)):
        group = list(members)
        feature_map = training.feature_map(kernel_of(group[0]))
        correction = erasure_of(training, group[0])
        solve = _batched if group[0].solver == "batched" else _one_by_one
        for beta, constant in solve(training, group, correction):
            weights, shift = correction.pulled_back(beta)
            yield feature_map.expansion(weights, constant + shift)


def _batched(
    training: Training, group: Sequence[Parameters], correction: LinearCorrection
) -> Iterator[tuple[Array, float]]:
    """Yield weights of erased features with a constant, from passes over the rows."""
    kernel = kernel_of(group[0])
    moments = training.moments(kernel, "once")
    source = _erased(training.features(kernel), correction)
    nothing = RemovalPath.nothing(len(moments.g))
    wanted = [(0, effective_C(p, training), p.epsilon) for p in group]
    for one in batched_regressions(source, moments.corrected(correction), nothing, wanted):
        yield one.beta, one.intercept


def _erased(source: Source, correction: LinearCorrection) -> Source:
    """Return the rows of a source with erased features, in the precision of the plain ones."""
    m = correction.R.T @ correction.mean

    def blocks() -> Iterator[RowBlock]:
        for block in source():
            # Only what is thin is converted: every pass reads every row again.
            R, L, shift = (A.astype(block.G.dtype) for A in (correction.R, correction.L, m))
            yield replace(block, G=block.G - (block.G @ R - shift) @ L.T)

    return blocks


def _one_by_one(
    training: Training, group: Sequence[Parameters], correction: LinearCorrection
) -> Iterator[tuple[Array, float]]:
    """Yield the same by libsvm, from the erased features of all rows."""
    feature_map = training.feature_map(kernel_of(group[0]))
    E = np.concatenate([correction(G) for G in feature_map.training_blocks(training.X)])
    K = E @ E.T
    for p in group:
        svr = SVR(
            kernel="precomputed",
            C=effective_C(p, training),
            epsilon=p.epsilon,
            cache_size=1000,
            tol=LIBSVM_TOL,
            max_iter=LIBSVM_STEPS,
        ).fit(K, training.y)
        yield E[svr.support_].T @ svr.dual_coef_[0], float(svr.intercept_[0])


METHOD = Method(
    name="svr_leace_nystroem",
    title="SVR-LEACE-N",
    parameters=Parameters,
    fit=_fit,
    shared=kernel_key,
    represent=erased_features,
    unremoved=plain_features,
    published={
        problem: Published(fixed=paper.fixed) for problem, paper in svr_fkd.METHOD.published.items()
    },
    extra=LEACE,
)

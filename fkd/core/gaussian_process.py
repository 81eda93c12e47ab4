"""Gaussian process regression on the fair kernel.

The target z has the prior mean 0 and the prior covariance amplitude·K + noise·I, K being the fair
kernel. Its predictive mean is the ridge regression of ridge noise / amplitude. Variances that are
not given maximise the marginal likelihood, which in the eigenbasis of the fair moments is a sum.

`fit_process` is the entry; `FairGaussianProcess` calls it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.optimize import minimize_scalar

from fkd.core.arrays import BLOCK_ROWS, Array, Rows, row_blocks
from fkd.core.feature_maps import ExactMap, FeatureMap, KernelSettings
from fkd.core.linalg import EPS, project, rank_cut
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import Directions, Removals, fair_features, ridge_mu
from fkd.core.ridge import FairInverse, ridge_expansions
from fkd.core.training import RemovalSettings, Training
from fkd.core.validation import positive
from fkd.core.weights import weighted_gram

# Decades over which a free variance is searched, on either side of its natural size.
_DECADES = 8.0
# Values per decade of the coarse search. The fine search lies between the best neighbours.
_PER_DECADE = 4
# A target that is fitted perfectly has no variance left, but a logarithm needs some.
_TINY = 1e-150


@dataclass(frozen=True)
class ConditionedProcess:
    """The process of one target z, conditioned on the training rows."""

    mean: MapExpansion
    removed: Directions
    inverse: FairInverse  # (C + ratio·I)⁻¹ on the fair features, ratio = alpha / amplitude
    amplitude: float
    alpha: float  # variance of the noise

    @property
    def ratio(self) -> float:
        """Noise in units of the amplitude."""
        return self.alpha / self.amplitude

    def variance(self, feature_map: FeatureMap, X: Rows) -> Array:
        """Return the variance of the function at each row, in units of the amplitude."""
        blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        return np.concatenate([self._variance(feature_map, X[rows]) for rows in blocks])

    def _variance(self, feature_map: FeatureMap, X: Rows) -> Array:
        G = feature_map.transform(X)
        beyond = feature_map.unrepresented(X, G)
        # g·g - gᵀC(C + δI)⁻¹g = δ gᵀ(C + δI)⁻¹g, which loses no digits if little is left. A fully
        # removed direction must contribute exactly nothing.
        G = project(G, self.removed.gone)
        left = np.maximum(np.einsum("ij,ji->i", G, self.inverse @ G.T), 0.0)
        return np.asarray(beyond + self.ratio * left)

    def log_density(self, moments: Moments, unit: float) -> float:
        """Return the log density of the training target, z times the unit."""
        (r, w), n, c = self.removed.V.shape, moments.n, moments.c
        square = float(moments.yy - c @ (self.inverse @ c)) / self.alpha
        # K + ratio·I has the eigenvalues of the fair C + ratio·I; all others are the ratio.
        logs = self.inverse.log_determinant + (n - r + w) * np.log(self.ratio)
        units = 2 * n * np.log(unit) + n * np.log(2 * np.pi * self.amplitude)
        return -0.5 * float(square + logs + units)


@dataclass(frozen=True)
class ProcessModel:
    """Processes of one or several targets, and what other strengths are computed from."""

    feature_map: FeatureMap
    removals: Removals
    targets: Sequence[Moments]  # with each target
    training: Training  # rows of a reduced map may be gone
    processes: tuple[ConditionedProcess, ...]

    def scores(self, X: Rows) -> Array:
        """Return the predictive means, (k, targets)."""
        return np.column_stack([process.mean.predict(X) for process in self.processes])

    def unremoved_scores(self, X: Rows) -> Array:
        """Return the predictive means without removal at the same variances, (k, targets)."""
        means = [
            self._means(moments, 0, process.ratio).predict(X)
            for moments, process in zip(self.targets, self.processes, strict=True)
        ]
        return np.column_stack(means)

    def at(self, strength: float, *, amplitude: float | None, alpha: float | None) -> Self:
        """Return the processes at another strength of the removal."""
        targets = self.targets
        if isinstance(exact := self.feature_map, ExactMap) and not targets[0].C.size:
            C = weighted_gram(exact.G, self.training.weights.fit)
            targets = [replace(moments, C=C) for moments in targets]
        whole = replace(self, targets=targets)
        found = tuple(
            whole._process(moments, strength, amplitude=amplitude, alpha=alpha)
            for moments in targets
        )
        return replace(whole, processes=found)

    def thin(self) -> Self:
        """Return the model without rows and without products that the map gives again."""
        nothing = np.empty((0, 0))
        if not isinstance(self.feature_map, ExactMap):
            return replace(self, training=Training(nothing, np.empty(0), nothing))
        # An exact map asks for the number of rows only.
        rows = np.empty((self.training.X.shape[0], 0))
        training = Training(rows, np.empty(0), nothing, weights=self.training.weights)
        targets = [replace(moments, C=nothing) for moments in self.targets]
        return replace(self, training=training, targets=targets)

    def _process(
        self, moments: Moments, strength: float, *, amplitude: float | None, alpha: float | None
    ) -> ConditionedProcess:
        """Return the process of one target."""
        inner = strength
        if not self.removals.nested:
            # The variances of the plain process: those of the fair one depend on what is removed.
            plain = self._variances(moments, self.removals.at(0), amplitude, alpha)
            inner = ridge_mu(strength, n=moments.n, alpha=plain[1] / plain[0])
        removed = self.removals.at(inner)
        amplitude, alpha = self._variances(moments, removed, amplitude, alpha)
        ratio = alpha / amplitude
        mean = self._means(moments, inner, ratio)
        inverse = FairInverse.from_matrix(moments.C, ratio, removed, name="alpha / amplitude")
        return ConditionedProcess(mean, removed, inverse, amplitude, alpha)

    def _means(self, moments: Moments, inner: float, ratio: float) -> MapExpansion:
        """Return the predictive mean, kernel ridge regression of ridge `ratio`."""
        (mean,) = ridge_expansions(self.feature_map, moments, self.removals, [(inner, ratio)])
        return mean

    def _variances(
        self, moments: Moments, removed: Directions, amplitude: float | None, alpha: float | None
    ) -> tuple[float, float]:
        """Return amplitude and noise; None is replaced by its most probable value."""
        if amplitude is not None and alpha is not None:
            return amplitude, alpha
        if (rows := self.training.X).shape[0]:
            G = fair_features(self.feature_map, rows, removed)
            C = weighted_gram(G, self.training.weights.fit)
        else:  # the rows of a reduced map are gone: P^½ C P^½ from its moments
            C = removed.features(removed.features(moments.C).T)
        c = removed.features(moments.c[None, :])[0]
        largest = float(moments.C.diagonal().max())
        likelihood = MarginalLikelihood.from_moments(
            C, c, n=moments.n, square=moments.yy, largest=largest
        )
        return likelihood.best(amplitude, alpha)


def fit_process(
    training: Training,
    kernel: KernelSettings,
    removal: RemovalSettings,
    strengths: Sequence[float],
    *,
    amplitude: float | None = None,
    alpha: float | None = None,
) -> list[ProcessModel]:
    """Condition a Gaussian process on training rows, and return one model per strength.

    Parameters
    ----------
    training, kernel, removal
        Training rows with a centred target, kernel, removal.
    strengths
        Iterations of a path, penalties of a shrinkage.
    amplitude, alpha
        Prior variance per unit of the kernel, variance of the noise; None is the most probable.
    """
    amplitude = None if amplitude is None else positive("amplitude", amplitude)
    alpha = None if alpha is None else positive("alpha", alpha)
    removals = training.removals(kernel, removal, max(strengths))
    feature_map, targets = training.feature_map(kernel), training.target_moments(kernel)
    model = ProcessModel(feature_map, removals, targets, training, ())
    return [model.at(strength, amplitude=amplitude, alpha=alpha) for strength in strengths]


@dataclass(frozen=True)
class MarginalLikelihood:
    """log N(z; 0, amplitude·K + noise·I) in the eigenbasis of K, a sum per evaluation."""

    n: float  # rows, or the sum of their weights
    lam: Array  # eigenvalues of K that are not zero, (r,)
    energy: Array  # squares of z along their eigenvectors, (r,)
    rest: float  # square of the part of z outside

    @classmethod
    def from_moments(cls, C: Array, c: Array, *, n: float, square: float, largest: float) -> Self:
        """Return the likelihood of z, of n rows, from C = GᵀG, c = Gᵀz, zᵀz where K = G Gᵀ.

        The features are projections of features with squares up to `largest`. Eigenvalues below
        the square of the rounding error of those count as zero.
        """
        lam, Q = np.linalg.eigh(C)
        most = max(n, len(lam))
        rounding = 100 * EPS * rank_cut(most, largest)
        keep = lam > max(rank_cut(most, float(lam[-1])), rounding)
        energy = (Q[:, keep].T @ c) ** 2 / lam[keep]
        return cls(n, lam[keep], energy, max(square - float(energy.sum(axis=0)), 0.0))

    def __call__(self, amplitude: float, noise: float) -> float:
        """Return the log density at these variances."""
        variances = amplitude * self.lam + noise
        others = self.n - len(self.lam)
        square = float((self.energy / variances).sum(axis=0)) + self.rest / noise
        determinant = float(np.log(variances).sum(axis=0)) + others * np.log(noise)
        return -0.5 * float(square + determinant + self.n * np.log(2 * np.pi))

    def best(self, amplitude: float | None, noise: float | None) -> tuple[float, float]:
        """Return amplitude and noise; None is replaced by its most probable value."""
        variance = max(float(self.energy.sum(axis=0)) + self.rest, _TINY) / self.n
        if not len(self.lam):
            return 1.0 if amplitude is None else amplitude, variance if noise is None else noise
        mean = float(self.lam.sum(axis=0)) / self.n
        # A noise below the rounding error of the eigenvalues has no effect.
        least = 100 * rank_cut(self.n, float(self.lam[-1]))
        if noise is not None:
            found = amplitude or _most(lambda a: self(a, noise), variance / mean, 0.0)
            return found, noise
        if amplitude is not None:
            return amplitude, _most(lambda v: self(amplitude, v), variance, amplitude * least)
        return self._at(_most(lambda ratio: self(*self._at(ratio)), mean, least))

    def _at(self, ratio: float) -> tuple[float, float]:
        """Return the most probable variances whose noise is `ratio` times the amplitude."""
        square = float((self.energy / (self.lam + ratio)).sum(axis=0)) + self.rest / ratio
        amplitude = max(square, _TINY) / self.n
        return amplitude, ratio * amplitude


def _most(density: Callable[[float], float], unit: float, least: float) -> float:
    """Return where a density is largest, within decades of the unit and not below the least."""
    low, high = np.log(max(unit * 10.0**-_DECADES, least)), np.log(unit * 10.0**_DECADES)
    grid = np.linspace(low, max(high, low + 1.0), num=int(2 * _DECADES * _PER_DECADE) + 1)
    best = int(np.argmax([density(float(np.exp(x))) for x in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda x: -density(float(np.exp(x))), bounds=ends, method="bounded")
    return float(np.exp(found.x))

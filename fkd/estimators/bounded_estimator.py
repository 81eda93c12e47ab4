"""A fair machine whose user names a bound on its dependence instead of a strength."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array, Rows
from fkd.core.docstrings import fill_docstring
from fkd.core.kernels import KernelFunction
from fkd.core.moments import Moments
from fkd.core.removal import RemovalPath, Removals
from fkd.core.validation import sensitive_matrix
from fkd.core.weights import RowWeights, weighted_mean
from fkd.estimators.bound import (
    KeptBound,
    checked_bounds,
    choose_strength,
    inner_folds,
    strengths_to_try,
)
from fkd.estimators.removal_estimator import Removal, RemovalEstimator


@fill_docstring
class BoundedEstimator(RemovalEstimator):
    """Parameters of a machine's removal: a strength, or a bound that decides it.

    Parameters
    ----------
    {unfairness}
    {weigh}
    settings
        Those of `fkd.estimators.removal_parameters.RemovalParameters`.
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        unfairness: Mapping[str, float] | None = None,
        weigh: str = "both",
        **settings: Any,
    ) -> None:
        super().__init__(kernel, **settings)
        self.unfairness = unfairness
        self.weigh = weigh

    __metadata_request__score: ClassVar[dict[str, bool]] = {"sample_weight": True}

    _by_moments: ClassVar[bool] = False
    """Whether the machine is made from moments, which are as large as a kernel matrix."""

    _kept: Any = None
    """What another strength can be had from; None where the training rows would be needed."""

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Return self, fitted to these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their target; X is their kernel matrix (n, n) where kernel
            is ``"precomputed"``.
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        sample_weight
            How many rows each row counts for, (n,), not negative; None is one each. A whole number
            is a row repeated, 0 one that is not there.
        """
        X, z, S, weights = self._weighed_rows(X, y, sensitive_features, sample_weight)
        strength = self._decide(X, z, S, weights)
        removal, moments = self._fit_removal(X, z, S, strength, weights)
        kept = moments if self._by_moments else None
        del moments  # a machine that has no use for them may need the room
        self._settle(removal, kept, strength, tell=True)
        return self

    def fit_path(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        iterations: Sequence[int] | None = None,
        penalties: Sequence[float] | None = None,
    ) -> dict[Any, Self]:
        """Return a fitted machine per strength, all from one factorisation of the kernel.

        Each equals what `fit` gives for that strength alone. Nothing is tried on held-out rows:
        choose among them by rows of your own. The machine itself stays as it was.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As `fit` takes them.
        iterations, penalties
            The strengths: of a path its lengths, of a shrinkage its prices.
        """
        strengths = self._strengths(iterations, penalties)
        longest = copy(self)
        rows = longest._weighed_rows(X, y, sensitive_features, sample_weight)
        removal, moments = longest._removal_of(*rows, max(strengths))
        kept = moments if self._by_moments else None
        del moments
        return dict(zip(strengths, longest._settled(removal, kept, strengths), strict=True))

    def _weighed_rows(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[Array, Array, Any, RowWeights]:
        """Return the training rows that are there: inputs, target, sensitive columns, weights."""
        X = self._inputs(X, reset=True)
        there = self._present(sample_weight, X.shape[0])
        weights = RowWeights.from_weights(there.w, self.weigh)
        z = self._target(there.select("y", y), len(there), weights.fit)
        S = there.select("sensitive_features", sensitive_features)
        return there.inputs(X), z, S, weights

    def _removal_of(
        self, X: Rows, y: Array, sensitive_features: Any, weights: RowWeights, most: float
    ) -> tuple[Removal, Moments]:
        """Return the removal of rows that no trial is made of, up to a strength."""
        return self._fit_removal(X, y, sensitive_features, most, weights, trial=False)

    def _settled(
        self, removal: Removal, moments: Moments | None, strengths: Sequence[float]
    ) -> Iterator[Self]:
        """Yield the machines at these strengths."""
        for strength in strengths:
            machine = self._copy_at(strength, removal.removals)
            machine._settle(removal, moments, strength, tell=False)
            yield machine

    def _strengths(
        self, iterations: Sequence[int] | None, penalties: Sequence[float] | None
    ) -> list[float]:
        """Return the strengths that a path of fits is wanted at."""
        wanted, name = (penalties, "penalties") if self._shrinks else (iterations, "iterations")
        if penalties is not None and iterations is not None:
            raise ValueError(
                f"fit_path must be given {name} alone where removal={self.removal!r}, got both"
            )
        strengths = [self._checked_strength(strength) for strength in wanted or ()]
        if not strengths:
            raise ValueError(
                f"{name} must hold at least one value where removal={self.removal!r}, "
                f"got {list(wanted or ())}"
            )
        return strengths

    def _copy_at(self, strength: float, removals: Removals) -> Self:
        """Return a copy that says of itself what one fitted at that strength says."""
        other = copy(self)
        setattr(other, "penalty" if self._shrinks else "iterations", strength)
        other.unfairness, other.unfairness_, other.held_out_ = None, None, None
        other.strength_ = strength
        if isinstance(removals, RemovalPath):
            other.effective_iterations_ = min(int(strength), removals.effective)
        return other

    def at(self, strength: float) -> Self:
        """Return a fitted copy at another strength, without the training rows.

        Support vector machines are solved anew from the rows that an exact map keeps; those on a
        reduced map keep none, so that `fit_path` is their way to several strengths.

        Parameters
        ----------
        strength
            Of a path its length, at most that which was fitted; of a shrinkage any penalty.
        """
        check_is_fitted(self)
        strength = self._checked_strength(strength)
        if self._kept is None:
            raise ValueError(
                f"at of {type(self).__name__} needs the training rows, which a reduced map does "
                f"not keep (approximation={self.approximation!r}); use "
                f"fit_path(X, y, sensitive_features=..., "
                f"{'penalties' if self._shrinks else 'iterations'}=[{strength:g}])"
            )
        return self._from_kept(strength)

    @abstractmethod
    def _target(self, y: Any, n: int, w: Array | None) -> Array:
        """Return the checked target as the machine sees it."""

    @abstractmethod
    def _settle(
        self, removal: Removal, moments: Moments | None, strength: float, *, tell: bool
    ) -> None:
        """Fit the machine to a removal; `tell` of one that says the same of all rows."""

    def _from_kept(self, strength: float) -> Self:
        """Return a fitted copy at another strength from what the machine keeps."""
        (machine,) = self._settled(self._kept, None, [strength])
        return machine

    def _decide(self, X: Rows, y: Array, sensitive_features: Any, weights: RowWeights) -> float:
        """Return how much is to be taken out: what the user says, or what a bound asks for."""
        strength = self._strength()
        self.unfairness_: KeptBound | None = None
        if self.unfairness is not None:
            if y.ndim > 1:
                raise ValueError(
                    f"unfairness must be None where y has several columns, got {self.unfairness!r} "
                    f"with {y.shape[1]}; bound one model per target"
                )
            bounds = checked_bounds(self.unfairness)
            S = sensitive_matrix(sensitive_features, X.shape[0])
            tried = strengths_to_try(shrinks=self._shrinks, iterations=self.iterations)
            scores = self._held_out_scores(X, y, S, tried, weights)
            self.unfairness_ = choose_strength(bounds, tried, scores, y, S)
            strength = self.unfairness_.strength
        self.strength_ = strength
        return strength

    def _held_out_scores(
        self, X: Rows, y: Array, S: Array, strengths: Sequence[float], weights: RowWeights
    ) -> Array:
        """Return at each strength the scores of every row by a fit without it, (n, k, c)."""
        if self.center_sensitive:
            S = S - weighted_mean(S, weights.removal)
        found: dict[int, Array] = {}
        for train, test in inner_folds(X.shape[0]):
            columns = train if self.kernel == "precomputed" else slice(None)
            removal, moments = self._remove(
                X[train][:, columns],
                y[train],
                S[train],
                max(strengths),
                weights.part(train),
                share=weights.share(train, X.shape[0]),
                **self._trial_map(X.shape[0], len(train)),
            )
            scores = self._scores(removal, moments, strengths, X[test][:, columns])
            found.update(zip(test.tolist(), scores, strict=True))
        return np.stack([found[i] for i in range(X.shape[0])])

    @abstractmethod
    def _scores(
        self, removal: Removal, moments: Moments, strengths: Sequence[float], X: Rows
    ) -> Array:
        """Return what the machines of these strengths say of rows X, (k, strengths, c)."""

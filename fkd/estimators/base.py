"""Base classes of the fair estimators.

`FairEstimator` has the parameters of the kernel and of the removal, validates rows and runs the
trial on held-out rows. `FairPredictor` adds a target: strength or bound, `fit`, `fit_path`, `at`.
A predictor implements

- `_prepare_target`: validate y and return it as the machine uses it;
- `_fit_strengths`: fit the machine at several strengths, by the functions of `fkd.core`;
- `_adopt`: take a fitted model as the estimator's own.

`_kept_model`, `_judge` and `_warn_constant` are those of a regression that is solved again for
another strength. Estimators override them. An estimator of several targets sets `_several_targets`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import Array, IntArray, Rows
from fkd.core.conditioning import Functions, given_columns, refuse_sensitive_columns
from fkd.core.feature_maps import KernelSettings
from fkd.core.kernels import KernelFunction
from fkd.core.predictors import MapExpansion, TargetExpansions
from fkd.core.removal import RemovalPath, Removals
from fkd.core.sensitive_basis import BasisSettings
from fkd.core.sentinel_values import warn_sentinels
from fkd.core.training import KnownRemoval, PathSettings, RunningSums, ShrinkageSettings, Training
from fkd.core.validation import (
    boolean,
    choice,
    column_names,
    not_negative,
    positive,
    sensitive_matrix,
    sequence,
    target_matrix,
    target_vector,
    validate_rows,
    warn_user,
    whole,
)
from fkd.core.weights import PresentRows, RowWeights, weighted_mean, weighted_median, weighted_std
from fkd.estimators.held_out import (
    HeldOut,
    KeptBound,
    choose_strength,
    inner_folds,
    judge_scores,
    sample_rows,
    split_rows,
    strengths_to_try,
    validate_bounds,
    warn_collapse,
    weighted_losses,
)

REMOVALS = ("path", "shrinkage")
# Defaults of the strength. The penalty reduces GDP to about a third on Communities and Crime, to a
# half on incomes of Montana.
_ITERATIONS, _PENALTY = 10, 10.0
# Pipelines and searches pass both on under metadata routing.
FIT_METADATA = {"sensitive_features": True, "sample_weight": True}
# Share of the variance of the functions. If `given` leaves less, hardly anything is removed.
_LEAST_LEFT = 0.1


@dataclass(frozen=True)
class Inputs:
    """Validated training rows with the settings of kernel and removal."""

    training: Training
    kernel: KernelSettings
    removal: PathSettings | ShrinkageSettings | KnownRemoval
    # Share of all training rows. In a trial, parameters that count per row are scaled by it.
    share: float = 1.0

    def part(self, rows: IntArray) -> "Inputs":
        """Return some of the rows with a ridge of the removal that is scaled to their number."""
        n = self.training.X.shape[0]
        share, removal = self.training.weights.share(rows, n), self.removal
        if isinstance(removal, PathSettings) and removal.ridge is not None:
            removal = replace(removal, ridge=share * removal.ridge)
        training = self.training.part(rows, precomputed=self.precomputed)
        return Inputs(training, self.kernel, removal, share)

    def with_known(self, removals: Removals) -> "Inputs":
        """Return the rows without sensitive columns, for other strengths of a known removal."""
        rows = self.training
        training = Training(rows.X, rows.y, rows.S[:, :0], rows.seed, rows.weights)
        return replace(self, training=training, removal=KnownRemoval(removals))

    def against(self, train: IntArray, test: IntArray) -> Rows:
        """Return test rows as a model of the training rows takes them."""
        X = self.training.X[test]
        return X[:, train] if self.precomputed else X

    @property
    def precomputed(self) -> bool:
        """True if X is a kernel matrix."""
        return self.kernel.kernel == "precomputed"

    @property
    def exact(self) -> bool:
        """True if the feature map consists of all training rows."""
        return self.kernel.approximation.kind == "exact"


@dataclass(eq=False, repr=False)
class FairEstimator(BaseEstimator, ABC):
    """Parameters of kernel and removal, validation of rows, trial on held-out rows.

    Parameters
    ----------
    kernel
        ``"rbf"`` exp(-gamma |x-z|²), ``"laplacian"`` exp(-gamma |x-z|₁), ``"polynomial"``
        (gamma x·z + coef0)^degree, ``"linear"`` x·z, ``"precomputed"`` (X contains kernel
        values against all training rows), or a function of two blocks of rows that returns
        their kernel matrix.
    gamma
        Width of the kernel, above 0; None means 1 / number of inputs.
    degree, coef0
        Parameters of the polynomial kernel.
    ridge
        Ridge of the regressions that find the directions to remove, above 0. A larger ridge
        removes more per iteration. None is a thousandth of the sum of all squared features, so
        that neither the number of rows nor the unit of the inputs changes how much is removed.
        Linear and polynomial kernels depend on the offset of the inputs: standardise them.
    iterations
        Strength of a path: the number of removals. 0 leaves the kernel unchanged, the default
        is 10.
    basis
        The functions of the sensitive features that a prediction should not covary with:
        ``"columns"`` (the columns themselves), ``"rbf"`` (a kernel on them), ``"splines"`` (on
        the ranks of each column), ``"levels"`` (an indicator per value). None is
        ``"columns"`` for a path, ``"rbf"`` for a shrinkage.
    gamma_s
        Width of the kernel of ``basis="rbf"`` on the sensitive columns, scaled to their
        training range.
    given
        Conditioning columns: ``"y"``, or names or positions of columns of X. Dependence on the
        sensitive features through them is allowed: only the part of the functions that splines
        of these columns do not explain is removed.
    approximation
        How the kernel is represented: ``"exact"``, ``"nystroem"`` (landmarks among the
        training rows), ``"fourier"`` (random features of the RBF or Laplacian kernel),
        ``"identity"`` (the inputs themselves, for ``kernel="linear"``) or ``"auto"``: exact
        up to 10 000 rows, Nystroem beyond.
    landmarks
        Number of landmarks of the Nystroem map or of Fourier features; None means 1000,
        and at most n landmarks. Other maps have none.
    landmark_method
        Selection of the landmarks of the Nystroem map: ``"rpcholesky"`` or ``"uniform"``.
    center_sensitive
        For a path with ``basis="columns"``: centre the columns, so that neither their unit nor
        their offset changes the result. Other functions are always centred. False is the
        published form, whose first removed direction is mostly the mean of the columns.
    held_out
        Share of the training rows that a trial fit leaves out. A warning is issued if the
        dependence on the sensitive features does not fall on them, or if the model is worse
        than a constant or is one. The trial uses at most 2000 rows. It is skipped below 100
        rows, if the share is 0, or if no sensitive column varies in both parts. The fit itself
        uses all rows. With `given` dependence is not checked, since some of it is allowed.
    random_state
        Seed of landmarks or Fourier features.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        Number of columns of X, and their names if X was a data frame.
    """

    kernel: str | KernelFunction = "rbf"
    _: KW_ONLY
    gamma: float | None = None
    degree: int = 3
    coef0: float = 1.0
    basis: str | None = None
    gamma_s: float = 10.0
    given: Any = None
    approximation: str = "exact"
    landmarks: int | None = None
    landmark_method: str = "rpcholesky"
    held_out: float = 0.2
    random_state: Any = None

    __metadata_request__fit: ClassVar[dict[str, bool]] = FIT_METADATA

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = True
        return tags

    def _present_rows(self, sample_weight: Any, n: int, *, least: int = 2) -> PresentRows:
        """Return the rows with a positive weight."""
        precomputed = self.kernel == "precomputed"
        return PresentRows.from_weights(sample_weight, n, least=least, precomputed=precomputed)

    def _validate_sensitive(self, values: Any, n: int, *, vary: bool = True) -> Array:
        """Return the sensitive columns, (n, l)."""
        S = sensitive_matrix(values, n, vary=vary)
        warn_sentinels("sensitive_features", S, column_names(values, S.shape[1]))
        return S

    def _inputs(self, X: Rows, y: Array, sensitive_features: Any, weights: RowWeights) -> Inputs:
        """Return training rows with the settings of kernel and removal."""
        S = self._validate_sensitive(sensitive_features, X.shape[0])
        removal = self._removal_settings(X.shape[1])
        given = None if removal.functions is None else removal.functions.given
        if isinstance(given, tuple):
            names = column_names(sensitive_features, S.shape[1])
            refuse_sensitive_columns(given, self._column_names(), X, S, names)
        if self._centers():
            # Before any sum, so that an offset of the columns costs no digits.
            S = S - weighted_mean(S, weights.removal)
        training = Training(X, y, S, self.random_state, weights)
        return Inputs(training, KernelSettings.from_estimator(self, X.shape[0]), removal)

    def _removal_settings(self, d: int) -> PathSettings | ShrinkageSettings:
        """Return the removal from rows with d columns."""
        kind = ("rbf" if self._shrinks else "columns") if self.basis is None else self.basis
        if self._shrinks:
            rule = "removal='shrinkage'"
            self._refuse_ignored(rule, iterations=None, ridge=None, center_sensitive=True)
        else:
            self._refuse_ignored("removal='path'", penalty=None)
        if kind != "columns":
            self._refuse_ignored(f"basis={kind!r}", center_sensitive=True)
        precomputed = self.kernel == "precomputed"
        given = given_columns(self.given, self._column_names(), d, precomputed=precomputed)
        functions = Functions(BasisSettings(kind, self.gamma_s), given, limits=None)
        if self._shrinks:
            return ShrinkageSettings(functions)
        ridge = getattr(self, "ridge", None)
        ridge = None if ridge is None else positive("ridge", ridge)
        if kind == "columns" and self.given is None:
            return PathSettings(ridge, self._centers())
        return PathSettings(ridge, self._centers(), functions)

    def _refuse_ignored(self, rule: str, **defaults: Any) -> None:
        """Raise for a parameter that has no effect under a rule, unless it is at its default."""
        for name, default in defaults.items():
            value = getattr(self, name, default)
            if value != default:
                raise ValueError(
                    f"{name} must be {default!r} if {rule}, got {value!r}. It would have no effect"
                )

    def _column_names(self) -> Any:
        return getattr(self, "feature_names_in_", None)

    @property
    @abstractmethod
    def _shrinks(self) -> bool:
        """True if directions are shrunk instead of removed."""

    def _centers(self) -> bool:
        """Return whether the sensitive columns are centred."""
        return boolean("center_sensitive", getattr(self, "center_sensitive", True))

    def _run_trial(self, inputs: Inputs, strength: float) -> None:
        """Fit a trial to some of the rows, judge it on the others and warn."""
        self.held_out_ = self._trial(inputs, strength)
        if self.held_out_ is None:
            return
        # Dependence through the conditioning columns is allowed and therefore not judged.
        if strength and self.given is None:
            self.held_out_.warn(*self._describe(strength))
        else:
            self.held_out_.warn()

    def _trial(self, inputs: Inputs, strength: float) -> HeldOut | None:
        """Return the result on held-out rows, None if they are too few or all alike."""
        training = inputs.training
        parts = split_rows(training.X.shape[0], self.held_out)
        if parts is None:
            return None
        train, test = parts
        # A rare level may be absent from either part.
        S = training.S
        vary = (np.ptp(S[train], axis=0) > 0) & (np.ptp(S[test], axis=0) > 0)
        if not vary.any() or not self._can_learn(training.y[train]):
            return None
        inputs = replace(inputs, training=replace(training, S=S[:, vary]))
        part, w = inputs.part(train), training.weights.part(test).fit
        try:
            return self._judge(
                part, strength, inputs.against(train, test), training.y[test], S[test][:, vary], w
            )
        except ValueError:
            return None  # the fit to all rows raises the same error with its own numbers

    def _can_learn(self, y: Array) -> bool:
        """Return whether a target is sufficient for a fit."""
        return True

    @abstractmethod
    def _judge(
        self, part: Inputs, strength: float, X: Rows, y: Array, S: Array, w: Array | None
    ) -> HeldOut:
        """Fit to a part of the rows, and judge on other rows with weights w."""

    def _describe(self, strength: float) -> tuple[str, str]:
        """Return a description of a strength and of what would remove more."""
        if self._shrinks:
            return f"at a penalty of {strength:g}", "a larger penalty, or another basis"
        centring = "" if self._centers() else ", or center_sensitive=True"
        plural = "" if strength == 1 else "s"
        return f"after {strength} iteration{plural}", f"more iterations, a larger ridge{centring}"

    def _check_removal(self, inputs: Inputs, removals: Removals, strength: float) -> None:
        """Set `effective_iterations_`, and warn if less is removed than was asked for."""
        functions = inputs.removal.functions
        if functions is not None:
            left = inputs.training.basis_moments(inputs.kernel, functions).remaining_share
            if left < _LEAST_LEFT:
                warn_user(
                    f"given explains all but {left:.1%} of the functions of the sensitive "
                    "features, so that hardly anything is removed. Name fewer columns, or train on "
                    "more rows"
                )
        self.effective_iterations_: int | None = None  # a shrinkage has none
        if not isinstance(removals, RemovalPath):
            return
        self.effective_iterations_ = removals.effective
        if removals.effective < strength:
            r, w = removals.U.shape
            left_over = "no longer predict the sensitive features" if w < r else "are all removed"
            warn_user(
                f"the removal ended after {removals.effective} of {strength} iterations: "
                f"the features {left_over}"
            )


@dataclass(eq=False, repr=False, kw_only=True)
class FairPredictor(FairEstimator):
    """A fair estimator with a target: strength or bound, `fit`, `fit_path` and `at`.

    Parameters
    ----------
    removal
        ``"path"`` removes directions from the kernel, `iterations` times. ``"shrinkage"``
        shrinks the directions along which a prediction would covary with functions of the
        sensitive features, by `penalty`. Parameters of the other removal are refused.
    penalty
        Strength of a shrinkage: the price of a squared covariance with such a function, in
        units of the machine's mean loss (docs/explanation/shrinkage.md). 0 leaves the kernel
        unchanged, None is 10.
    unfairness
        Bound on a measure instead of a strength, such as ``{"gdp": 0.01}`` (in units of the
        target's range), ``"hgr"`` or ``"pf"``. The smallest of about seventeen strengths
        (penalties 0 and 0.1 to 10 000; up to `iterations` of a path) is chosen for which the
        pooled held-out predictions of five folds satisfy the bound. The estimate is compared
        with the bound, not its confidence interval. Each row counts once, whatever its weight.
        New rows may exceed the bound.
    weigh
        Where `sample_weight` of `fit` is used: ``"both"``, only in the ``"removal"``, or only
        in the ``"fit"`` of the machine. Weights are numbers of rows: twice the weights are
        twice the rows relative to `alpha`, `ridge` or `C`.

    Attributes
    ----------
    strength_ : float
        Strength of the removal: iterations of a path or the penalty of a shrinkage, as given
        or as chosen by `unfairness`.
    effective_iterations_ : int or None
        Iterations that found a direction to remove, fewer than `iterations` if the rank is
        exhausted; None for a shrinkage.
    held_out_ : HeldOut or None
        Result of the trial fit on the held-out rows.
    unfairness_ : KeptBound or None
        The strength chosen by a bound, with an interval that ignores the selection.
    """

    ridge: float | None = None
    iterations: int | None = None
    removal: str = "path"
    penalty: float | None = None
    center_sensitive: bool = True
    unfairness: Mapping[str, float] | None = None
    weigh: str = "both"

    __metadata_request__score: ClassVar[dict[str, bool]] = {"sample_weight": True}
    # Parameters that can make predictions constant.
    _collapse_causes: ClassVar[str] = "alpha, gamma"
    _minimises_absolute_errors: ClassVar[bool] = False
    _several_targets: ClassVar[bool] = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._several_targets
        return tags

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fit to training rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) and their target; X is their kernel matrix (n, n) if kernel is
            ``"precomputed"``.
        sensitive_features
            One or several columns (n,) or (n, l) to remove. Required.
        sample_weight
            Weights of the rows, (n,), not negative; None is 1 for each. A row of weight 2 counts
            as two rows, a row of weight 0 is left out.
        """
        self.__dict__.pop("_running", None)  # sums of earlier calls of partial_fit
        inputs = self._validate(X, y, sensitive_features, sample_weight)
        strength = self._choose_strength(inputs)
        self._run_trial(inputs, strength)
        (model,) = self._fit_strengths(inputs, [strength])
        self._check_removal(inputs, model.removals, strength)
        self._warn_constant(model, inputs.training)
        self._adopt(model, inputs)
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
        """Fit one model per strength from one factorisation of the kernel.

        Returns a dictionary by strength. Each model equals that of `fit` with this strength. No
        trial on held-out rows is run. The estimator itself does not change.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.
        iterations, penalties
            The strengths: iterations of a path, or penalties of a shrinkage.
        """
        strengths = self._validate_strengths(iterations, penalties)
        fitted = copy(self)
        inputs = fitted._validate(X, y, sensitive_features, sample_weight)
        models = list(fitted._fit_strengths(inputs, strengths))
        fitted._check_removal(inputs, models[0].removals, max(strengths))
        pairs = zip(strengths, models, strict=True)
        return {strength: fitted._copy_at(strength, model, inputs) for strength, model in pairs}

    def at(self, strength: float) -> Self:
        """Return a fitted copy at another strength, without the training rows.

        Support vector machines are solved again on the rows that an exact map keeps. With a reduced
        map they keep no rows: use `fit_path` for several strengths.

        Parameters
        ----------
        strength
            Iterations of a path, at most those that were fitted, or any penalty of a shrinkage.
        """
        check_is_fitted(self)
        strength = self._validate_strength(strength)
        if self._kept is None:
            raise ValueError(
                f"at of {type(self).__name__} needs the training rows, which a reduced map does "
                f"not keep (approximation={self.approximation!r}). Use "
                f"fit_path(X, y, sensitive_features=..., "
                f"{'penalties' if self._shrinks else 'iterations'}=[{strength:g}])"
            )
        return self._copy_at(strength, self._kept_model(strength), None)

    @abstractmethod
    def _prepare_target(self, y: Any, n: int, w: Array | None) -> Array:
        """Validate the target and return it as the machine uses it."""

    def _scaled_target(self, y: Any, n: int, w: Array | None, **scale: bool) -> Array:
        """Return a target (n,), or (n, t) if several columns are allowed, in units of `_scale`."""
        checked = target_matrix(y, n) if self._several_targets else target_vector(y, n)
        warn_sentinels("y", checked)
        self._scale = TargetScale.from_target(checked, w, **scale)
        return self._scale.scaled(checked)

    @abstractmethod
    def _fit_strengths(self, inputs: Inputs, strengths: Sequence[float]) -> Iterable[Any]:
        """Return one fitted model per strength, in order."""

    @abstractmethod
    def _adopt(self, model: Any, inputs: Inputs | None) -> None:
        """Take a model as the estimator's own; without inputs what `at` needs is unchanged."""

    def _kept_model(self, strength: float) -> Any:
        """Return the model of another strength from what `_adopt` kept, by default the rows."""
        (model,) = self._fit_strengths(self._kept, [strength])
        return model

    def _warn_constant(self, model: Any, training: Training) -> None:
        """Warn if the model predicts nearly the same for all training rows."""
        unit = _columns(training.y).std(axis=0)
        rows = sample_rows(training.X.shape[0])
        if (unit > 0).any() and len(rows) > 1:
            spread = model.scores(training.X[rows]).std(axis=0)
            warn_collapse(float((spread[unit > 0] / unit[unit > 0]).max()), self._collapse_causes)

    def _judge(
        self, part: Inputs, strength: float, X: Rows, y: Array, S: Array, w: Array | None
    ) -> HeldOut:
        before, after = (m.scores(X) for m in self._fit_strengths(part, [0, strength]))
        return self._judge_predictions(before, after, part.training, y, S, w)

    def _judge_predictions(
        self, before: Array, after: Array, training: Training, y: Array, S: Array, w: Array | None
    ) -> HeldOut:
        """Return the result of predictions without and with removal, (k, t), on held-out rows.

        Parameters
        ----------
        before, after
            Predictions (k, t).
        training
            Rows of the trial fit.
        y, S, w
            Targets (k,) or (k, t), sensitive columns (k, l) and weights of the held-out rows.
        """
        y, known, weights = _columns(y), _columns(training.y), training.weights.fit
        unit = weighted_std(known, weights)
        # The median minimises absolute errors, the mean squared ones.
        absolute = self._minimises_absolute_errors
        constant = (weighted_median if absolute else weighted_mean)(known, weights)
        errors = [np.abs(y - f) / np.where(unit > 0, unit, 1.0) for f in (after, constant)]
        model, dummy = errors if absolute else [error**2 for error in errors]
        losses = weighted_losses(model.mean(axis=1), dummy.mean(axis=1), w)
        return judge_scores(before, after, S, losses)

    def _validate(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> Inputs:
        """Return the training rows with a positive weight, and the settings."""
        X = validate_rows(self, X, reset=True)
        present = self._present_rows(sample_weight, X.shape[0])
        weights = RowWeights.from_weights(present.w, self.weigh)
        z = self._prepare_target(present.select("y", y), len(present), weights.fit)
        S = present.select("sensitive_features", sensitive_features)
        return self._inputs(present.inputs(X), z, S, weights)

    @property
    def _shrinks(self) -> bool:
        return choice("removal", self.removal, REMOVALS) == "shrinkage"

    def _strength(self) -> float:
        """Return the strength that the parameters name."""
        given, default = (
            (self.penalty, _PENALTY) if self._shrinks else (self.iterations, _ITERATIONS)
        )
        return self._validate_strength(default if given is None else given)

    def _validate_strength(self, value: Any) -> float:
        """Return a penalty, or a number of iterations."""
        if self._shrinks:
            return not_negative("penalty", value)
        return whole("iterations", value, low=0)

    def _validate_strengths(
        self, iterations: Sequence[int] | None, penalties: Sequence[float] | None
    ) -> list[float]:
        """Return the strengths of `fit_path`."""
        given = {"iterations": iterations, "penalties": penalties}
        name, other = ("penalties", "iterations") if self._shrinks else ("iterations", "penalties")
        if given[other] is not None:
            raise ValueError(
                f"{other} must be None in fit_path if removal={self.removal!r}, got "
                f"{given[other]!r}. Pass {name}"
            )
        return [self._validate_strength(strength) for strength in sequence(name, given[name])]

    def _choose_strength(self, inputs: Inputs) -> float:
        """Return the strength of the parameters, or the smallest one that satisfies the bound."""
        self.strength_ = self._strength()
        self.unfairness_: KeptBound | None = None
        if self.unfairness is not None:
            y = inputs.training.y
            if y.ndim > 1:
                raise ValueError(
                    f"unfairness must be None if y has several columns, got {self.unfairness!r} "
                    f"with {y.shape[1]}. Bound one model per target"
                )
            self._refuse_ignored("unfairness is given", penalty=None)
            bounds = validate_bounds(self.unfairness)
            longest = None if self._shrinks else int(self.strength_)
            tried = strengths_to_try(longest)
            scores = self._held_out_scores(inputs, tried)
            self.unfairness_ = choose_strength(bounds, tried, scores, y, inputs.training.S)
            self.strength_ = self.unfairness_.strength
        return self.strength_

    def _held_out_scores(self, inputs: Inputs, strengths: Sequence[float]) -> Array:
        """Return the scores of every row by models fitted without it, (n, strengths, c)."""
        found: dict[int, Array] = {}
        for train, test in inner_folds(inputs.training.X.shape[0]):
            models = self._fit_strengths(inputs.part(train), strengths)
            X = inputs.against(train, test)
            scores = np.stack([model.scores(X) for model in models], axis=1)
            found.update(zip(test.tolist(), scores, strict=True))
        return np.stack([found[i] for i in range(len(found))])

    def _copy_at(self, strength: float, model: Any, inputs: Inputs | None) -> Self:
        """Return a copy with the attributes of an estimator fitted at that strength."""
        other = copy(self)
        setattr(other, "penalty" if self._shrinks else "iterations", strength)
        other.unfairness, other.unfairness_, other.held_out_ = None, None, None
        other.strength_ = strength
        if isinstance(model.removals, RemovalPath):
            other.effective_iterations_ = min(int(strength), model.removals.effective)
        other._adopt(model, inputs)
        return other

    def _fit_further_rows(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> Self:
        """Fit to the sums over these and all earlier rows, for `partial_fit`."""
        for name in ("given", "unfairness"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} must be None in partial_fit, which keeps no rows, "
                    f"got {getattr(self, name)!r}. Use fit"
                )
        running: RunningSums | None = self.__dict__.get("_running")
        first = running is None
        X = validate_rows(self, X, reset=first)
        present = self._present_rows(sample_weight, X.shape[0], least=2 if first else 1)
        weights = RowWeights.from_weights(present.w, self.weigh)
        X, n = present.inputs(X), len(present)
        z = target_vector(present.select("y", y), n)
        z = self._prepare_target(z, n, weights.fit) if first else self._scale.scaled(z)
        # A few further rows may all have the same value, the first ones must not.
        values = present.select("sensitive_features", sensitive_features)
        S = self._validate_sensitive(values, n, vary=first)
        training = Training(X, z, S, self.random_state, weights)
        # The landmarks are those of the first rows; there may be fewer further rows than landmarks.
        rows = n if first else max(n, self.landmarks or n)
        kernel = KernelSettings.from_estimator(self, rows)
        removal = self._removal_settings(X.shape[1])
        if running is None:
            running = RunningSums.from_rows(training, kernel, removal, center=self._centers())
        else:
            running = running.add(training)
        self._running = self._rescaled(running)
        self.strength_, self.unfairness_, self.held_out_ = self._strength(), None, None
        shared = replace(kernel, approximation=replace(kernel.approximation, shared=True))
        inputs = Inputs(self._running.training(), shared, removal)
        (model,) = self._fit_strengths(inputs, [self.strength_])
        self.effective_iterations_ = getattr(model.removals, "effective", None)
        self._adopt(model, inputs)
        return self

    def _rescaled(self, running: RunningSums) -> RunningSums:
        """Return the sums of all rows so far, in the unit of the target for the fit."""
        return running


@dataclass(frozen=True)
class TargetScale:
    """Mean and unit of one or several targets: machines are fitted to (y - level) / unit."""

    level: Array
    unit: Array

    @classmethod
    def from_target(
        cls, y: Array, w: Array | None, *, center: bool = True, normalize: bool = False
    ) -> "TargetScale":
        """Return the mean (0 if not `center`) and the standard deviation (1 if not `normalize`)."""
        level = weighted_mean(y, w)
        unit = weighted_std(y, w) if normalize else np.ones_like(level)
        return cls(level if center else np.zeros_like(level), np.where(unit > 0, unit, 1.0))

    def scaled(self, y: Array) -> Array:
        """Return (y - level) / unit."""
        return np.asarray((y - self.level) / self.unit)

    def restored(self, f: MapExpansion | TargetExpansions) -> MapExpansion | TargetExpansions:
        """Return unit·f + level."""
        if not isinstance(f, TargetExpansions):
            return _rescaled(f, float(self.unit), float(self.level))
        each = zip(f.parts, self.unit.tolist(), self.level.tolist(), strict=True)
        return TargetExpansions(tuple(_rescaled(*part) for part in each))


def _rescaled(f: MapExpansion, unit: float, level: float) -> MapExpansion:
    return replace(f, coef=unit * f.coef, intercept=unit * f.intercept + level)


def _columns(values: Array) -> Array:
    """Return one or several columns as a table."""
    return values[:, None] if values.ndim == 1 else values


# Maps whose moments of different rows add up. An exact map needs all rows at once.
_REDUCED = ("nystroem", "fourier")


def supports_partial_fit(model: Any) -> bool:
    """Return True for a reduced map, else raise the AttributeError that `available_if` needs."""
    if model.approximation in _REDUCED:
        return True
    raise AttributeError(
        "partial_fit needs approximation='nystroem' or 'fourier', whose moments add up, "
        f"got {model.approximation!r}"
    )

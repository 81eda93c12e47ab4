"""Dataclass fields of method parameters, with the values that a configuration accepts."""

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any, Literal

from fkd.baselines.base import Extra
from fkd.core.arrays import Array
from fkd.core.conditioning import Functions
from fkd.core.predictors import Predictor
from fkd.core.training import Training
from fkd.methods.cost import Cost, kernel_cost


def number(
    default: float,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Any:
    """Return a dataclass field for a bounded number; configs turn the bounds into validation."""
    bounds = {"gt": above, "ge": at_least, "le": at_most}
    return field(default=default, metadata={k: v for k, v in bounds.items() if v is not None})


def option(default: Any, **metadata: Any) -> Any:
    """Return a dataclass field with bounds or choices that configs turn into validation."""
    return field(default=default, metadata=metadata)


# Whole numbers of iterations double, prices are multiplied by ten, shares end at one.
_ITERATIONS = (0, 1, 2, 4, 8, 16)
_PRICES = (0.0, 0.01, 0.1, 1.0, 10.0)
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_MOST_ITERATIONS, _HIGHEST_PRICE = 512, 1e4


def first_strengths(strength: "Field[Any]") -> Sequence[float]:
    """Return the strengths of a first round, from the declared parameter."""
    if isinstance(strength.default, int):
        return _ITERATIONS
    return _SHARES if strength.metadata.get("le") == 1 else _PRICES


def next_strength(strength: "Field[Any]", last: float) -> float | None:
    """Return the strength after the last one, None at the end of the ladder."""
    if isinstance(strength.default, int):
        return 2 * int(last) if 2 * last <= _MOST_ITERATIONS else None
    if strength.metadata.get("le") == 1:
        return None
    return 10 * last if 10 * last <= _HIGHEST_PRICE else None


# On these problems a bare name means what was published; there alone it can be compared.
PUBLISHED_PROBLEMS = ("crimes", "acs_income", "acs_travel_time")
# As published, neither is done. Removal then spends its first direction on the mean of s, and a
# predictor without a constant cannot reach the level of the target: anywhere else both are on.
_FORM = ("center_sensitive", "fit_intercept")
Weighs = Literal["nothing", "fit", "each", "both"]


@dataclass(frozen=True)
class Published:
    """Fixed parameters and grid that the paper gives for one problem."""

    fixed: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def _nothing_shared(parameters: Any) -> Hashable:
    """Return a key under which no two settings share work."""
    key: Hashable = parameters
    return key


def _no_functions(parameters: Any) -> Functions | None:
    """Return None: the sensitive columns themselves are enough."""
    return None


@dataclass(frozen=True)
class Method:
    """A method: its name, parameters, strength, version, its fit.

    Attributes
    ----------
    parameters
        Frozen dataclass; names, types, defaults and bounds are what a config may say.
    fit
        From a training fold and several settings that share work, one predictor per setting, in
        order. A setting's predictor must not depend on the other settings.
    version
        Raised by hand whenever the numbers change: part of every trial's key.
    strength
        The parameter that trades accuracy for fairness; None for methods without one.
    bound
        A parameter that bounds unfairness beside the strength, so that a setting may be fair at
        strength 0; at its default it bounds nothing. None for methods without one.
    published
        The paper's settings by problem; other problems take the parameters of ``acs_income``, with
        a grid of strengths that is short and geometric.
    shared
        Settings with equal keys are computed by one task.
    represent
        From a training fold, a setting, encoded rows: the features that the fair model sees; None
        where there is no such representation. What can still be guessed from it is reported.
    unremoved
        The same features before anything was removed, for methods without a strength: with one,
        they are those of `represent` at strength 0.
    needs_sensitive
        Whether predicting needs the sensitive columns: such a method is marked in every figure.
    ours
        Whether it stands in no paper: a bare name then means one form with one grid on every
        problem, whose strengths must have no unit.
    extra
        Optional packages without which `fit` refuses to start; None where the core is enough.
    cost
        What several settings cost on n rows of d inputs, for planning.
    functions
        Which functions of s a setting needs products of the features with; None for none.
    in_passes
        Whether `fit` reads the kernel matrix by `Training.kernel_passes` alone, so that it may lie
        on a cluster.
    weighs
        Where the weights of a training fold count: nowhere, in the fit of a method that removes
        nothing, in removal and fit each by itself, or in both at once alone.
    """

    name: str
    title: str
    parameters: type
    fit: Callable[[Training, Sequence[Any]], Iterator[Predictor]]
    version: int = 1
    strength: str | None = None
    bound: str | None = None
    published: Mapping[str, Published] = field(default_factory=dict)
    shared: Callable[[Any], Hashable] = _nothing_shared
    represent: Callable[[Training, Any, Array], Array] | None = None
    unremoved: Callable[[Training, Any, Array], Array] | None = None
    needs_sensitive: bool = False
    ours: bool = False
    extra: Extra | None = None
    cost: Callable[[Sequence[Any], int, int], Cost] = kernel_cost
    functions: Callable[[Any], Functions | None] = _no_functions
    in_passes: bool = False
    weighs: Weighs = "nothing"

    def __post_init__(self) -> None:
        """Refuse features of which nobody could say what was removed from them."""
        if self.represent is not None and self.strength is None and self.unremoved is None:
            raise ValueError(
                f"unremoved of {self.name} must be given, as it has represent but no strength, "
                "got None; return the features before removal"
            )

    def check_installed(self) -> None:
        """Raise ModuleNotFoundError, naming the command that helps, where a package is missing."""
        if self.extra is not None:
            self.extra.check(self.name)

    def settings(
        self, problem: str, fixed: Mapping[str, Any], grid: Mapping[str, Sequence[Any]] | None
    ) -> list[Any]:
        """Return the settings of a grid over the paper's values, each overridden by `fixed`.

        Without a grid it is the paper's on the paper's problems, a short geometric one elsewhere.
        """
        base, axes = self.base(problem, fixed), self.axes(problem, fixed, grid)
        combinations = itertools.product(*axes.values())
        settings = [replace(base, **dict(zip(axes, c, strict=True))) for c in combinations]
        return list(dict.fromkeys(settings))

    def base(self, problem: str, fixed: Mapping[str, Any]) -> Any:
        """Return the setting of a problem before any grid, overridden by `fixed`."""
        return self.parameters(**{**self._paper(problem).fixed, **self.form(problem), **fixed})

    def axes(
        self, problem: str, fixed: Mapping[str, Any], grid: Mapping[str, Sequence[Any]] | None
    ) -> dict[str, Sequence[Any]]:
        """Return the values of each parameter that a grid goes through."""
        if grid is None:
            # A parameter that the user fixes is no longer an axis of the default grid.
            return {k: v for k, v in self._default_grid(problem).items() if k not in fixed}
        if unknown := set(grid) - {f.name for f in fields(self.parameters)}:
            raise ValueError(f"grid of {self.name} must name parameters of it, got {unknown}")
        return dict(grid)

    def _paper(self, problem: str) -> Published:
        return self.published.get(problem) or self.published.get("acs_income") or Published()

    def _default_grid(self, problem: str) -> Mapping[str, Sequence[Any]]:
        """Return the grid of a bare name."""
        paper = self._paper(problem)
        if problem in PUBLISHED_PROBLEMS or self.strength is None or self.ours:
            return paper.grid
        others = {name: values for name, values in paper.grid.items() if name != self.strength}
        return {self.strength: first_strengths(self._field(self.strength)), **others}

    def next_strength(self, last: float) -> float | None:
        """Return the strength that a growing grid tries after the last one, None at its end."""
        return None if self.strength is None else next_strength(self._field(self.strength), last)

    def _field(self, name: str) -> "Field[Any]":
        return next(f for f in fields(self.parameters) if f.name == name)

    def form(self, problem: str) -> dict[str, bool]:
        """Return whether S is centred, whether a constant is fitted, where a bare name decides."""
        if self.ours:
            return {}
        published = problem in PUBLISHED_PROBLEMS
        return {f.name: not published for f in fields(self.parameters) if f.name in _FORM}

    def features_before(self, training: Training, parameters: Any, X: Array) -> Array:
        """Return the features of rows X on the map of `represent`, with nothing removed."""
        if self.unremoved is not None:
            return self.unremoved(training, parameters, X)
        assert self.represent is not None
        return self.represent(training, self.without_removal(parameters), X)

    def without_removal(self, parameters: Any) -> Any:
        """Return the same setting at strength 0 without a bound; itself where it has neither."""
        changes: dict[str, Any] = {}
        if self.strength is not None:
            changes[self.strength] = type(getattr(parameters, self.strength))(0)
        if self.bound is not None:
            changes[self.bound] = self._field(self.bound).default
        return replace(parameters, **changes)

    def strength_of(self, parameters: Any) -> float:
        """Return the strength of a setting, 0 where the method has none."""
        return float(getattr(parameters, self.strength)) if self.strength else 0.0

    def removes_nothing(self, parameters: Any) -> bool:
        """Return whether a setting is a plain machine: one of strength 0, or of no fair method."""
        if self.strength is None:
            return self.represent is None
        return bool(parameters == self.without_removal(parameters))

    def describe(self, parameters: Any) -> dict[str, Any]:
        """Return the parameters as a plain dictionary, nested ones included."""
        return asdict(parameters)

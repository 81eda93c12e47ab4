"""What a method says of itself, so that a file is all it takes to add one."""

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any

from fkd.catalog.methods.cost import Cost, kernel_cost
from fkd.catalog.methods.extras import Extra
from fkd.catalog.methods.ladder import first_strengths, next_strength
from fkd.core.arrays import Array
from fkd.core.basis_moments import BasisMoments, basis_moments
from fkd.core.feature_maps import FeatureMap, make_map
from fkd.core.moments import Moments, training_moments
from fkd.core.predictors import Predictor
from fkd.core.sensitive_basis import BasisSettings, SplineBasis, centred


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


def later(default: Any, **metadata: Any) -> Any:
    """Return a field that a method got after its first numbers were stored.

    Where it has its default it is left out of descriptions, so that trials from before it keep
    their keys.
    """
    return field(default=default, metadata={**metadata, "later": True})


@dataclass(frozen=True)
class Approximation:
    """How the kernel is represented: exactly, or by a reduced set of features."""

    kind: str = field(
        default="exact", metadata={"choices": ("exact", "nystroem", "fourier", "auto")}
    )
    landmarks: int = number(1000, at_least=1)
    landmark_method: str = field(
        default="rpcholesky", metadata={"choices": ("rpcholesky", "uniform")}
    )
    # One map for all splits, from reserved rows that no split tests on; moments then add up.
    shared: bool = False


Reduced = tuple[FeatureMap, Moments]
GIVEN = ("none", "y")


@dataclass(frozen=True)
class Functions:
    """Which functions of s a prediction should not covary with, beyond what is legitimate."""

    basis: BasisSettings
    given: str = "none"

    def columns(self, S: Array, y: Array) -> Callable[[Array, Array], tuple[Array, Array | None]]:
        """Return from rows that every split trains on how to get basis and given of any rows."""
        # Sensitive columns come in units of their fixed range.
        basis = centred(self.basis.fit(S, [(0.0, 1.0)] * S.shape[1]), S)
        if self.given != "y":
            return lambda S, y: (basis(S), None)
        legitimate = centred(SplineBasis.of(y[:, None]), y[:, None])
        return lambda S, y: (basis(S), legitimate(y[:, None]))


def rbf_map(X: Array, gamma: float, approximation: Approximation, seed: int) -> FeatureMap:
    """Return the RBF feature map of rows X that an approximation asks for."""
    return make_map(
        X,
        kernel="rbf",
        gamma=gamma,
        approximation=approximation.kind,
        landmarks=min(approximation.landmarks, len(X)),
        landmark_method=approximation.landmark_method,
        random_state=seed,
    )


@dataclass(frozen=True)
class Training:
    """Rows of one training fold, with the factorisations that its methods share."""

    X: Array  # (n, d)
    y: Array  # (n,)
    S: Array  # (n, l)
    seed: int
    reduce: Callable[[float, Approximation], Reduced] | None = field(
        default=None, repr=False, compare=False
    )  # where a shared map's moments come from
    couple: Callable[[float, Approximation, Functions], BasisMoments] | None = field(
        default=None, repr=False, compare=False
    )  # where its products with functions of s come from
    _maps: dict[Hashable, Reduced] = field(default_factory=dict, repr=False, compare=False)
    _sums: dict[Hashable, BasisMoments] = field(default_factory=dict, repr=False, compare=False)

    def reduced(self, gamma: float, approximation: Approximation) -> Reduced:
        """Return the RBF feature map of these rows with its moments, made once per setting."""
        key = (gamma, approximation)
        if key not in self._maps:
            make = self._shared if approximation.shared else self._own
            self._maps[key] = make(gamma, approximation)
        return self._maps[key]

    def _own(self, gamma: float, approximation: Approximation) -> Reduced:
        """Return the map made from these rows with its moments."""
        feature_map = rbf_map(self.X, gamma, approximation, self.seed)
        return feature_map, training_moments(feature_map, self.X, self.S, self.y)

    def _shared(self, gamma: float, approximation: Approximation) -> Reduced:
        """Return the map of all splits with these rows' part of its moments."""
        if self.reduce is None:
            raise ValueError(_NOTHING_RESERVED)
        return self.reduce(gamma, approximation)

    def coupled(
        self, gamma: float, approximation: Approximation, functions: Functions
    ) -> BasisMoments:
        """Return products of the features with functions of s, made once per setting."""
        key = (gamma, approximation, functions)
        if key not in self._sums:
            make = self._couple_shared if approximation.shared else self._couple_own
            self._sums[key] = make(gamma, approximation, functions)
        return self._sums[key]

    def _couple_own(
        self, gamma: float, approximation: Approximation, functions: Functions
    ) -> BasisMoments:
        """Return the products on the map of these rows, from functions that they decide."""
        B, Z = functions.columns(self.S, self.y)(self.S, self.y)
        return basis_moments(self.reduced(gamma, approximation)[0], self.X, B, Z)

    def _couple_shared(
        self, gamma: float, approximation: Approximation, functions: Functions
    ) -> BasisMoments:
        """Return these rows' part of the products on the map of all splits."""
        if self.couple is None:
            raise ValueError(_NOTHING_RESERVED)
        return self.couple(gamma, approximation, functions)


_NOTHING_RESERVED = (
    "approximation.shared must be False where no rows are reserved for a shared map, "
    "got True; set folds.reserve"
)
# On these problems a bare name means what was published; there alone it can be compared.
PUBLISHED_PROBLEMS = ("crimes", "acs_income", "acs_travel_time")
# As published, neither is done. Removal then spends its first direction on the mean of s, and a
# predictor without a constant cannot reach the level of the target: anywhere else both are on.
_FORM = ("center_sensitive", "fit_intercept")


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
        Whether it stands in no paper: a bare name then means our own form on every problem.
    extra
        Optional packages without which `fit` refuses to start; None where the core is enough.
    cost
        What several settings cost on n rows of d inputs, for planning.
    functions
        Which functions of s a setting needs products of the features with; None for none.
    """

    name: str
    title: str
    parameters: type
    fit: Callable[[Training, Sequence[Any]], Iterator[Predictor]]
    version: int = 1
    strength: str | None = None
    published: Mapping[str, Published] = field(default_factory=dict)
    shared: Callable[[Any], Hashable] = _nothing_shared
    represent: Callable[[Training, Any, Array], Array] | None = None
    unremoved: Callable[[Training, Any, Array], Array] | None = None
    needs_sensitive: bool = False
    ours: bool = False
    extra: Extra | None = None
    cost: Callable[[Sequence[Any], int, int], Cost] = kernel_cost
    functions: Callable[[Any], Functions | None] = _no_functions

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
        if problem in PUBLISHED_PROBLEMS or self.strength is None:
            return paper.grid
        others = {name: values for name, values in paper.grid.items() if name != self.strength}
        return {self.strength: first_strengths(self._strength_field()), **others}

    def next_strength(self, last: float) -> float | None:
        """Return the strength that a growing grid tries after the last one, None at its end."""
        return None if self.strength is None else next_strength(self._strength_field(), last)

    def _strength_field(self) -> "Field[Any]":
        return next(f for f in fields(self.parameters) if f.name == self.strength)

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
        assert self.strength is not None
        nothing = type(getattr(parameters, self.strength))(0)
        plain = replace(parameters, **{self.strength: nothing})
        return self.represent(training, plain, X)

    def strength_of(self, parameters: Any) -> float:
        """Return the strength of a setting, 0 where the method has none."""
        return float(getattr(parameters, self.strength)) if self.strength else 0.0

    def removes_nothing(self, parameters: Any) -> bool:
        """Return whether a setting is a plain machine: one of strength 0, or of no fair method."""
        if self.strength is None:
            return self.represent is None
        return self.strength_of(parameters) == 0

    def describe(self, parameters: Any) -> dict[str, Any]:
        """Return the parameters as a plain dictionary, nested ones included."""
        plain = asdict(parameters)
        for f in fields(parameters):
            if f.metadata.get("later") and plain[f.name] == f.default:
                del plain[f.name]
        return plain

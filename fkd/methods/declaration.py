"""Declaration of a method: parameters, strength, published grids, fit, cost.

`number` and `option` declare parameters with the values that a configuration accepts. `Cost` is an
estimate of time and memory, for planning.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any, Literal

from fkd.baselines.base import Extra
from fkd.core.arrays import BLOCK_ROWS, Array
from fkd.core.conditioning import Functions
from fkd.core.predictors import Predictor
from fkd.core.svm import STATE_BYTES
from fkd.core.svr import PRECOMPUTED_ROWS
from fkd.core.training import Training

# Work of libsvm per pair of rows, in multiplications of a matrix product: 1.3 s for 4370 rows on a
# machine whose products run at 70 GF/s.
_SVR_PER_PAIR = 5000.0
# Usual number of passes of the batched solver, of two products each.
_PASSES = 50


@dataclass(frozen=True)
class Cost:
    """Floating point operations, and the largest memory at one time in bytes."""

    flops: float
    bytes: float


def kernel_cost(settings: Sequence[Any], n: int, d: int) -> Cost:
    """Return the cost of kernel methods on n rows of d inputs; nearly 0 for other methods.

    Settings of one kernel share its factor. A setting that has a `C` fits a support vector machine.
    """
    kernels = {
        (p.gamma, getattr(p, "approximation", None)) for p in settings if hasattr(p, "gamma")
    }
    factors = [_factor(approximation, n, d) for _, approximation in kernels]
    batched, machines = [], []
    for p in settings:
        if getattr(p, "solver", None) == "batched":
            batched.append(p)
        elif hasattr(p, "C"):
            machines.append(p)
    paths = sum(4.0 * n * getattr(p, "iterations", 0) * min(n, 1000) for p in settings)
    # Plain and fair kernel matrix, or plain and fair features.
    width = max((_width(p, n) for p in machines), default=0)
    return Cost(
        flops=sum(f.flops for f in factors)
        + len(machines) * _SVR_PER_PAIR * n**2
        + sum(_PASSES * 4.0 * n * _width(p, n) for p in batched)
        + paths
        + 1e6,
        bytes=sum(f.bytes for f in factors)
        + 8.0 * 2 * n * width
        + min(4.0 * n * len(batched), STATE_BYTES)
        + 1e7,
    )


def streaming_flops(approximation: Any, n: int, d: int) -> float:
    """Return the cost of one pass over n rows: kernel, whitening, moments."""
    q = min(int(approximation.landmarks), n)
    return 2.0 * n * q * (d + q)


def _width(setting: Any, n: int) -> int:
    """Return the number of columns of the matrix that a support vector machine reads."""
    approximation: Any = getattr(setting, "approximation", None)
    exact = getattr(approximation, "kind", "exact") == "exact"
    batched = getattr(setting, "solver", None) == "batched"
    if exact or (n <= PRECOMPUTED_ROWS and not batched):
        return n
    return min(int(approximation.landmarks), n)


def _factor(approximation: Any, n: int, d: int) -> Cost:
    """Return the cost of one feature map and its moments."""
    kind = getattr(approximation, "kind", "exact")
    if kind == "exact":
        # Kernel matrix, its Cholesky factor, the Gram matrix of that and its factor.
        return Cost(flops=2.0 * n**2 * d + 1.5 * n**3, bytes=8.0 * 4 * n**2)
    q = min(approximation.landmarks, n)
    # Features of one block of rows; under a shared map the rows are also encoded by block.
    held = BLOCK_ROWS * (d + 4.0 * q) + 4.0 * q**2
    if approximation.shared:
        return Cost(flops=2.0 * q**3, bytes=8.0 * held)
    return Cost(flops=streaming_flops(approximation, n, d) + 2.0 * q**3, bytes=8.0 * (held + n * d))


def number(
    default: float,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Any:
    """Return a dataclass field for a number within bounds."""
    bounds = {"gt": above, "ge": at_least, "le": at_most}
    return field(default=default, metadata={k: v for k, v in bounds.items() if v is not None})


def option(default: str, *, choices: Sequence[str]) -> Any:
    """Return a dataclass field for one of several texts."""
    return field(default=default, metadata={"choices": tuple(choices)})


# On these problems a bare name means the published settings, so that numbers can be compared.
PUBLISHED_PROBLEMS = ("crimes", "acs_income", "acs_travel_time")
# False as published. A removal then spends its first direction on the mean of s, and a predictor
# cannot reach the mean of the target. On other problems both are True.
_FORM = ("center_sensitive", "fit_intercept")
# Default strengths of other problems, and the last one that a growing grid tries. Iterations are
# doubled, penalties multiplied by ten, shares end at 1.
_ITERATIONS, _MOST_ITERATIONS = (0, 1, 2, 4, 8, 16), 512
_PENALTIES, _LARGEST_PENALTY = (0.0, 0.01, 0.1, 1.0, 10.0), 1e4
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
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
    """A method that a configuration refers to by name.

    Attributes
    ----------
    parameters
        Frozen dataclass. A configuration accepts its fields, with their types, defaults and bounds.
    fit
        Fits several settings to training rows and yields one predictor per setting, in order. The
        predictor of a setting must not depend on the other settings.
    version
        Part of the key of every trial. Raise it if the numbers change.
    strength
        The parameter that trades accuracy for fairness, None if there is none.
    bound
        A parameter that bounds unfairness in addition to the strength. Its default is no bound.
    published
        Settings of the paper by problem. Other problems use the parameters of ``acs_income`` with a
        short geometric grid of strengths.
    shared
        Settings with equal keys are computed by one task.
    represent
        Returns the features of encoded rows that the fair model uses; None if it has none. The
        report shows how well the sensitive columns can be predicted from them.
    unremoved
        The same features before the removal, for methods without a strength. With a strength they
        are those of `represent` at strength 0.
    needs_sensitive
        True if predictions need the sensitive columns. Figures mark such a method.
    ours
        True if the method is not from a paper. A bare name then means one grid for every problem.
    extra
        Optional packages that `fit` needs.
    cost
        Cost of several settings on n rows of d inputs, for planning.
    functions
        Functions of s whose products with the features a setting needs; None for none.
    in_passes
        True if `fit` reads the kernel matrix by `Training.passes` only, so that it may be stored on
        a cluster.
    weighs
        Where weights of training rows are used: ``"nothing"``; the ``"fit"`` of a method without
        removal; removal and fit, ``"each"`` with weights of its own; or ``"both"`` with the same.
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
        if self.represent is not None and self.strength is None and self.unremoved is None:
            raise ValueError(
                f"unremoved of {self.name} must be given if it has represent but no strength, "
                "got None. Return the features before removal"
            )

    def check_installed(self) -> None:
        """Raise ModuleNotFoundError with the install command if an optional package is missing."""
        if self.extra is not None:
            self.extra.check(self.name)

    def settings(
        self, problem: str, fixed: Mapping[str, Any], grid: Mapping[str, Sequence[Any]] | None
    ) -> list[Any]:
        """Return the settings of a grid over the published values, each overridden by `fixed`.

        Without a grid it is the published one on the problems of the paper, and a short geometric
        one on others.
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
        """Return the values of each parameter of a grid."""
        if grid is None:
            # A fixed parameter is no axis of the default grid.
            return {k: v for k, v in self._default_grid(problem).items() if k not in fixed}
        if unknown := set(grid) - {f.name for f in fields(self.parameters)}:
            raise ValueError(f"grid of {self.name} must name its parameters, got {unknown}")
        return dict(grid)

    def _paper(self, problem: str) -> Published:
        return self.published.get(problem) or self.published.get("acs_income") or Published()

    def _default_grid(self, problem: str) -> Mapping[str, Sequence[Any]]:
        """Return the grid of a bare name."""
        paper = self._paper(problem)
        if problem in PUBLISHED_PROBLEMS or self.strength is None or self.ours:
            return paper.grid
        others = {name: values for name, values in paper.grid.items() if name != self.strength}
        return {self.strength: self._first_strengths(), **others}

    def _first_strengths(self) -> Sequence[float]:
        if self._counts_iterations:
            return _ITERATIONS
        return _SHARES if self._is_share else _PENALTIES

    def next_strength(self, last: float) -> float | None:
        """Return the strength that a growing grid tries after the last one, None at its end."""
        if self.strength is None or self._is_share:
            return None
        if self._counts_iterations:
            return 2 * int(last) if 2 * last <= _MOST_ITERATIONS else None
        return 10 * last if 10 * last <= _LARGEST_PENALTY else None

    @property
    def _counts_iterations(self) -> bool:
        return self.strength is not None and isinstance(self._field(self.strength).default, int)

    @property
    def _is_share(self) -> bool:
        return self.strength is not None and self._field(self.strength).metadata.get("le") == 1

    def _field(self, name: str) -> "Field[Any]":
        return next(f for f in fields(self.parameters) if f.name == name)

    def form(self, problem: str) -> dict[str, bool]:
        """Return the default of `center_sensitive` and `fit_intercept` on a problem."""
        if self.ours:
            return {}
        published = problem in PUBLISHED_PROBLEMS
        return {f.name: not published for f in fields(self.parameters) if f.name in _FORM}

    def features_before(self, training: Training, parameters: Any, X: Array) -> Array:
        """Return the features of `represent` before removal."""
        if self.unremoved is not None:
            return self.unremoved(training, parameters, X)
        assert self.represent is not None
        return self.represent(training, self.without_removal(parameters), X)

    def without_removal(self, parameters: Any) -> Any:
        """Return the same setting at strength 0 and without a bound."""
        changes: dict[str, Any] = {}
        if self.strength is not None:
            changes[self.strength] = type(getattr(parameters, self.strength))(0)
        if self.bound is not None:
            changes[self.bound] = self._field(self.bound).default
        return replace(parameters, **changes)

    def strength_of(self, parameters: Any) -> float:
        """Return the strength of a setting, 0 if the method has none."""
        return float(getattr(parameters, self.strength)) if self.strength else 0.0

    def removes_nothing(self, parameters: Any) -> bool:
        """Return whether a setting removes nothing: strength 0, or a method without fairness."""
        if self.strength is None:
            return self.represent is None
        return bool(parameters == self.without_removal(parameters))

    def describe(self, parameters: Any) -> dict[str, Any]:
        """Return the parameters as a plain dictionary, nested ones included."""
        return asdict(parameters)

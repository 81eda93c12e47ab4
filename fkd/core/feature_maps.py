"""Feature maps: features G(x) whose inner products equal a kernel or approximate it.

Removal and all machines work on the features of a map. `KernelSettings` describes a map and
`make_map` computes it from training rows; it returns

- `ExactMap`: all linearly independent training rows are centres and G Gᵀ = K to rounding;
- `NystroemMap`: a chosen subset of the rows, the landmarks, are the centres;
- `FourierMap`: random cosines of a shift-invariant kernel, independent of the training rows;
- `IdentityMap`: the inputs themselves, for the linear kernel.

`map_arrays` and `map_from_arrays` store a reduced map as plain arrays, and `adequate_landmarks`
estimates how many landmarks a kernel needs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from fkd.core.arrays import BLOCK_ROWS, AnyArray, Array, IntArray, Rows, row_blocks
from fkd.core.kernels import KERNELS, Kernel, KernelColumns, KernelFunction
from fkd.core.landmarks import LANDMARK_METHODS, choose_landmarks, rp_cholesky
from fkd.core.linalg import ShiftedInverse, is_symmetric, psd_factor, solve_lower
from fkd.core.predictors import FourierExpansion, KernelExpansion, MapExpansion, fourier_features
from fkd.core.validation import choice, finite, positive, real_matrix, whole

APPROXIMATIONS = ("exact", "nystroem", "fourier", "identity", "auto")
# Most rows of an exact map by default; it takes well under a minute on two cores.
EXACT_ROWS = 10_000
DEFAULT_LANDMARKS = 1000
# Share of rows, one in eight, that is held out to judge landmarks from the others.
_HELD_OUT = 8
# Landmarks are chosen until they leave this factor less of their own sample than is asked for of
# new rows.
_FURTHER = 4


# How features enter a sum: as kernel values in single or double precision, whitened once after
# summation; or whitened row by row, which costs as much as the sum itself but is most accurate.
SumPrecision = Literal["float32", "float64", "rows"]
SUM_PRECISIONS: tuple[SumPrecision, ...] = ("float32", "float64", "rows")


class FeatureMap(ABC):
    """Features G(x) with G(x)·G(x') equal or close to k(x, x')."""

    independent: ClassVar[bool] = True
    """True if the features of the training rows are linearly independent by construction."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The number r of features."""

    @abstractmethod
    def transform(self, X: Rows) -> Array:
        """Return G(X), (k, r)."""

    @abstractmethod
    def expansion(self, beta: Array, intercept: float = 0.0) -> MapExpansion:
        """Return the predictor f(x) = G(x)·beta + intercept, which can be stored as arrays."""

    @property
    def whitening(self) -> Array | None:
        """The factor L if features are raw columns times L⁻ᵀ, else None."""
        return None

    def raw(self, X: Rows, out: Array, *, precision: str) -> None:
        """Write the columns that are summed over rows to `out`: features, or kernel values.

        Parameters
        ----------
        X, out
            Rows (k, d), output (k, r).
        precision
            ``"rows"`` for features; ``"float64"`` or ``"float32"`` for raw columns in that
            precision, if the map has raw columns.
        """
        out[...] = self.transform(X)

    def training_blocks(self, X: Rows) -> Iterator[Array]:
        """Yield the features of the training rows X, block by block in order."""
        for rows in row_blocks(X.shape[0], BLOCK_ROWS):
            yield self.transform(X[rows])

    def training_slices(self, X: Rows) -> Iterator[tuple[slice, Array]]:
        """Yield the blocks of `training_blocks` with the positions of their rows."""
        start = 0
        for G in self.training_blocks(X):
            yield slice(start, start + len(G)), G
            start += len(G)

    def training_product(self, X: Rows, B: Array) -> Array:
        """Return G B over the training rows X."""
        return np.concatenate([G @ B for G in self.training_blocks(X)])

    def training_adjoint(self, X: Rows, a: Array) -> Array:
        """Return Gᵀ a over the training rows X."""
        total = np.zeros(self.rank)
        for rows, G in self.training_slices(X):
            total += G.T @ a[rows]
        return total

    def with_training_rows(self, X: Rows, rows: IntArray | None) -> "FeatureMap":
        """Return the same map with X as training rows.

        Parameters
        ----------
        X
            Rows (n, d), which include those that the map was made from.
        rows
            Indices of the rows that the map was made from; None for all.
        """
        return self

    def product(self, X: Rows, B: Array) -> Array:
        """Return G(X) B."""
        return np.concatenate(
            [self.transform(X[rows]) @ B for rows in row_blocks(X.shape[0], BLOCK_ROWS)]
        )

    def training_gram(self, X: Rows) -> Array:
        """Return the kernel matrix of the training rows X under this map."""
        G = np.concatenate(list(self.training_blocks(X)))
        return np.asarray(G @ G.T)

    def cross(self, X: Rows, training: Rows) -> Array:
        """Return the kernel block of X against training rows under this map."""
        return self.transform(X) @ self.transform(training).T

    def unrepresented(self, X: Rows, G: Array) -> Array:
        """Return the part of each k(x, x) outside the span of the features, 0 for reduced maps."""
        return np.zeros(X.shape[0])


class LandmarkMap(FeatureMap):
    """G(x) = k(x, Z) L⁻ᵀ with centres Z and K_ZZ = L Lᵀ."""

    kernel: Kernel
    centers: Rows  # Z, (r, d)

    @property
    @abstractmethod
    def L(self) -> Array:
        """The lower triangular factor of the centres' kernel matrix, (r, r)."""

    @property
    def rank(self) -> int:
        """The number of centres, which are linearly independent in feature space."""
        return int(self.centers.shape[0])

    @property
    def whitening(self) -> Array | None:
        """L, since G(x) = k(x, Z) L⁻ᵀ."""
        return self.L

    def raw(self, X: Rows, out: Array, *, precision: str) -> None:
        """Write kernel values of rows X to `out`, or features if `precision` is ``"rows"``."""
        if precision == "rows":
            out[...] = self.transform(X)
        else:
            self.columns(precision == "float32")(X, out)

    def columns(self, single: bool = False) -> KernelColumns:
        """Return the kernel functions of the centres, created once per precision."""
        cache: dict[bool, KernelColumns] = self.__dict__.setdefault("_columns", {})
        return cache.setdefault(single, KernelColumns(self.kernel, self.centers, single))

    def __getstate__(self) -> dict[str, Any]:
        # The cache is rebuilt on demand.
        return {name: value for name, value in self.__dict__.items() if name != "_columns"}

    def transform(self, X: Rows) -> Array:
        """Return G(X), (k, r)."""
        if isinstance(X, csr_array):
            return solve_lower(self.L, self.columns()(X).T).T
        K_ZX = self.kernel(X, self.centers).T
        return solve_lower(self.L, K_ZX).T

    def dual(self, B: Array) -> Array:
        """Return L⁻ᵀ B, the coefficients of kernel values: G(x) B = k(x, Z) L⁻ᵀ B."""
        return np.asarray(solve_triangular(self.L, B, lower=True, trans="T", check_finite=False))

    def product(self, X: Rows, B: Array) -> Array:
        """Return G(X) B without forming G(X)."""
        coefficients = self.dual(B)
        blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        return np.concatenate(
            [self.kernel(X[rows], self.centers) @ coefficients for rows in blocks]
        )

    def expansion(self, beta: Array, intercept: float = 0.0) -> KernelExpansion:
        """Return f(x) = k(x, Z) L⁻ᵀ beta + intercept."""
        k = self.kernel
        return KernelExpansion(
            k.name, k.gamma, k.degree, k.coef0, self.centers, self.dual(beta), intercept
        )


@dataclass(frozen=True)
class ExactMap(LandmarkMap):
    """The map of all training rows: G Gᵀ = K to rounding.

    A singular kernel matrix (duplicate rows, low rank) is factored with pivoting, and only
    linearly independent rows become centres.
    """

    kernel: Kernel
    centers: Rows
    G: Array  # (n, r), features of the training rows
    pivots: IntArray | None  # G[pivots] is lower triangular; None if G itself is

    @classmethod
    def from_rows(cls, kernel: Kernel, X: Rows) -> "ExactMap":
        """Return the exact map of the rows of X."""
        G, pivots = psd_factor(kernel.gram(X), overwrite=True)
        rows = kernel.rows(X)
        return cls(kernel, rows.copy() if pivots is None else rows[pivots], G, pivots)

    @property
    def L(self) -> Array:
        """The lower triangular factor of the centres' kernel matrix, (r, r)."""
        return self.G if self.pivots is None else self.G[self.pivots]

    def training_blocks(self, X: Rows) -> Iterator[Array]:
        """Yield G, the stored features of the training rows."""
        if X.shape[0] != len(self.G):
            raise ValueError(
                f"X must be the {len(self.G)} training rows of the exact map, got {X.shape[0]} rows"
            )
        yield self.G

    def with_training_rows(self, X: Rows, rows: IntArray | None) -> "ExactMap":
        """Return the map with the features of all rows X; further rows are mapped as new ones."""
        if rows is None:
            return self
        G = np.empty((X.shape[0], self.rank))
        others = np.setdiff1d(np.arange(X.shape[0]), rows)
        G[rows] = self.G
        for part in row_blocks(len(others), BLOCK_ROWS):
            G[others[part]] = self.transform(X[others[part]])
        return replace(self, G=G, pivots=rows if self.pivots is None else rows[self.pivots])

    def training_gram(self, X: Rows) -> Array:
        """Return the kernel matrix of the training rows."""
        return self.kernel.gram(X)

    def cross(self, X: Rows, training: Rows) -> Array:
        """Return k(X, training), including the part outside the span of the training rows."""
        return np.asarray(self.kernel(X, self.kernel.rows(training)))

    def unrepresented(self, X: Rows, G: Array) -> Array:
        """Return k(x, x) - |G(x)|², the part outside the span of the training rows."""
        # Rounding can make it slightly negative within the span.
        return np.asarray(np.maximum(self.kernel.diag(X) - np.einsum("ij,ij->i", G, G), 0.0))


@dataclass(frozen=True)
class NystroemMap(LandmarkMap):
    """The map of chosen rows, the landmarks. It represents the part of a row in their span."""

    kernel: Kernel
    centers: Rows
    factor: Array  # L, (r, r)

    @classmethod
    def from_landmarks(cls, kernel: Kernel, X: Rows, landmarks: IntArray) -> "NystroemMap":
        """Return the map of these rows of X without linearly dependent ones."""
        rows = kernel.rows(X)[landmarks]
        G, pivots = psd_factor(np.asfortranarray(kernel(X[landmarks], rows)), overwrite=True)
        if pivots is None:
            return cls(kernel, rows, G)
        return cls(kernel, rows[pivots], G[pivots])

    @property
    def L(self) -> Array:
        """The lower triangular factor of the centres' kernel matrix, (r, r)."""
        return self.factor


@dataclass(frozen=True)
class FourierMap(FeatureMap):
    """G(x) = sqrt(2/q) cos(x Ω + φ) with Ω drawn from the spectrum of the kernel.

    Rahimi & Recht (2007). The error falls as 1/sqrt(q) for any data.
    """

    independent: ClassVar[bool] = False
    frequencies: Array  # Ω, (d, q)
    phases: Array  # φ, (q,)

    @classmethod
    def from_kernel(
        cls, kernel: Kernel, d: int, q: int, *, rng: np.random.Generator
    ) -> "FourierMap":
        """Return q features of d inputs for a shift-invariant kernel."""
        if kernel.name == "rbf":
            frequencies = rng.normal(scale=np.sqrt(2 * kernel.gamma), size=(d, q))
        elif kernel.name == "laplacian":
            frequencies = kernel.gamma * rng.standard_cauchy(size=(d, q))
        else:
            raise ValueError(
                "approximation='fourier' needs a shift-invariant kernel, rbf or laplacian, "
                f"got {kernel.name!r}. Use approximation='nystroem'"
            )
        return cls(frequencies, rng.uniform(low=0.0, high=2 * np.pi, size=q))

    @property
    def rank(self) -> int:
        """The number q of features."""
        return len(self.phases)

    def transform(self, X: Rows) -> Array:
        """Return G(X), (k, q)."""
        return fourier_features(X, self.frequencies, self.phases)

    def expansion(self, beta: Array, intercept: float = 0.0) -> FourierExpansion:
        """Return f(x) = G(x)·beta + intercept."""
        return FourierExpansion(self.frequencies, self.phases, beta, intercept)


@dataclass(frozen=True)
class IdentityMap(FeatureMap):
    """G(x) = x for the linear kernel. Removal is then iterative null-space projection (INLP)."""

    independent: ClassVar[bool] = False
    d: int

    @property
    def rank(self) -> int:
        """The number of inputs."""
        return self.d

    def transform(self, X: Array) -> Array:
        """Return X in float64."""
        return np.asarray(X, dtype=np.float64)

    def expansion(self, beta: Array, intercept: float = 0.0) -> KernelExpansion:
        """Return f(x) = x·beta + intercept, an expansion with one centre."""
        return KernelExpansion("linear", 1.0, 1, 0.0, beta[None, :], np.ones(1), intercept)


@dataclass(frozen=True)
class Approximation:
    """Representation of a kernel: exact, or by a reduced set of features.

    The metadata of the fields are the values that a configuration accepts.
    """

    kind: str = field(
        default="exact", metadata={"choices": ("exact", "nystroem", "fourier", "auto")}
    )
    landmarks: int = field(default=DEFAULT_LANDMARKS, metadata={"ge": 1})
    landmark_method: str = field(default="rpcholesky", metadata={"choices": LANDMARK_METHODS})
    # One map for all splits, computed from reserved rows that are in no test set. The moments of
    # disjoint rows then add up.
    shared: bool = False
    # Precision of the sums under a shared map. "auto" is the fastest one whose rounding errors are
    # small compared with the ridges.
    sums: str = field(default="auto", metadata={"choices": ("auto", *SUM_PRECISIONS)})
    # Kind "auto": largest share of k(x, x) that the landmarks may leave unexplained. With 0.04 some
    # measures differed from the exact path by more than their deviation over folds
    # (docs/explanation/scale.md).
    accuracy: float = field(default=0.03, metadata={"gt": 0, "lt": 1})


@dataclass(frozen=True)
class KernelSettings:
    """A kernel and its approximation, which together with training rows determine a feature map."""

    kernel: str | KernelFunction = "rbf"
    gamma: float | None = None
    degree: int = 3
    coef0: float = 1.0
    approximation: Approximation = Approximation()

    @classmethod
    def from_estimator(cls, estimator: Any, n: int) -> "KernelSettings":
        """Return kernel and approximation of an estimator with these parameters, for n rows."""
        kind = choice("approximation", estimator.approximation, APPROXIMATIONS)
        if kind == "auto":
            kind = "exact" if n <= EXACT_ROWS else "nystroem"
        landmarks = DEFAULT_LANDMARKS
        if estimator.landmarks is not None and kind in ("nystroem", "fourier"):
            most = n if kind == "nystroem" else None
            landmarks = whole("landmarks", estimator.landmarks, low=1, high=most)
        return cls(
            estimator.kernel,
            estimator.gamma,
            estimator.degree,
            estimator.coef0,
            Approximation(kind, landmarks, estimator.landmark_method),
        )

    def feature_map(self, X: Rows, random_state: Any) -> "FeatureMap":
        """Return the feature map of training rows X, with at most as many landmarks as rows."""
        approximation = self.approximation
        landmarks = approximation.landmarks
        return make_map(
            X,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            approximation=approximation.kind,
            landmarks=landmarks if approximation.kind == "fourier" else min(landmarks, X.shape[0]),
            landmark_method=approximation.landmark_method,
            random_state=random_state,
        )


@dataclass(frozen=True)
class Adequacy:
    """A number of landmarks with the errors to expect of it."""

    landmarks: int
    unexplained: float  # share of k(x, x) outside their span, mean over held-out rows
    halved: float  # change of predictions with half of them, in deviations of the predictions


def make_map(
    X: Rows,
    *,
    kernel: str | KernelFunction = "rbf",
    gamma: float | None = None,
    degree: int = 3,
    coef0: float = 1.0,
    approximation: str = "exact",
    landmarks: int | None = None,
    landmark_method: str = "rpcholesky",
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> FeatureMap:
    """Return the feature map of the training rows X.

    Parameters
    ----------
    X
        Training rows (n, d), validated if sparse; the kernel matrix (n, n) if kernel is
        ``"precomputed"``.
    kernel, gamma, degree, coef0
        As in `fkd.core.kernels.Kernel`; gamma None means 1/d.
    approximation
        ``"exact"``, ``"nystroem"``, ``"fourier"``, ``"identity"`` (the inputs as
        features, for the linear kernel only) or ``"auto"``: exact up to 10 000 rows, Nystroem
        beyond.
    landmarks
        The number q of landmarks or Fourier features; None means 1000, at most n for landmarks.
    landmark_method
        ``"rpcholesky"`` or ``"uniform"``.
    random_state
        Seed of the landmarks or frequencies.
    """
    X = X if isinstance(X, csr_array) else real_matrix("X", X)
    k = make_kernel(X, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0)
    choice("approximation", approximation, APPROXIMATIONS)
    choice("landmark_method", landmark_method, LANDMARK_METHODS)
    n, d = X.shape
    if approximation == "auto":
        approximation = "exact" if n <= EXACT_ROWS else "nystroem"
    if approximation == "exact":
        return ExactMap.from_rows(k, X)
    if approximation == "identity":
        if kernel != "linear":
            raise ValueError(
                "approximation='identity' uses the inputs as features, which is the linear kernel, "
                f"got kernel={kernel!r}. Set kernel='linear' or approximation='exact'"
            )
        return IdentityMap(d)
    rng = _generator(random_state)
    if approximation == "fourier":
        q = whole("landmarks", DEFAULT_LANDMARKS if landmarks is None else landmarks, low=1)
        return FourierMap.from_kernel(k, d, q, rng=rng)
    q = min(DEFAULT_LANDMARKS, n) if landmarks is None else landmarks
    q = whole("landmarks", q, low=1, high=n)
    return NystroemMap.from_landmarks(
        k, X, choose_landmarks(k, X, q, method=landmark_method, rng=rng)
    )


def _generator(
    random_state: int | np.random.RandomState | np.random.Generator | None,
) -> np.random.Generator:
    """Return a generator from any kind of random_state that scikit-learn accepts."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be a whole number, a generator or None, got {random_state!r}"
        ) from error


def make_kernel(
    X: Rows, *, kernel: str | KernelFunction, gamma: float | None, degree: int, coef0: float
) -> Kernel:
    """Return the kernel after validation of its parameters and of the training rows X."""
    if not callable(kernel):
        choice("kernel", kernel, KERNELS)
    if kernel == "precomputed" and not is_symmetric(X):
        raise ValueError(
            f"X must be a symmetric matrix if kernel='precomputed', got shape {X.shape}"
        )
    if finite("coef0", coef0) < 0:
        raise ValueError(f"coef0 must not be negative, got {coef0}. The kernel would be indefinite")
    width = positive("gamma", 1.0 / X.shape[1] if gamma is None else gamma)
    return Kernel(kernel, width, whole("degree", degree, low=1), float(coef0))


def map_arrays(feature_map: FeatureMap) -> dict[str, AnyArray]:
    """Return the arrays from which `map_from_arrays` restores the map bit by bit.

    A map that is computed again on another machine can differ by rounding and therefore in its
    landmarks. Moments under different maps must not be added.
    """
    if isinstance(feature_map, FourierMap):
        return {"frequencies": feature_map.frequencies, "phases": feature_map.phases}
    if isinstance(feature_map, NystroemMap) and not callable(feature_map.kernel.name):
        k = feature_map.kernel
        return {
            "kernel": np.array(k.name),
            "numbers": np.array([k.gamma, k.degree, k.coef0]),
            "centers": feature_map.centers,
            "factor": feature_map.factor,
        }
    raise ValueError(
        "only Nystroem maps of named kernels and Fourier maps can be stored, "
        f"got {type(feature_map).__name__}. Use another approximation"
    )


def map_from_arrays(arrays: Mapping[str, AnyArray]) -> FeatureMap:
    """Return the map that `map_arrays` stored."""
    if "phases" in arrays:
        return FourierMap(arrays["frequencies"], arrays["phases"])
    gamma, degree, coef0 = arrays["numbers"].tolist()
    kernel = Kernel(str(arrays["kernel"]), gamma, int(degree), coef0)
    # Triangular solves read Fortran order without a copy.
    return NystroemMap(kernel, arrays["centers"], np.asfortranarray(arrays["factor"]))


def adequate_landmarks(
    kernel: Kernel,
    X: Array,
    y: Array,
    *,
    accuracy: float,
    most: int,
    alpha: float,
    rng: np.random.Generator,
) -> Adequacy:
    """Return the smallest number of landmarks that leaves at most `accuracy` unexplained.

    Parameters
    ----------
    kernel, X, y
        Kernel, a sample of rows (n, d), their target (n,).
    accuracy
        Share of k(x, x) that may lie outside the span of the landmarks.
    most
        Upper limit of the number, which may leave more unexplained.
    alpha
        Ridge, on these rows, of the regression whose predictions are compared.
    rng
        Draws the held-out rows and the landmarks.
    """
    order = rng.permutation(len(X))
    # Rows among which landmarks are chosen are explained better than new rows.
    held_out, candidates = np.split(order, [max(1, len(X) // _HELD_OUT)])
    chosen = rp_cholesky(kernel, X, candidates, most, rng=rng, accuracy=accuracy / _FURTHER)
    left = _unexplained(kernel, X, candidates[chosen], held_out)
    enough = np.flatnonzero(left <= accuracy)
    q = int(enough[0]) + 1 if len(enough) else len(left)
    landmarks = candidates[chosen[:q]]
    others = order[~np.isin(order, landmarks)]
    train, test = np.array_split(others if len(others) > 1 else order, 2)

    def ridge_predictions(chosen: IntArray) -> Array:
        """Return predictions of ridge regression on a Nystroem map for the test rows."""
        feature_map = NystroemMap.from_landmarks(kernel, X, chosen)
        G = feature_map.transform(X[train])
        mean = y[train].mean()
        share = len(train) / len(X)  # alpha is meant for all rows
        D = ShiftedInverse.from_matrix(G.T @ G, share * alpha, name="alpha")
        return np.asarray(mean + feature_map.transform(X[test]) @ (D @ (G.T @ (y[train] - mean))))

    f, g = (ridge_predictions(some) for some in (landmarks, landmarks[: -(-q // 2)]))
    spread = float(f.std())
    halved = float(np.sqrt(np.mean((f - g) ** 2))) / spread if spread > 0 else 0.0
    return Adequacy(q, max(float(left[q - 1]), 0.0), halved)


def _unexplained(kernel: Kernel, X: Array, landmarks: IntArray, rows: IntArray) -> Array:
    """Return the share of k(x, x) of some rows that the first 1, 2, ... landmarks leave."""
    # Feature j is the part that landmark j adds to the span of those before it.
    G = NystroemMap.from_landmarks(kernel, X, landmarks).transform(X[rows])
    explained = np.cumsum(np.einsum("ij,ij->j", G, G))
    return np.asarray(1.0 - explained / kernel.diag(X[rows]).sum(axis=0))


__all__ = ["ExactMap", "FeatureMap", "FourierMap", "IdentityMap", "NystroemMap", "make_map"]

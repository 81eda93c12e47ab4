"""Predictors: fitted models as plain arrays, which predict without the estimator.

A predictor has `predict`, `arrays` and `from_arrays`; `PREDICTORS` names those that a file may
contain. They are expansions f(x) = k(x, Z)·coef + intercept or f(x) = G(x)·coef + intercept on
random Fourier features, expansions on projected or corrected inputs, a perceptron and a constant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from fkd.core.arrays import BLOCK_ROWS, AnyArray, Array, Rows, row_blocks
from fkd.core.kernels import Kernel, KernelColumns, KernelFunction
from fkd.core.linalg import project, to_dense
from fkd.core.validation import check_finite_result, validate_rows

# Klambauer et al. (2017): with these constants SELU keeps mean 0 and variance 1 through a layer.
SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772
# Batches whose rows are gathered at a time in training. 64 batches of any size end at a
# boundary of vector registers, so that no result depends on the number of gathers.
TAKEN_BATCHES = 64


class Predictor(Protocol):
    """A fitted model that can be stored as arrays."""

    def predict(self, X: Any) -> Array:
        """Return one prediction per row of X."""

    def arrays(self) -> dict[str, AnyArray]:
        """Return plain numeric or text arrays that `from_arrays` reads."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the predictor that `arrays` was taken from."""


def predict_rows(estimator: Any, X: Any) -> Array:
    """Return the predictions of a fitted estimator's `expansion_`, (k,) or (k, t)."""
    check_is_fitted(estimator, "expansion_")
    with np.errstate(over="ignore", invalid="ignore"):
        found = estimator.expansion_.predict(validate_rows(estimator, X, reset=False))
    check_finite_result("predictions", found)
    return np.asarray(found)


class _Stored:
    """A dataclass of arrays and single values, which are stored under the names of its fields."""

    def arrays(self) -> dict[str, AnyArray]:
        """Return the fields as arrays."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the object that `arrays` was taken from."""
        stored = {name: np.asarray(arrays[name]) for name in cls.__annotations__}
        return cls(
            **{name: value if value.ndim else value.item() for name, value in stored.items()}
        )


@dataclass(frozen=True)
class KernelExpansion(_Stored):
    """f(x) = k(x, Z)·coef + intercept."""

    kernel: str | KernelFunction
    gamma: float
    degree: int
    coef0: float
    centers: Rows  # Z, (q, d)
    coef: Array  # (q,)
    intercept: float = 0.0

    def predict(self, X: Any) -> Array:
        """Return f of each row of X."""
        width = None if self.kernel == "precomputed" else self.centers.shape[1]
        return _expansions([self], _rows(X, width))[0]

    def arrays(self) -> dict[str, AnyArray]:
        """Return the fields as arrays."""
        if callable(self.kernel):
            raise ValueError(
                f"kernel must be a named kernel to be exported, got {self.kernel!r}. "
                "A function cannot be stored as arrays"
            )
        return super(KernelExpansion, replace(self, centers=to_dense(self.centers))).arrays()


def fourier_features(X: AnyArray | csr_array, frequencies: Array, phases: Array) -> Array:
    """Return sqrt(2/q) cos(X Ω + φ); float32 rows are mapped in float32."""
    A = X @ frequencies.astype(X.dtype, copy=False)
    A += phases.astype(X.dtype, copy=False)
    np.cos(A, out=A)
    G = np.asarray(A, dtype=np.float64)
    G *= np.sqrt(2.0 / len(phases))
    return G


@dataclass(frozen=True)
class FourierExpansion(_Stored):
    """f(x) = sqrt(2/q) cos(x Ω + φ)·coef + intercept."""

    frequencies: Array  # Ω, (d, q)
    phases: Array  # φ, (q,)
    coef: Array  # (q,)
    intercept: float = 0.0

    def predict(self, X: Any) -> Array:
        """Return f of each row of X."""
        X = _rows(X, len(self.frequencies))
        blocks = [
            fourier_features(X[rows], self.frequencies, self.phases) @ self.coef
            for rows in row_blocks(X.shape[0], BLOCK_ROWS)
        ]
        return np.concatenate(blocks) + self.intercept


# Predictors of the feature maps.
MapExpansion = KernelExpansion | FourierExpansion


@dataclass(frozen=True)
class TargetExpansions:
    """f(x) = (f₁(x), ..., f_k(x)): one expansion per target."""

    parts: tuple[MapExpansion, ...]

    def predict(self, X: Any) -> Array:
        """Return one column of predictions per target, (n, k), equal to those of each part."""
        return np.column_stack(predict_all(self.parts, _rows(X, None)))

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of all parts, numbered."""
        return {
            f"{i}.{name}": value
            for i, part in enumerate(self.parts)
            for name, value in part.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the expansions that `arrays` was taken from."""
        numbered: dict[int, dict[str, AnyArray]] = {}
        for key, value in arrays.items():
            i, _, name = key.partition(".")
            numbered.setdefault(int(i), {})[name] = value
        return cls(tuple(_map_expansion(numbered[i]) for i in sorted(numbered)))


@dataclass(frozen=True)
class ProjectedExpansion:
    """f(x) = g(x - U Uᵀ x), a kernel expansion on inputs without the removed directions."""

    inner: KernelExpansion
    U: Array  # (d, w), orthonormal

    def predict(self, X: Any) -> Array:
        """Return f of each row of X."""
        X = _rows(X, len(self.U))
        return self.inner.predict(project(X, self.U))

    def arrays(self) -> dict[str, AnyArray]:
        """Return the fields of the inner expansion and the directions."""
        return {**self.inner.arrays(), "U": self.U}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the expansion that `arrays` was taken from."""
        return cls(KernelExpansion.from_arrays(arrays), arrays["U"])


@dataclass(frozen=True)
class LinearCorrection(_Stored):
    """An affine map of low rank, x ↦ x[:d] - (x - mean) R Lᵀ, that removes sensitive information.

    Its input may have more columns than the d of its output. The additional ones, such as the
    sensitive attribute, only enter the correction.
    """

    mean: Array  # (d + l,) or (d,)
    R: Array  # one row per input column, (len(mean), w)
    L: Array  # one row per output column, (d, w)

    def __call__(self, X: Array) -> Array:
        """Return the corrected rows, (k, d)."""
        return X[:, : len(self.L)] - ((X - self.mean) @ self.R) @ self.L.T

    def pulled_back(self, beta: Array) -> tuple[Array, float]:
        """Return weights and intercept on plain rows that equal `beta` on corrected rows."""
        self.check_whole()
        w = self.R @ (self.L.T @ beta)
        return beta - w, float(self.mean @ w)

    def check_whole(self) -> None:
        """Raise unless the correction returns as many columns as it takes."""
        if len(self.L) != len(self.R):
            raise ValueError(
                f"a correction must return the {len(self.R)} columns that it takes to be pulled "
                f"back, got {len(self.L)} columns"
            )


@dataclass(frozen=True)
class CorrectedExpansion:
    """f(x) = g(correction(x)), an expansion on corrected inputs."""

    inner: MapExpansion
    correction: LinearCorrection

    def predict(self, X: Any) -> Array:
        """Return f of each row of X."""
        return self.inner.predict(self.correction(_rows(X, len(self.correction.mean))))

    def arrays(self) -> dict[str, AnyArray]:
        """Return the fields of the inner expansion and of the correction."""
        return {**self.inner.arrays(), **self.correction.arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the expansion that `arrays` was taken from."""
        return cls(_map_expansion(arrays), LinearCorrection.from_arrays(arrays))


@dataclass(frozen=True)
class SensitiveExpansion:
    """f(x, s) = g(x) + s·slopes, for rows whose last columns are s."""

    inner: MapExpansion
    slopes: Array  # (l,)

    def predict(self, X: Any) -> Array:
        """Return f of each row (x, s)."""
        d = _inputs(self.inner)
        X = _rows(X, d + len(self.slopes))
        return np.asarray(self.inner.predict(X[:, :d]) + X[:, d:] @ self.slopes)

    def arrays(self) -> dict[str, AnyArray]:
        """Return the fields of the inner expansion and the slopes."""
        return {**self.inner.arrays(), "slopes": self.slopes}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the expansion that `arrays` was taken from."""
        return cls(_map_expansion(arrays), arrays["slopes"])


def selu(A: Array) -> Array:
    """Return scale·A for positive A, scale·alpha·(exp(A) - 1) otherwise."""
    negative = SELU_ALPHA * np.expm1(np.minimum(A, 0.0))
    activated: Array = SELU_SCALE * np.where(A > 0, A, negative)
    return activated


@dataclass(frozen=True)
class Perceptron:
    """A network of fully connected layers with SELU activations and one linear output."""

    weights: tuple[Array, ...]  # (d, w₁), (w₁, w₂), ..., (w, 1)
    biases: tuple[Array, ...]  # (w₁,), (w₂,), ..., (1,)

    def predict(self, X: Any) -> Array:
        """Return f of each row of X."""
        A: Array = np.asarray(X, dtype=np.float64)
        blocks = [
            self.hidden(A[rows]) @ self.weights[-1][:, 0] for rows in row_blocks(len(A), BLOCK_ROWS)
        ]
        f: Array = np.concatenate(blocks) + self.biases[-1][0]
        return f

    def hidden(self, X: Any) -> Array:
        """Return the last hidden layer, the input of the linear output."""
        Z: Array = np.asarray(X, dtype=np.float64)
        d = len(self.weights[0])
        if Z.ndim != 2 or Z.shape[1] != d:
            raise ValueError(f"X must be two-dimensional with {d} columns, got shape {Z.shape}")
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            Z = selu(Z @ W + b)
        return Z

    def arrays(self) -> dict[str, AnyArray]:
        """Return weights and biases, numbered from the input."""
        weights = {f"W{i}": W for i, W in enumerate(self.weights)}
        return weights | {f"b{i}": b for i, b in enumerate(self.biases)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the network that `arrays` was taken from."""
        depth = sum(name.startswith("W") for name in arrays)
        return cls(
            tuple(arrays[f"W{i}"] for i in range(depth)),
            tuple(arrays[f"b{i}"] for i in range(depth)),
        )


@dataclass(frozen=True)
class ConstantPrediction(_Stored):
    """f(x) = value."""

    value: float

    def predict(self, X: Any) -> Array:
        """Return the value once per row of X."""
        return np.full(X.shape[0] if isinstance(X, csr_array) else len(X), self.value)


PREDICTORS: dict[str, type[Predictor]] = {
    "kernel": KernelExpansion,
    "fourier": FourierExpansion,
    "projected": ProjectedExpansion,
    "corrected": CorrectedExpansion,
    "sensitive": SensitiveExpansion,
    "perceptron": Perceptron,
    "constant": ConstantPrediction,
}


def _map_expansion(arrays: Mapping[str, AnyArray]) -> MapExpansion:
    """Return the expansion whose arrays are among these."""
    kind = KernelExpansion if "kernel" in arrays else FourierExpansion
    return kind.from_arrays(arrays)


def _inputs(inner: MapExpansion) -> int:
    """Return the number of inputs of an expansion."""
    return inner.centers.shape[1] if isinstance(inner, KernelExpansion) else len(inner.frequencies)


def _rows(X: Any, width: int | None) -> Rows:
    """Return X as float64 rows of the expected width; sparse rows stay sparse."""
    A: Rows = X if isinstance(X, csr_array) else np.asarray(X, dtype=np.float64)
    if A.ndim != 2 or (width is not None and A.shape[1] != width):
        raise ValueError(f"X must be two-dimensional with {width} columns, got shape {A.shape}")
    return A


def predict_all(predictors: Sequence[Predictor], X: Rows) -> list[Array]:
    """Return each model's predictions, the same bits that its own `predict` gives.

    Models on the same centres read each kernel block once: it costs as much as hundreds of them.
    """
    alike: dict[object, list[int]] = {}
    for i, predictor in enumerate(predictors):
        alike.setdefault(_kernel_key(predictor, i), []).append(i)
    found: dict[int, Array] = {}
    for members in alike.values():
        group = [p for i in members if isinstance(p := predictors[i], KernelExpansion)]
        shared = len(group) > 1
        predictions = _expansions(group, X) if shared else [predictors[members[0]].predict(X)]
        found.update(zip(members, predictions, strict=True))
    return [found[i] for i in range(len(predictors))]


def _kernel_key(predictor: Predictor, i: int) -> object:
    """Return what models must have in common to share kernel blocks."""
    if type(predictor) is not KernelExpansion:
        return i
    p = predictor
    return p.kernel, p.gamma, p.degree, p.coef0, id(p.centers)


def _expansions(group: Sequence[KernelExpansion], X: Rows) -> list[Array]:
    """Return the predictions of kernel expansions on one set of centres."""
    first = group[0]
    k = Kernel(first.kernel, first.gamma, first.degree, first.coef0)
    columns, n = KernelColumns(k, first.centers), X.shape[0]
    out = np.empty((len(group), n))
    for rows in row_blocks(n, BLOCK_ROWS):
        K = columns(X[rows])
        for values, p in zip(out, group, strict=True):
            # One product per model: a product with several columns would round by their number.
            values[rows] = K @ p.coef
    return [values + p.intercept for values, p in zip(out, group, strict=True)]

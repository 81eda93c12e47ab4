"""The rows that a method is fitted to, with what its settings share of them."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from fkd.catalog.methods.bounds import number, option
from fkd.core.arrays import Array, IntArray, Rows
from fkd.core.feature_maps import FeatureMap, make_map
from fkd.core.kernels import Kernel
from fkd.core.moments import SUM_PRECISIONS, BasisMoments, Moments, basis_moments, training_moments
from fkd.core.sensitive_basis import BasisSettings, SplineBasis, centred
from fkd.core.svm import Source
from fkd.core.weights import UNWEIGHTED, Part, RowWeights
from fkd.estimators.many_rows import map_source
from fkd.paper.kernel_tiles import KernelPasses, KernelRows

# Up to so many training rows a kernel matrix that is read in passes is made once, held whole.
WHOLE_ROWS = 10_000

_NOTHING_RESERVED = (
    "approximation.shared must be False where no rows are reserved for a shared map, "
    "got True; set folds.reserve"
)


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
    # How rows are summed under a shared map: `fkd.core.moments` has the ways, auto takes the
    # fastest one that is exact enough for a setting's ridges.
    sums: str = option("auto", choices=("auto", *SUM_PRECISIONS))
    # Kind auto: share of k(x, x) that landmarks may leave unexplained. With 0.04 some measures of
    # some states lay further from the exact path than a deviation over folds: docs/scale.md.
    accuracy: float = option(0.03, gt=0, lt=1)


Reduced = tuple[FeatureMap, Moments]
GIVEN = ("none", "y")


@dataclass(frozen=True)
class Functions:
    """Which functions of s a prediction should not covary with, beyond what is legitimate."""

    basis: BasisSettings
    given: str = "none"

    def columns(
        self, S: Array, y: Array, w: Array | None = None
    ) -> Callable[[Array, Array], tuple[Array, Array | None]]:
        """Return from rows that every split trains on how to get basis and given of any rows.

        These rows count w times, once where that is None.
        """
        # Sensitive columns come in units of their fixed range.
        basis = centred(self.basis.fit(S, [(0.0, 1.0)] * S.shape[1], w=w), S, w)
        if self.given != "y":
            return lambda S, y: (basis(S), None)
        legitimate = centred(SplineBasis.from_rows(y[:, None], w), y[:, None], w)
        return lambda S, y: (basis(S), legitimate(y[:, None]))


def rbf_map(X: Rows, gamma: float, approximation: Approximation, seed: int) -> FeatureMap:
    """Return the RBF feature map of rows X that an approximation asks for."""
    return make_map(
        X,
        kernel="rbf",
        gamma=gamma,
        approximation=approximation.kind,
        landmarks=min(approximation.landmarks, X.shape[0]),
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
    reduce: Callable[[float, Approximation, Part], Reduced] | None = field(
        default=None, repr=False, compare=False
    )  # where a shared map's moments come from
    couple: Callable[[float, Approximation, Functions], BasisMoments] | None = field(
        default=None, repr=False, compare=False
    )  # where its products with functions of s come from
    stream: Callable[[float, Approximation], Source] | None = field(
        default=None, repr=False, compare=False
    )  # where its features come from, block by block
    passes: Callable[[float, IntArray], KernelPasses] | None = field(
        default=None, repr=False, compare=False
    )  # where a kernel matrix lies that is read in passes
    weights: RowWeights = field(default=UNWEIGHTED, repr=False, compare=False)  # of these rows
    _maps: dict[tuple[float, Approximation, Part], Reduced] = field(
        default_factory=dict, repr=False, compare=False
    )
    _sums: dict[Hashable, BasisMoments] = field(default_factory=dict, repr=False, compare=False)

    def rows(self, positions: IntArray) -> Array:
        """Return some of the rows; where X is not at hand, they alone are encoded."""
        return np.asarray(self.X[positions])

    def reading(self, passes: Callable[[float, IntArray], KernelPasses]) -> "Training":
        """Return the same rows with a kernel matrix that lies elsewhere."""
        return replace(self, passes=passes)

    def reduced(self, gamma: float, approximation: Approximation, part: Part = "fit") -> Reduced:
        """Return the RBF feature map of these rows with its moments, made once per setting.

        The moments are those that the machine is made from, unless another part is named.
        """
        key = (gamma, approximation, self.weights.alike_part(part))
        if key not in self._maps:
            make = self._shared if approximation.shared else self._own
            self._maps[key] = make(*key)
        return self._maps[key]

    def _own(self, gamma: float, approximation: Approximation, part: Part) -> Reduced:
        """Return the map made from these rows with its moments."""
        known = (
            found for key, (found, _) in self._maps.items() if key[:2] == (gamma, approximation)
        )
        feature_map = next(known, None) or rbf_map(self.X, gamma, approximation, self.seed)
        w = self.weights.by(part)
        return feature_map, training_moments(feature_map, self.X, self.S, self.y, w)

    def _shared(self, gamma: float, approximation: Approximation, part: Part) -> Reduced:
        """Return the map of all splits with these rows' part of its moments."""
        if self.reduce is None:
            raise ValueError(_NOTHING_RESERVED)
        return self.reduce(gamma, approximation, part)

    def streamed(self, gamma: float, approximation: Approximation) -> Source:
        """Return the features of these rows as blocks in single precision, read pass by pass."""
        if not approximation.shared:
            feature_map, _ = self.reduced(gamma, approximation, "once")
            return map_source(feature_map, self.X, self.y, np.float32, self.weights.fit)
        if self.stream is None:
            raise ValueError(_NOTHING_RESERVED)
        return self.stream(gamma, approximation)

    def kernel_passes(self, gamma: float, landmarks: IntArray) -> KernelPasses:
        """Return the RBF kernel matrix of these rows, with the columns of some of them."""
        if self.passes is not None:
            return self.passes(gamma, landmarks)
        kernel = Kernel("rbf", gamma)
        if len(self.X) > WHOLE_ROWS:
            return KernelRows(kernel, self.X, landmarks)
        return KernelRows(Kernel("precomputed"), kernel.gram(self.X), landmarks)

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
        w = self.weights.removal
        B, Z = functions.columns(self.S, self.y, w)(self.S, self.y)
        feature_map, _ = self.reduced(gamma, approximation)
        return basis_moments(feature_map, self.X, B, Z, w)

    def _couple_shared(
        self, gamma: float, approximation: Approximation, functions: Functions
    ) -> BasisMoments:
        """Return these rows' part of the products on the map of all splits."""
        if self.couple is None:
            raise ValueError(_NOTHING_RESERVED)
        return self.couple(gamma, approximation, functions)

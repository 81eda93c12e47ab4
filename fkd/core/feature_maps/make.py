"""Choice of the feature map that a setting asks for."""

import numpy as np
from scipy.sparse import csr_array

from fkd.core.arrays import Rows
from fkd.core.border import real_matrix
from fkd.core.feature_maps.feature_map import FeatureMap
from fkd.core.feature_maps.fourier import FourierMap
from fkd.core.feature_maps.identity import IdentityMap
from fkd.core.feature_maps.landmark_maps import ExactMap, NystroemMap
from fkd.core.feature_maps.landmarks import LANDMARK_METHODS, choose_landmarks
from fkd.core.kernels import KERNELS, OF_PRODUCTS, Kernel, KernelFunction
from fkd.core.linalg import is_symmetric
from fkd.core.parameters import choice, finite, positive, whole

APPROXIMATIONS = ("exact", "nystroem", "fourier", "identity", "auto")
# Up to here the exact map takes well under a minute on two cores.
EXACT_ROWS = 10_000
DEFAULT_LANDMARKS = 1000


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
        Training rows (n, d), sparse ones checked already; the kernel matrix (n, n) where kernel
        is ``"precomputed"``.
    kernel, gamma, degree, coef0
        As in `fkd.core.kernels.Kernel`; gamma None means 1/d.
    approximation
        ``"exact"``, ``"nystroem"``, ``"fourier"``, ``"identity"`` (the inputs as their own
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
        return ExactMap.of(k, X)
    if approximation == "identity":
        _require_linear(kernel)
        return IdentityMap(d)
    rng = _generator(random_state)
    if approximation == "fourier":
        q = whole("landmarks", DEFAULT_LANDMARKS if landmarks is None else landmarks, low=1)
        return FourierMap.of(k, d, q, rng=rng)
    q = min(DEFAULT_LANDMARKS, n) if landmarks is None else landmarks
    q = whole("landmarks", q, low=1, high=n)
    return NystroemMap.of(k, X, choose_landmarks(k, X, q, method=landmark_method, rng=rng))


def stays_sparse(kernel: str | KernelFunction, approximation: str) -> bool:
    """Return whether the map of such a setting takes sparse rows as they are."""
    return approximation == "fourier" or (
        approximation != "identity" and any(kernel == name for name in OF_PRODUCTS)
    )


def make_kernel(
    X: Rows, *, kernel: str | KernelFunction, gamma: float | None, degree: int, coef0: float
) -> Kernel:
    """Return the kernel with its parameters checked against the training rows X."""
    if not callable(kernel):
        choice("kernel", kernel, KERNELS)
    if kernel == "precomputed" and not is_symmetric(X):
        raise ValueError(
            f"X must be a symmetric matrix where kernel='precomputed', got shape {X.shape}"
        )
    if finite("coef0", coef0) < 0:
        raise ValueError(f"coef0 must not be negative, the kernel is indefinite then, got {coef0}")
    width = positive("gamma", 1.0 / X.shape[1] if gamma is None else gamma)
    return Kernel(kernel, width, whole("degree", degree, low=1), float(coef0))


def _require_linear(kernel: str | KernelFunction) -> None:
    """Refuse inputs as features of any other kernel than the linear one."""
    if kernel != "linear":
        raise ValueError(
            "approximation='identity' takes the inputs as features, which is the linear kernel, "
            f"got kernel={kernel!r}; set kernel='linear', or approximation='exact'"
        )


def _generator(
    random_state: int | np.random.RandomState | np.random.Generator | None,
) -> np.random.Generator:
    """Return a generator from any of scikit-learn's ways to name a seed."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be a whole number, a generator or None, got {random_state!r}"
        ) from error

"""The parameters of a removal, which all fair estimators share."""

from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from fkd.core.arrays import Array
from fkd.core.border import estimator_rows
from fkd.core.kernels import KernelFunction
from fkd.core.parameters import choice, not_negative, whole

REMOVALS = ("path", "shrinkage")
# It takes GDP to about a third on Communities and Crime, to a half on incomes of Montana.
_PENALTY = 10.0


class RemovalParameters(BaseEstimator):
    """Parameters of the removal, shared by the estimators of this package.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"linear"``, ``"precomputed"``, or a function
        of two blocks of rows that returns their kernel matrix.
    gamma
        Width of the kernel; None means 1 / number of inputs.
    degree, coef0
        Of the polynomial kernel.
    ridge
        On a path: ridge of the regressions that find what to remove, above 0. A larger one removes
        more per iteration. None takes a thousandth of the sum of all squared features, so that
        neither the number of rows nor the unit of the inputs changes how much is removed. (The
        offset of the inputs counts under linear and polynomial kernels: standardise them.)
    iterations
        On a path: how often to remove; 0 leaves the kernel as it is. A shrinkage looks neither at
        this nor at `ridge` and `center_sensitive`.
    removal
        ``"path"`` cuts directions out of the kernel, `iterations` times; ``"shrinkage"`` makes
        those small along which a prediction would covary with functions of the sensitive features.
    penalty
        Of a shrinkage: the price of a squared covariance with such a function, in units of the
        machine's mean loss (docs/shrinkage.md); 0 leaves the kernel as it is, None is 10. A path
        has none.
    basis
        The functions: ``"columns"`` (the sensitive columns themselves), ``"rbf"`` (a kernel on
        them), ``"splines"`` on the ranks of each, ``"levels"`` (an indicator per value). None is
        ``"columns"`` on a path, ``"rbf"`` for a shrinkage.
    gamma_s
        Width of the kernel of ``"rbf"``, the sensitive columns in units of their training range.
    given
        What may depend on the sensitive features: ``"y"``, or names or positions of columns of X.
        Only what the functions hold beyond splines of these is taken out.
    approximation
        ``"exact"``, ``"nystroem"``, ``"fourier"``, ``"identity"`` (for ``kernel="linear"``) or
        ``"auto"``: exact up to 10 000 rows, Nystroem beyond.
    landmarks
        Landmarks of the Nystroem map or number of Fourier features; None means 1000, for
        landmarks at most n.
    landmark_method
        ``"rpcholesky"`` or ``"uniform"``.
    center_sensitive
        On a path with the columns as basis: fit their deviation from their mean, so that neither
        their unit nor their offset changes anything; other functions are always centred. False is
        the published form: of the columns as they are, whose first removed direction is mostly
        their mean.
    held_out
        Share of the training rows that a trial fit leaves out, to warn where dependence on the
        sensitive features did not fall on them, where the model is worse than a constant or has
        become one. Of at most 2000 rows; none below 100 rows, where it is 0, or where no
        sensitive column varies in both parts. What was found is kept as `held_out_`; the fit
        itself uses all rows. With `given` nothing is said of dependence, as some is meant to stay.
    random_state
        Seed of landmarks or Fourier features.
    """

    # Under metadata routing pipelines and searches pass them on without being told to.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float | None = None,
        iterations: int = 10,
        removal: str = "path",
        penalty: float | None = None,
        basis: str | None = None,
        gamma_s: float = 10.0,
        given: Any = None,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        center_sensitive: bool = True,
        held_out: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge
        self.iterations = iterations
        self.removal = removal
        self.penalty = penalty
        self.basis = basis
        self.gamma_s = gamma_s
        self.given = given
        self.approximation = approximation
        self.landmarks = landmarks
        self.landmark_method = landmark_method
        self.center_sensitive = center_sensitive
        self.held_out = held_out
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _inputs(self, X: Any, *, reset: bool) -> Array:
        """Return X as checked float64 rows; `reset` learns the columns, else they must agree."""
        return estimator_rows(self, X, reset=reset)

    @property
    def _shrinks(self) -> bool:
        """Whether directions are made small instead of being cut out."""
        return choice("removal", self.removal, REMOVALS) == "shrinkage"

    def _strength(self) -> float:
        """Return how much is to be taken out, as the user says it."""
        if self._shrinks:
            return self._checked_strength(_PENALTY if self.penalty is None else self.penalty)
        if self.penalty is not None:
            raise ValueError(
                f"penalty must be None where removal='path', got {self.penalty!r}; "
                "removal='shrinkage' has a penalty, a path has iterations"
            )
        return self._checked_strength(self.iterations)

    def _checked_strength(self, value: Any) -> float:
        """Return a penalty, or a number of iterations."""
        if self._shrinks:
            return not_negative("penalty", value)
        return whole("iterations", value, low=0)

"""The parameters of a removal, which all fair estimators share."""

from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from fkd.core.arrays import Rows
from fkd.core.docstrings import fill_docstring
from fkd.core.feature_maps import stays_sparse
from fkd.core.kernels import KernelFunction
from fkd.core.validation import choice, not_negative, validate_rows, whole
from fkd.core.weights import PresentRows

REMOVALS = ("path", "shrinkage")
# It takes GDP to about a third on Communities and Crime, to a half on incomes of Montana.
_PENALTY = 10.0


@fill_docstring
class RemovalParameters(BaseEstimator):
    """Parameters of the removal, shared by the estimators of this package.

    Parameters
    ----------
    {kernel}
    {path}
    {removal}
    {basis}
    {map}
    {centring}
    {trial}
    {seed}
    """

    # Under metadata routing pipelines and searches pass them on without being told to.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {
        "sensitive_features": True,
        "sample_weight": True,
    }

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
        tags.input_tags.sparse = True
        return tags

    def _inputs(self, X: Any, *, reset: bool) -> Rows:
        """Return X as checked float64 rows; `reset` learns the columns, else they must agree."""
        sparse = stays_sparse(self.kernel, self.approximation)
        return validate_rows(self, X, reset=reset, sparse=sparse)

    def _present(self, sample_weight: Any, n: int, *, least: int = 2) -> PresentRows:
        """Return which of n rows are there, by their weights."""
        precomputed = self.kernel == "precomputed"
        return PresentRows.from_weights(sample_weight, n, least=least, precomputed=precomputed)

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

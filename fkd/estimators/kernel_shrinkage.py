"""The shrunk kernel as a scikit-learn transformer."""

from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fkd.core.docstrings import fill_docstring
from fkd.core.kernels import KernelFunction
from fkd.core.removal import Shrinkage
from fkd.core.validation import not_negative
from fkd.estimators.kernel_transformer import FairKernelTransformer


@fill_docstring
class FairKernelShrinkage(FairKernelTransformer):
    """Kernel in which directions that covary with functions of the sensitive features are small.

    K_mu = G (I + mu T Tᵀ)⁻¹ Gᵀ with G the features of the plain kernel, T their covariance with a
    basis of functions of the sensitive features: for any machine that takes
    ``kernel="precomputed"`` its regulariser then prices the squared covariance of the prediction
    with each of these functions (docs/shrinkage.md).

    Parameters
    ----------
    {kernel}
    mu
        Price on squared covariances beside the squared norm of the weights: 0 is the plain kernel,
        ``inf`` leaves nothing that covaries with any function of the basis over the training rows.
    {basis}
    {map}
    {trial}
    {output}
    {seed}

    Attributes
    ----------
    shrinkage_ : Shrinkage
        The directions with their squared covariances.
    strength_ : float
        How much is taken out: `mu`.
    effective_iterations_ : int or None
        Iterations that found something to remove; None for a shrinkage.
    map_ : FeatureMap
        The feature map of the training rows.
    removed_ : Directions
        The directions that are taken out, with the share of each.
    fair_ : FairKernel or FairFeatures
        What is left, as arrays.
    T_ : array (n, n)
        T_m of the paper: k(X, training rows) T_m is the fair kernel block. Of exact maps only.
    held_out_ : HeldOut or None
        How well ridge regression guesses the sensitive features of rows that a trial fit left out,
        from plain and from fair features.
    n_features_in_, feature_names_in_
        Columns of X, their names where it was a data frame.

    References
    ----------
    {method}

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairKernelShrinkage
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> fair = FairKernelShrinkage(gamma=0.1, mu=1e4).fit(X, sensitive_features=X[:, 0])
    >>> fair.transform(X).shape
    (50, 50)
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        mu: float = 1e4,
        basis: str = "rbf",
        gamma_s: float = 10.0,
        given: Any = None,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        held_out: float = 0.2,
        output: str = "kernel",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            removal="shrinkage",
            basis=basis,
            gamma_s=gamma_s,
            given=given,
            approximation=approximation,
            landmarks=landmarks,
            landmark_method=landmark_method,
            held_out=held_out,
            output=output,
            random_state=random_state,
        )
        self.mu = mu

    def _strength(self) -> float:
        """Return mu, which may be infinite."""
        return np.inf if self.mu == np.inf else not_negative("mu", self.mu)

    def _words(self, strength: float) -> tuple[str, str]:
        """Return how much was taken out, with what would take out more, for people."""
        return f"at mu = {strength:g}", "a larger mu, or another basis"

    @property
    def shrinkage_(self) -> Shrinkage:
        """The directions with their squared covariances."""
        check_is_fitted(self, "fair_")
        return cast(Shrinkage, self._removals)

    def at(self, strength: float) -> Self:
        """Return a fitted copy at another mu; large arrays are shared.

        Parameters
        ----------
        strength
            The mu, not negative; ``inf`` leaves nothing that covaries.
        """
        return self._copy_at("mu", strength)

    def fit_path(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        mus: Sequence[float],
    ) -> dict[float, Self]:
        """Return a fitted transformer per mu, all from one factorisation.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As `fit` takes them.
        mus
            Prices on squared covariances.
        """
        beside = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        return self._fit_each(X, y, "mu", mus, **beside)

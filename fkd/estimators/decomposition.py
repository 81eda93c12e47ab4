"""The fair kernel of a removal path as a scikit-learn transformer."""

from collections.abc import Sequence
from typing import Any, Self, cast

from sklearn.utils.validation import check_is_fitted

from fkd.core.docstrings import fill_docstring
from fkd.core.kernels import KernelFunction
from fkd.core.removal import RemovalPath
from fkd.estimators.kernel_transformer import FairKernelTransformer


@fill_docstring
class FairKernelDecomposition(FairKernelTransformer):
    """Kernel from which what predicts the sensitive features has been removed.

    `transform` gives the fair kernel against the training rows, for any estimator that takes
    ``kernel="precomputed"``, or fair features, for any estimator at all.

    Parameters
    ----------
    {kernel}
    {path}
    {basis}
    {map}
    {centring}
    {trial}
    {output}
    {seed}

    Attributes
    ----------
    path_ : RemovalPath
        The removed directions, nested in the number of iterations.
    strength_ : float
        How much is taken out: `iterations`.
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
    >>> from fkd import FairKernelDecomposition
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> fair = FairKernelDecomposition(gamma=0.1, iterations=5).fit(X, sensitive_features=X[:, 0])
    >>> fair.transform(X).shape
    (50, 50)
    >>> features = FairKernelDecomposition(
    ...     gamma=0.1, output="features", approximation="nystroem", landmarks=20, random_state=0
    ... )
    >>> features.fit_transform(X, sensitive_features=X[:, 0]).shape
    (50, 20)
    """

    def __init__(
        self,
        kernel: str | KernelFunction = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        ridge: float | None = None,
        iterations: int = 10,
        basis: str | None = None,
        gamma_s: float = 10.0,
        given: Any = None,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        center_sensitive: bool = True,
        held_out: float = 0.2,
        output: str = "kernel",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            ridge=ridge,
            iterations=iterations,
            basis=basis,
            gamma_s=gamma_s,
            given=given,
            approximation=approximation,
            landmarks=landmarks,
            landmark_method=landmark_method,
            center_sensitive=center_sensitive,
            held_out=held_out,
            output=output,
            random_state=random_state,
        )

    @property
    def path_(self) -> RemovalPath:
        """The removed directions, nested in the number of iterations."""
        check_is_fitted(self, "fair_")
        return cast(RemovalPath, self._removals)

    def at(self, strength: int) -> Self:
        """Return a fitted copy that removes so many iterations only; large arrays are shared.

        Parameters
        ----------
        strength
            Iterations, at most as many as were fitted, or any where nothing was left to remove.
        """
        shorter = self._copy_at("iterations", strength)
        shorter._removals = self.path_.head(strength)
        shorter.effective_iterations_ = shorter.path_.effective
        return shorter

    def fit_path(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        iterations: Sequence[int],
    ) -> dict[int, Self]:
        """Return a fitted transformer per number of iterations, all from one factorisation.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As `fit` takes them.
        iterations
            Lengths of the path.
        """
        beside = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        return self._fit_each(X, y, "iterations", iterations, **beside)

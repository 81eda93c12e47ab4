"""Fair kernel learning as a scikit-learn estimator."""

from dataclasses import replace
from typing import Any, Self

from fkd.core.docstrings import fill_docstring
from fkd.core.validation import boolean, not_negative, positive
from fkd.core.weights import weighted_mean
from fkd.rivals.fair_kernel_learning import dependence_sums, penalised_expansions
from fkd.rivals.rival_regressor import KernelRival, in_range


@fill_docstring
class FairKernelLearning(KernelRival):
    """Kernel ridge regression that pays for its dependence on the sensitive features.

    Minimises |y - f|² + alpha |f|² + mu n² HSIC(f, S), HSIC with a linear kernel on the prediction
    and an RBF kernel on the sensitive columns in units of their training range.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"linear"``, or a function of two blocks of
        rows that returns their kernel matrix.
    mu
        Price of dependence, not negative, as published: it is not divided by the number of rows.
    alpha
        Ridge of the predictor, above 0.
    gamma_s
        Width of the kernel on the sensitive columns, these in units of their training range.
    fit_intercept
        Let the predictor have a free constant; the published form has none.
    {kernel_parameters}

    Attributes
    ----------
    expansion_ : predictor
        The fitted predictor as plain arrays.

    References
    ----------
    Pérez-Suay et al. (2017), "Fair Kernel Learning", ECML PKDD.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.rivals import FairKernelLearning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = X[:, 0] + X[:, 1]
    >>> leaning = [
    ...     abs(np.corrcoef(model.fit(X, y, sensitive_features=X[:, 0]).predict(X), X[:, 0])[0, 1])
    ...     for model in (FairKernelLearning(mu=0), FairKernelLearning(mu=100))
    ... ]
    >>> bool(leaning[1] < 0.2 * leaning[0])
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        mu: float = 1.0,
        alpha: float = 1.0,
        gamma_s: float = 0.05,
        fit_intercept: bool = True,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            landmarks=landmarks,
            landmark_method=landmark_method,
            random_state=random_state,
        )
        self.mu = mu
        self.alpha = alpha
        self.gamma_s = gamma_s
        self.fit_intercept = fit_intercept

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Return self, fitted to these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their target (n,).
        sensitive_features
            One or several columns (n,) or (n, l). Required.
        sample_weight
            How many rows each row counts for, (n,), not negative; None is one each. A whole number
            is a row repeated, 0 one that is not there.
        """
        mu, alpha = not_negative("mu", self.mu), positive("alpha", self.alpha)
        X, y, S, w = self._rows(X, y, sensitive_features, sample_weight)
        # Before any sum: an offset costs no digits.
        level = float(weighted_mean(y, w)) if boolean("fit_intercept", self.fit_intercept) else 0.0
        feature_map, moments = self._reduced(X, y - level, S, w)
        (found,) = penalised_expansions(
            feature_map,
            moments,
            dependence_sums(feature_map, X, in_range(S), self.gamma_s, w),
            alpha=alpha,
            mus=[mu],
            fit_intercept=self.fit_intercept,
        )
        self.expansion_ = replace(found, intercept=found.intercept + level)
        return self

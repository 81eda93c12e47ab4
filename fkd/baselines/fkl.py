"""Fair kernel learning: ridge regression with a penalty on dependence.

Pérez-Suay et al. (2017) add mu·HSIC(f(X), S) to the ridge objective, with a linear kernel on f and
an RBF kernel K_s on S. The published closed form (K + alpha·I + mu·H K_s H K)⁻¹ y is not symmetric.
In the coordinates of a feature map it is a shrinkage (`fkd.core.removal`) by functions of s whose
inner products are K_s, and is computed from sums over rows.
"""

from dataclasses import dataclass, replace

from fkd.baselines.base import KernelBaseline, scale_to_range
from fkd.core.arrays import Array
from fkd.core.docstrings import fill_docstring
from fkd.core.feature_maps import KernelSettings
from fkd.core.kernels import Kernel
from fkd.core.linalg import rank_cut
from fkd.core.moments import basis_moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import fkl_penalty, shrinkage
from fkd.core.ridge import RidgeSetting, fit_ridge
from fkd.core.sensitive_basis import greedy_factor
from fkd.core.training import KnownRemoval, Training
from fkd.core.validation import not_negative, positive
from fkd.core.weights import weighted_mean


@fill_docstring
@dataclass(eq=False, repr=False, kw_only=True)
class FairKernelLearning(KernelBaseline):
    """Kernel ridge regression with a penalty on dependence on the sensitive features.

    Minimises |y - f|² + alpha |f|² + penalty·n² HSIC(f, S). HSIC has a linear kernel on the
    prediction and an RBF kernel on the sensitive columns, scaled to their training range.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"linear"``, ``"precomputed"``, or a function
        of two blocks of rows that returns their kernel matrix.
    penalty
        Weight of dependence, not negative. As published, it is not divided by the number of rows.
    alpha
        Ridge of the predictor, above 0.
    gamma_s
        Width of the kernel on the sensitive columns, scaled to their training range.
    fit_intercept
        Fit an intercept. The published form has none.
    {gamma}
    {degree, coef0}
    {approximation}
    {landmarks, landmark_method}
    {random_state}

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
    >>> from fkd.baselines import FairKernelLearning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = X[:, 0] + X[:, 1]
    >>> plain, fair = (
    ...     FairKernelLearning(penalty=penalty).fit(X, y, sensitive_features=X[:, 0])
    ...     for penalty in (0, 100)
    ... )
    >>> before, after = (np.corrcoef(f.predict(X), X[:, 0])[0, 1] for f in (plain, fair))
    >>> bool(abs(after) < 0.2 * abs(before))
    True
    """

    penalty: float = 1.0
    gamma_s: float = 0.05

    def _fit_rows(self, training: Training, setting: RidgeSetting) -> MapExpansion:
        penalty = fkl_penalty(not_negative("penalty", self.penalty), n=training.count)
        scaled = replace(training, S=scale_to_range(training.S))
        removal = fkl_removal(scaled, setting.kernel, positive("gamma_s", self.gamma_s))
        (model,) = fit_ridge(scaled, [replace(setting, removal=removal, strength=penalty)])
        return model.expansion


def fkl_removal(training: Training, kernel: KernelSettings, gamma_s: float) -> KnownRemoval:
    """Return the shrinkage by the RBF kernel K_s of the sensitive columns, computed once.

    As published, K_s compares all training rows with each other. Its strength is that of
    `fkd.core.removal.fkl_penalty`.
    """

    def compute() -> KnownRemoval:
        w = training.weights.fit
        F = _centred_factor(training.S, gamma_s, w)
        return KnownRemoval(
            shrinkage(basis_moments(training.feature_map(kernel), training.X, F, w=w))
        )

    return training.cached(("fkl", kernel, gamma_s), compute)


def _centred_factor(S: Array, gamma_s: float, w: Array | None) -> Array:
    """Return F (n, p) with F Fᵀ = H K_s H to rounding; H subtracts the weighted mean of rows."""
    cut = rank_cut(len(S), 1.0)
    _, F = greedy_factor(Kernel("rbf", gamma_s), S, size=len(S), cut=cut)
    return F.T - weighted_mean(F.T, w)

"""Rows and estimators that several tests of the estimators share."""

import numpy as np

from fkd import FairGaussianProcess, FairKernelRidge, FairSVC, FairSVR

REGRESSORS = [FairKernelRidge, FairSVR, FairGaussianProcess]
MACHINES = [*REGRESSORS, FairSVC]


def people(rng, n=900, d=5):
    """Inputs of which one leans on a share s in [0, 1], a target that leans on it, s itself."""
    s = rng.uniform(size=n)
    X = rng.uniform(size=(n, d))
    X[:, 0] = 0.7 * s + 0.3 * X[:, 0]
    return X, 2 * X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=n), s


def target(machine, y):
    return y > np.median(y) if machine is FairSVC else y


def scores(model, X):
    """Return what a machine says of rows before any class is made of it."""
    return model.decision_function(X) if isinstance(model, FairSVC) else model.predict(X)


def longest_side(thing, seen=None):
    """Return the longest side of any array that is reachable from the fields of an object."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, str | bytes | type):
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return max(thing.shape, default=0)
    inside = [*vars(thing).values()] if hasattr(thing, "__dict__") else []
    if isinstance(thing, dict):
        inside += [*thing.values()]
    elif isinstance(thing, list | tuple):
        inside += [*thing]
    return max((longest_side(part, seen) for part in inside), default=0)


def first_column(X):
    """Return a varying column of whatever the checks feed, or something harmless."""
    values = np.asarray(X.todense() if hasattr(X, "todense") else X)
    if values.ndim != 2 or values.dtype.kind not in "iuf" or 0 in values.shape:
        return np.arange(len(values))
    column = np.nan_to_num(values[:, 0], posinf=0.0, neginf=0.0)
    # Some checks feed a constant column; a ramp on top of it varies. Others repeat rows or turn
    # their order, which must not change what is sensitive.
    return column if np.ptp(column) > 0 else column + np.arange(len(values))


class FirstColumn:
    """Takes the first input as the sensitive one, because the checks pass none."""

    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        return super().fit(X, y, sensitive_features=first_column(X), sample_weight=sample_weight)


# Checks that repeat rows in another order, with who cannot pass them and why.
EQUIVALENCE = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
COLUMNS = "columns of what comes out are training rows, or features in their order"


def not_equivalent(estimator):
    """Return which checks of weights an estimator fails, with the reason."""
    reason = getattr(estimator, "why_not_equivalent", None)
    return {} if reason is None else dict.fromkeys(EQUIVALENCE, reason)

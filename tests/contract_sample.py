"""What the contract suite runs over: every estimator, every method, what each cannot promise."""

from dataclasses import dataclass, field, fields, replace

import numpy as np
from sklearn.base import clone

from fkd import (
    FairGaussianProcess,
    FairKernelDecomposition,
    FairKernelRidge,
    FairKernelShrinkage,
    FairSVC,
    FairSVR,
)
from fkd.baselines import (
    FairKernelLearning,
    FremNetwork,
    HgrNetwork,
    LinearErasure,
    NullspaceProjection,
    ResidualTargetRidge,
)
from fkd.baselines.base import LEACE, NEURAL
from fkd.methods import Approximation, Training, method, methods

SAMPLED = "landmarks are drawn by the number of a row: another order draws other rows"
BATCHES = "batches follow the order of the rows"
UNCENTRED = "the published form removes the columns as they are, mean included"
DECLARED_RANGE = "s comes in units of the range that its problem declares, so does its kernel"
PRICE_HAS_UNIT = "the published price has the unit of s squared"
HIDDEN_UNIT = "the kernel on s has a width in the unit of s"
DRAWN_ROWS = {"permutation": SAMPLED, "repeated rows": SAMPLED}


@dataclass(frozen=True)
class Subject:
    """Something that is fitted, with the promises that it cannot keep."""

    name: str
    make: object  # an estimator, or the parameters of a method
    broken: dict = field(default_factory=dict)  # promise -> reason
    extra: object = None  # optional packages that it needs

    def __str__(self):
        return self.name


NYSTROEM = {"approximation": "nystroem", "landmarks": 30, "random_state": 0}
FOURIER = {"approximation": "fourier", "landmarks": 60, "random_state": 0}
SHRINK = {"removal": "shrinkage", "penalty": 20.0}
QUIET = {"held_out": 0, "gamma": 0.3}
FIXED = {"alpha": 0.2, "amplitude": 1.0}
NETWORK = {"epochs": 2, "first_width": 6, "second_width": 5, "batch_rows": 30}

ESTIMATORS = [
    Subject("ridge", FairKernelRidge(iterations=3, **QUIET)),
    Subject("ridge, shrunk", FairKernelRidge(**SHRINK, **QUIET)),
    Subject("ridge, splines", FairKernelRidge(iterations=2, basis="splines", **QUIET)),
    Subject("ridge, landmarks", FairKernelRidge(**NYSTROEM, **QUIET), DRAWN_ROWS),
    Subject("ridge, Fourier", FairKernelRidge(**FOURIER, **QUIET)),
    Subject(
        "ridge, published form",
        FairKernelRidge(iterations=2, center_sensitive=False, fit_intercept=False, **QUIET),
        {"unit of s": UNCENTRED},
    ),
    Subject("process", FairGaussianProcess(iterations=3, **FIXED, **QUIET)),
    Subject("process, shrunk", FairGaussianProcess(**SHRINK, **FIXED, **QUIET)),
    Subject("regression", FairSVR(iterations=3, tol=1e-9, **QUIET)),
    Subject("regression, shrunk", FairSVR(tol=1e-9, **SHRINK, **QUIET)),
    Subject(
        "regression, landmarks",
        FairSVR(tol=1e-9, **NYSTROEM, **QUIET),
        DRAWN_ROWS,
    ),
    Subject("classifier", FairSVC(iterations=3, tol=1e-9, **QUIET)),
    Subject("classifier, shrunk", FairSVC(tol=1e-9, **SHRINK, **QUIET)),
    Subject(
        "classifier, landmarks",
        FairSVC(tol=1e-9, **NYSTROEM, **QUIET),
        DRAWN_ROWS,
    ),
    Subject("cut kernel", FairKernelDecomposition(iterations=3, **QUIET)),
    Subject("cut features", FairKernelDecomposition(output="features", **QUIET)),
    Subject(
        "cut features, landmarks",
        FairKernelDecomposition(output="features", **NYSTROEM, **QUIET),
        DRAWN_ROWS,
    ),
    Subject("shrunk kernel", FairKernelShrinkage(**QUIET)),
    Subject("shrunk features", FairKernelShrinkage(output="features", **QUIET)),
    Subject("FKL", FairKernelLearning(gamma=0.3)),
    Subject("residual target", ResidualTargetRidge(gamma=0.3)),
    Subject("INLP", NullspaceProjection(2)),
    Subject("LEACE", LinearErasure(), extra=LEACE),
    Subject("NN-HGR", HgrNetwork(**NETWORK), {"permutation": BATCHES}, NEURAL),
    Subject("NN-FREM", FremNetwork(**NETWORK), {"permutation": BATCHES}, NEURAL),
]

# Of each method one setting that takes something out.
STRENGTHS = {"iterations": 3, "penalty": 2.0, "share": 0.7}
FKL_PENALTY = 0.5  # it multiplies a sum over pairs of rows
BROKEN = {
    "frrm": {"unit of s": PRICE_HAS_UNIT},
    "krr_fkd": {"unit of s": UNCENTRED},
    "krr_fkd_nystroem": {"permutation": SAMPLED, "unit of s": UNCENTRED},
    "krr_fkd_printed": {"unit of s": UNCENTRED},
    "krr_fkl": {"unit of s": HIDDEN_UNIT},
    "krr_fks": {"unit of s": DECLARED_RANGE},
    "krr_frrm": {"unit of s": PRICE_HAS_UNIT},
    "leace_nystroem": {"permutation": SAMPLED},
    "nn_frem": {"permutation": BATCHES, "unit of s": HIDDEN_UNIT},
    "nn_hgr": {"permutation": BATCHES},
    "nn_hgr_l": {"permutation": BATCHES},
    "svr_fkd": {"unit of s": UNCENTRED},
    "svr_fkd_nystroem": {"permutation": SAMPLED, "unit of s": UNCENTRED},
    "svr_fkl": {"unit of s": HIDDEN_UNIT},
    "svr_fks": {"unit of s": DECLARED_RANGE},
    "svr_inlp": {"unit of s": UNCENTRED},
    "svr_leace_nystroem": {"permutation": SAMPLED},
}


def method_setting(name):
    """Return parameters of a method at a strength above 0, small enough for a test."""
    declared = method(name)
    names = {f.name for f in fields(declared.parameters)}
    small = {k: v for k, v in NETWORK.items() if k in names}
    if declared.strength:
        small[declared.strength] = STRENGTHS[declared.strength]
    if name in ("krr_fkl", "svr_fkl"):
        small["penalty"] = FKL_PENALTY
    p = declared.parameters(**small)
    if "approximation" in names and p.approximation.kind != "exact":
        p = replace(p, approximation=Approximation(kind=p.approximation.kind, landmarks=30))
    return p


METHODS = [
    Subject(name, method_setting(name), BROKEN.get(name, {}), declared.extra)
    for name, declared in methods().items()
]


def rows(rng, n=90, d=12):
    """Inputs, target, two sensitive columns within [0, 1] that differ in mean and spread."""
    S = np.column_stack([rng.uniform(size=n), 0.2 + 0.3 * rng.beta(2, 5, size=n)])
    X = rng.normal(size=(n, d))
    X[:, 0] += 2 * S[:, 0]
    X[:, 1] += 5 * S[:, 1]
    y = X @ np.linspace(1.0, 0.4, d) + 0.1 * rng.normal(size=n)
    return X, (y - y.min()) / np.ptp(y), S


def repeated_rows(rng, n=45):
    """Rows as above, of which some follow each other twice or three times."""
    counts = rng.integers(1, 4, size=n)
    return tuple(np.repeat(part, counts, axis=0) for part in rows(rng, n=n))


def fitted(subject, X, y, S, w=None):
    """Return something fitted to these rows."""
    if subject in METHODS:
        declared = method(subject.name)
        (found,) = declared.fit(Training(X, y, S, 0), [subject.make])
        return found
    y = np.where(y > 0.5, "yes", "no") if isinstance(subject.make, FairSVC) else y
    return clone(subject.make).fit(X, y, sensitive_features=S, sample_weight=w)


def answers(subject, model, X, S):
    """Return numbers that tell one fitted thing from another, whatever the order of its rows."""
    if subject in METHODS:
        sees = method(subject.name).needs_sensitive
        return model.predict(np.hstack([X, S]) if sees else X)
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    if hasattr(model, "predict"):
        return model.predict(X)
    # Features may be turned, their inner products may not.
    F = model.features(X) if hasattr(model, "features") else model.transform(X)
    return F @ F.T

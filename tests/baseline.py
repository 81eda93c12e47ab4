"""Numbers recorded before the library was reorganised, to compare with after every step.

    python tests/baseline.py record    # write tests/baseline.json
    python tests/baseline.py compare   # exit 1 if a number differs by more than 1e-10

The comparison is relative to the largest value of an entry. It is meant for the machine on which
the file was recorded: other BLAS kernels round differently. `make test` has `method_outputs.json`,
with tolerances for any machine.
"""

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from contract_sample import ESTIMATORS, METHODS, answers, fitted, rows
from threadpoolctl import threadpool_limits
from version_sample import outputs

import fkd
from fkd import measures
from fkd.catalog.methods import methods

STORED = Path(__file__).with_suffix(".json")
TOLERANCE = 1e-10
SMALL = {"gamma": 0.3, "held_out": 0}


def numbers() -> Iterator[tuple[str, np.ndarray]]:
    """Yield every recorded array under its name."""
    rng = np.random.default_rng(20260101)
    X, y, S = rows(rng)
    fresh, _, fresh_S = rows(rng, n=30)
    weights = rng.integers(1, 4, size=len(y)).astype(float)
    for subject in [*ESTIMATORS, *METHODS]:
        kind = "method" if subject in METHODS else "estimator"
        model = fitted(subject, X, y, S)
        yield f"{kind} {subject}", answers(subject, model, fresh, fresh_S)
        if kind == "estimator" and not subject.name.startswith(("NN-", "INLP", "LEACE")):
            model = fitted(subject, X, y, S, weights)
            yield f"{kind} {subject}, weighted", answers(subject, model, fresh, fresh_S)
    for name in methods():
        for label, values in outputs(name).items():
            yield f"setting {name} ({label})", np.array(values)
    yield from _features_of_estimators(X, y, S, fresh)
    yield from _measures(rng)


def _features_of_estimators(X, y, S, fresh) -> Iterator[tuple[str, np.ndarray]]:
    """Yield results of `fit_path`, `partial_fit`, the bound, the held-out trial and variances."""
    machines = {
        "ridge": fkd.FairKernelRidge,
        "regression": fkd.FairSVR,
        "classifier": fkd.FairSVC,
        "process": fkd.FairGaussianProcess,
    }
    for name, machine in machines.items():
        target = np.where(y > 0.5, "yes", "no") if name == "classifier" else y
        score = "decision_function" if name == "classifier" else "predict"
        path = machine(iterations=4, **SMALL).fit_path(X, target, sensitive_features=S)
        for strength in (0, 1, 4):
            yield f"{name} at {strength}", getattr(path.at(strength), score)(fresh)
        given = machine(iterations=2, given=[3], **SMALL).fit(X, target, sensitive_features=S)
        yield f"{name}, given", getattr(given, score)(fresh)
        model = machine(gamma=0.3).fit(X, target, sensitive_features=S)
        yield f"{name}, defaults", getattr(model, score)(fresh)
        bounded = machine(unfairness=0.5, gamma=0.3).fit(X, target, sensitive_features=S)
        yield f"{name}, bounded", getattr(bounded, score)(fresh)
    for name in ("ridge", "process"):
        reduced = {"approximation": "nystroem", "landmarks": 30, "random_state": 0}
        model = machines[name](iterations=2, **reduced, **SMALL)
        model.fit(X[:60], y[:60], sensitive_features=S[:60])
        model.partial_fit(X[60:], y[60:], sensitive_features=S[60:])
        yield f"{name}, partial_fit", model.predict(fresh)
    process = fkd.FairGaussianProcess(iterations=2, **SMALL).fit(X, y, sensitive_features=S)
    yield "process, deviations", process.predict(fresh, return_std=True)[1]
    targets = np.column_stack([y, X[:, 1], y**2])
    model = fkd.FairKernelRidge(iterations=2, **SMALL).fit(X, targets, sensitive_features=S)
    yield "ridge, three targets", model.predict(fresh)


def _measures(rng) -> Iterator[tuple[str, np.ndarray]]:
    """Yield values and intervals of the measures, and the table of an audit."""
    for n in (300, 6000):
        s = rng.uniform(size=n)
        f = s + 0.5 * rng.normal(size=n)
        y = f + rng.normal(size=n)
        w = rng.integers(1, 4, size=n).astype(float)
        yield f"hgr of {n}", np.array([measures.hgr(f, s), measures.hgr(f, s, w)])
        yield f"gdp of {n}", np.array([measures.gdp(f, s), measures.gdp(f, s, w)])
        yield f"gedi of {n}", np.array(measures.gedi(f, s))
        pairs = measures.pairwise_fairness(y, f, s)
        yield f"pairwise fairness of {n}", np.array([pairs.inter, pairs.intra])
    audit = fkd.audit(y[:900], f[:900], sensitive_features=s[:900])
    table = audit.to_frame().select_dtypes("number")
    yield "audit", table.to_numpy(float)


def found() -> dict[str, list[float]]:
    """Return every number of the library as it is now."""
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return {name: np.ravel(values).tolist() for name, values in numbers()}


def difference(now: list[float], before: list[float]) -> float:
    """Return the largest difference relative to the largest value; infinite if sizes differ."""
    if len(now) != len(before):
        return np.inf
    a, b = np.array(now, float), np.array(before, float)
    if not (np.isnan(a) == np.isnan(b)).all():
        return np.inf
    return float(np.nanmax(np.abs(a - b), initial=0.0) / np.nanmax(np.abs(b), initial=1e-300))


def main(command: str) -> int:
    """Record, or compare and return 1 if something differs."""
    now = found()
    if command == "record":
        STORED.write_text(json.dumps(now, indent=0) + "\n")
        return 0
    before = json.loads(STORED.read_text())
    differences = {name: difference(now[name], before[name]) for name in now.keys() & before.keys()}
    wrong = {name: value for name, value in differences.items() if not value <= TOLERANCE}
    wrong |= dict.fromkeys(now.keys() ^ before.keys(), np.inf)
    for name, value in sorted(wrong.items()):
        print(f"{value:9.2g}  {name}")
    print(f"{len(differences)} entries, {len(wrong)} differ by more than {TOLERANCE:g}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

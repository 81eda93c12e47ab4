"""Numbers recorded before the library was reorganised, to compare with after every step.

    python tests/baseline.py record    # write tests/baseline.json
    python tests/baseline.py compare   # exit 1 if a number differs by more than 1e-10
    python tests/baseline.py results FKD_HOME/experiments/crimes/results.csv   # more than 1e-8

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
import pandas as pd
from contract_sample import ESTIMATORS, METHODS, answers, fitted, rows
from threadpoolctl import threadpool_limits
from version_sample import outputs

import fkd
from fkd import measures
from fkd.methods import methods

STORED = Path(__file__).with_suffix(".json")
RESULTS = Path(__file__).with_suffix(".csv.gz")  # results.csv of `fkd run`
TOLERANCE = 1e-10
MEASURED = ("mae", "mse", "hgr", "gdp", "pf")
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
        options = {"sensitive_features": S, "iterations": [0, 1, 4]}
        path = machine(**SMALL).fit_path(X, target, **options)
        for strength, model in path.items():
            yield f"{name}, path of {strength}", getattr(model, score)(fresh)
        model = machine(iterations=4, **SMALL).fit(X, target, sensitive_features=S).at(2)
        yield f"{name} at 2", getattr(model, score)(fresh)
        given = machine(iterations=2, given=[3], **SMALL).fit(X, target, sensitive_features=S)
        yield f"{name}, given", getattr(given, score)(fresh)
        model = machine(gamma=0.3).fit(X, target, sensitive_features=S)
        yield f"{name}, defaults", getattr(model, score)(fresh)
        bounded = machine(unfairness={"hgr": 0.6}, gamma=0.3).fit(X, target, sensitive_features=S)
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
        options = ({}, {"sample_weight": w}, {"control_features": np.floor(3 * f)})
        for name, measure, before in (
            ("hgr", measures.hgr, ()),
            ("gdp", measures.gdp, ()),
            ("pf", measures.pairwise_fairness, (y,)),
        ):
            yield f"{name} of {n}", np.array([measure(*before, f, s, **own) for own in options])
        yield f"gdp plugin of {n}", np.array(measures.gdp(f, s, estimator="plugin"))
        yield f"gedi and chi2 of {n}", np.array([measures.gedi(f, s), measures.chi2(f, s)])
    audit = fkd.audit(y[:900], f[:900], s[:900], replicates=20)
    (column,) = audit.columns
    estimates = [audit.mae.estimate, audit.error.estimate]
    estimates += [interval.estimate for interval in column.scores.values()]
    yield "audit", np.array(estimates)
    for name, curve in column.profile.curves.items():
        yield f"profile of {name}", curve.mean


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


def compare_results(path: str) -> int:
    """Compare the numbers of a default run; columns that are new or gone are named."""
    before, now = pd.read_csv(RESULTS), pd.read_csv(path)
    print("columns:", sorted(set(now) ^ set(before)) or "the same")
    keys = ["problem", "method", "strength", "sensitive", "removed", "fold"]
    assert not before.duplicated(keys).any()
    both = before.merge(now, on=keys, suffixes=("", "_now"), how="outer", indicator=True)
    worst = max(difference(both[f"{name}_now"].tolist(), both[name].tolist()) for name in MEASURED)
    print(f"{len(both)} rows, {(both._merge != 'both').sum()} unmatched, difference {worst:.2g}")
    return int((both._merge != "both").any() or not worst <= 1e-8)


def main(command: str, path: str = "") -> int:
    """Record, or compare and return 1 if something differs."""
    if command == "results":
        return compare_results(path)
    now = found()
    if command == "record":
        STORED.write_text(json.dumps(now) + "\n")
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

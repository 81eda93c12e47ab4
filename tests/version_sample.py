"""What every method predicts in small, stored with the version that predicted it.

`python tests/version_sample.py` stores the outputs of new methods, of new settings and of raised
versions; it never touches an output whose version has stayed: numbers that change need a new one.
"""

import json
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np

from fkd.methods import Approximation, Training, method, methods
from tasks.storage.environment import blas_threads

STORED = Path(__file__).parent / "method_outputs.json"
COMMAND = "python tests/version_sample.py"
ROWS, FRESH, COLUMNS = 48, 6, 5


def outputs(name: str) -> dict[str, list[float]]:
    """Predictions of fresh rows, by setting."""
    declared = method(name)
    wanted = settings(name)
    training, X = _rows()
    rows = X if declared.needs_sensitive else X[:, :COLUMNS]
    with blas_threads(1):
        found = declared.fit(training, list(wanted.values()))
        return {
            label: [float(value) for value in predictor.predict(rows)]
            for label, predictor in zip(wanted, found, strict=True)
        }


def settings(name: str) -> dict[str, object]:
    """Settings that together run through what a method can do, each cheap."""
    declared = method(name)
    known = {field.name for field in fields(declared.parameters)}
    small = {"epochs": 4, "batch_rows": 16, "first_width": 8, "second_width": 6, "gamma": 0.5}
    given = {key: value for key, value in small.items() if key in known}
    strong = {declared.strength: 0.5 if declared.strength == "share" else 2}
    strong = strong if declared.strength else {}
    changes: dict[str, dict[str, object]] = {"plain": {}}
    if declared.strength:
        changes["strong"] = strong
    if "approximation" in known:
        kinds = {kind: Approximation(kind=kind, landmarks=12) for kind in ("nystroem", "fourier")}
        changes |= {k: {**strong, "approximation": v} for k, v in kinds.items()}
    if "fit_intercept" in known:
        changes["intercept"] = {"fit_intercept": not declared.parameters().fit_intercept}
    if "center_sensitive" in known:
        changes["centred"] = {**strong, "center_sensitive": True}
    if "basis" in known:
        changes["splines"] = {**strong, "basis": "splines"}
    if "given" in known:
        changes["given"] = {**strong, "given": "y"}
    if "calibrate" in known:
        changes["median"] = {**strong, "calibrate": "median"}
    if "unfairness" in known:
        changes["bounded"] = {"unfairness": 0.1}
    return {label: declared.parameters(**{**given, **change}) for label, change in changes.items()}


def _rows() -> tuple[Training, np.ndarray]:
    """Training rows with fresh ones; plain arithmetic, the same whatever numpy's generators do."""
    index = np.arange(1, ROWS + FRESH + 1)[:, None]
    primes = np.array([2, 3, 5, 7, 11, 13, 17])
    U = (index * np.sqrt(primes)) % 1.0
    X, noise = U[:, :COLUMNS], U[:, COLUMNS:]
    S = np.column_stack([0.6 * X[:, 0] + 0.4 * noise[:, 0], 0.2 + 0.5 * X[:, 1] * noise[:, 1]])
    y = 0.5 * X[:, 0] + 0.3 * np.sin(4 * X[:, 2]) - 0.2 * X[:, 1] * X[:, 3]
    fresh = np.hstack([X[ROWS:], S[ROWS:]])
    return Training(X[:ROWS], y[:ROWS], S[:ROWS], seed=0), fresh


def stored() -> dict[str, dict[str, object]]:
    """Version with outputs, by method."""
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def is_renewed(name: str) -> bool:
    """Whether the stored outputs are those of another version."""
    return stored().get(name, {}).get("version") != method(name).version


def has_new_settings(name: str) -> bool:
    """Whether a method can do more than its stored outputs show."""
    return not settings(name).keys() <= stored()[name]["outputs"].keys()


def _joined(name: str) -> dict[str, list[float]]:
    """Outputs of a method: of an unchanged version, those stored with those of new settings."""
    known = {} if is_renewed(name) else stored()[name]["outputs"]
    return {**outputs(name), **known}


def main() -> None:
    """Store what is new, forget what is gone."""
    renewed = [name for name in methods() if is_renewed(name) or has_new_settings(name)]
    new = {n: {"version": method(n).version, "outputs": _joined(n)} for n in renewed}
    kept = {name: entry for name, entry in stored().items() if name in methods()}
    whole = dict(sorted({**kept, **new}.items()))
    STORED.write_text(json.dumps(whole, indent=1) + "\n")
    sys.stdout.write(f"stored: {', '.join(renewed) or 'nothing new'}\n")


if __name__ == "__main__":
    main()

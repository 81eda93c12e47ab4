"""A table of one's own that grows: rows are written behind those that are there."""

import json

import numpy as np

from configs.load import load_config
from tasks.select.study import open_study

BASE = 600
COLUMNS = ("y", "s", "t", "a", "b", "kind")


def write_rows(path, n, *, seed=0):
    """Write the first n of as many rows as one likes."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        a, b, s = rng.normal(), rng.uniform(), rng.uniform()
        # Units are those of the whole table, so that its extremes stand among the first rows.
        y = (0.0, 1.0)[i] if i < 2 else 0.5 + 0.2 * np.tanh(a + s) + 0.1 * b * s
        s, t = ((0.0, 1.0)[i], (3.0, 9.0)[i]) if i < 2 else (s, 3.0 + 6.0 * rng.uniform() * s)
        cells = (y, s, t, min(max(a, -3.0), 3.0), b)
        lines.append(",".join([*(f"{cell:.6f}" for cell in cells), f"k{i % 40}"]))
    path.write_text("\n".join([",".join(COLUMNS), *lines, ""]))


def grown_study(path, settings, *, functions=False, **folds):
    """Return the study of the table as it is now."""
    approximation = {"kind": "nystroem", "landmarks": 50, "shared": True}
    entry = {"name": "krr_fkd", "approximation": approximation, "grid": {"iterations": [0, 3]}}
    if functions:
        entry = {"name": "krr_fks", "approximation": approximation, "grid": {"penalty": [0.0, 9.0]}}
    data = {
        "problem": "table",
        "path": str(path),
        "target": "y",
        "sensitive": ["s", "t"],
        "numeric": ["a", "b"],
        "categorical": ["kind"],
    }
    chosen = {"k": 3, "kind": "growing", "base": BASE, "reserve": 0.3, **folds}
    overrides = [
        f"data={json.dumps(data)}",
        f"folds={json.dumps(chosen)}",
        f"methods={json.dumps([entry])}",
        "select={inner_folds: 2, subject_to: {gdp: 1}}",
    ]
    return open_study(load_config("default", overrides), settings)

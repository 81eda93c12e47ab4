"""A small bundle of every kind of predictor, and the way through a file."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd

from fkd.methods import Approximation, Training, method
from fkd.problems.bundle import Bundle
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table

# Method and parameters, by name.
CASES = {
    "kernel": ("krr_fkd", {"iterations": 2}),
    "nystroem": ("krr_fks", {"approximation": Approximation("nystroem", 12), "penalty": 1.0}),
    "fourier": ("krr_fkd", {"approximation": Approximation("fourier", 12), "iterations": 2}),
    "support_vectors": ("svr_fkd", {"iterations": 2}),
    "projected": ("svr_inlp", {}),
    "corrected": ("leace", {}),
    "sensitive": ("krr_frrm", {}),
    "perceptron": ("nn_hgr", {}),
    "constant": ("dummy", {}),
}


def through_file(arrays):
    """Return arrays as they are read from an npz file without pickle."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def make_table(n=60):
    """Numbers with and without gaps, labels of which one is missing at times, two sensitive."""
    rng = np.random.default_rng(0)
    numeric = np.column_stack([rng.normal(5, 2, n), rng.uniform(-1, 1, n), rng.integers(0, 9, n)])
    numeric[::7, 2] = np.nan
    codes = np.column_stack([rng.integers(0, 3, n), rng.integers(-1, 2, n)])
    S = rng.normal([40, -3], [9, 2], size=(n, 2))
    y = 20 * numeric[:, 0] + S[:, 0] + 5 * codes[:, 0] + rng.normal(size=n)
    return Table(
        numeric_names=("area", "slope", "rooms"),
        numeric=numeric,
        categorical_names=("town", "heated"),
        codes=codes.astype(np.int32),
        levels=(("Köln", "Ulm", "Zürich"), ("0", "1")),
        target_name="rent",
        target=y,
        sensitive_names=("age", "income"),
        sensitive=S,
        target_range=(float(y.min()), float(y.max())),
        sensitive_range=np.stack([S.min(axis=0), S.max(axis=0)], axis=1),
        gaps=("rooms",),
    )


def make_bundle(name):
    """Return the bundle of one case."""
    fitted, parameters = CASES[name]
    table = make_table()
    declared, encoder = method(fitted), Encoder.fit(table, scale="minmax")
    training = Training(encoder.transform(table), table.y, table.S(), seed=0)
    (predictor,) = declared.fit(training, [declared.parameters(**parameters)])
    limits = [np.nanmin(table.numeric, axis=0), np.nanmax(table.numeric, axis=0)]
    bundle = Bundle(encoder, predictor, table.target_range, np.stack(limits, axis=1))
    if declared.needs_sensitive:
        units = {"sensitive": table.sensitive_names, "sensitive_range": table.sensitive_range}
        bundle = replace(bundle, **units)
    return bundle


def make_rows(n=12):
    """Rows to predict: gaps, labels unseen, numbers out of range among them."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "area": rng.normal(5, 4, n),
            "slope": rng.uniform(-2, 2, n),
            "rooms": [None if i % 4 == 0 else float(i) for i in range(n)],
            "town": [("Köln", "Ulm", "Zürich", "Bern", None)[i % 5] for i in range(n)],
            "heated": [(1, 0, None)[i % 3] for i in range(n)],
            "age": rng.normal(40, 9, n),
            "income": rng.normal(-3, 2, n),
        }
    )

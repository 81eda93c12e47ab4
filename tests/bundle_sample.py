"""Small bundles of every kind of predictor, to be kept for ever in tests/bundles/VERSION."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fkd import __version__
from fkd.catalog.bundle import Bundle
from fkd.catalog.encoder import Encoder
from fkd.catalog.methods import Training, method
from fkd.catalog.methods.training_fold import Approximation
from fkd.catalog.table import Table

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "bundles"
# What is fitted, by the name of the folder.
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
WITHOUT_RANGES = "without_ranges"  # as versions before ranges have registered them


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
    fitted, parameters = CASES["kernel" if name == WITHOUT_RANGES else name]
    table = make_table()
    declared, encoder = method(fitted), Encoder.fit(table, scale="minmax")
    training = Training(encoder.transform(table), table.y, table.S(), seed=0)
    (predictor,) = declared.fit(training, [declared.parameters(**parameters)])
    limits = [np.nanmin(table.numeric, axis=0), np.nanmax(table.numeric, axis=0)]
    bundle = Bundle(encoder, predictor, table.target_range, ranges=np.stack(limits, axis=1))
    if declared.needs_sensitive:
        units = {"sensitive": table.sensitive_names, "sensitive_range": table.sensitive_range}
        bundle = replace(bundle, **units)
    return replace(bundle, ranges=None) if name == WITHOUT_RANGES else bundle


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


def keep_bundle(folder, bundle, rows):
    """Write a bundle beside rows with its predictions of them."""
    folder.mkdir(parents=True)
    np.savez_compressed(folder / "bundle.npz", **bundle.arrays())
    columns = {name: [None if pd.isna(v) else v for v in rows[name].tolist()] for name in rows}
    plain = {"rows": columns, "predictions": bundle.predict(rows).tolist()}
    (folder / "expected.json").write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n")


def main():
    """Keep the bundles of this version; those of a version are written once."""
    for name in (*CASES, WITHOUT_RANGES):
        keep_bundle(FOLDER / __version__ / name, make_bundle(name), make_rows())


if __name__ == "__main__":
    main()

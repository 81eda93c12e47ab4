"""A table of rents as an office exports it, with a configuration beside it."""

import numpy as np
import yaml
from dask_process import THREADS

HEADER = ("Vertrag", "Einzug", "Bezirk", "Fläche m²", "Baujahr", "Alter", "Miete")
DATA = {
    "problem": "table",
    "path": "mieten.csv",
    "target": "Miete",
    "sensitive": ["Alter"],
    "numeric": ["Fläche m²", "Baujahr"],
    "categorical": ["Bezirk"],
}


def rents(n=120, seed=0):
    """Rows of numbers and labels; None is missing."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 85, n)
    area = np.round(rng.uniform(20, 150, n) - 0.4 * age + 34, 1)
    year = rng.integers(1890, 2022, n)
    town = rng.choice(["Mitte", "Köpenick", "Neukölln"], n)
    rent = np.round(9.5 * area + 2.0 * (town == "Mitte") * area + rng.normal(0, 30, n), 2)
    rows = [
        [f"B-{i}", f"{i % 28 + 1:02d}.03.2015", *row]
        for i, row in enumerate(
            zip(town, area.tolist(), year.tolist(), age.tolist(), rent.tolist(), strict=True)
        )
    ]
    for i in range(0, n, 9):
        rows[i][4] = None
    for i in range(4, n, 11):
        rows[i][3] = None
    return rows


def german(value):
    """A cell as a German office program writes it."""
    if value is None:
        return "k.A."
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")


def write_rents(folder, *, encoding="latin-1", separator=";", rows=None, cell=german, **changes):
    """Write mieten.csv with mieten.yaml beside it; return the path of the YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [HEADER, *([cell(value) for value in row] for row in rows or rents())]
    text = "\r\n".join(separator.join(line) for line in lines)
    (folder / "mieten.csv").write_bytes(text.encode(encoding))
    plain = {
        "name": "mieten",
        "data": {**DATA, "missing_words": ["k.A."], "missing": "impute", **changes.pop("data", {})},
        "methods": ["krr_fkd", "dummy"],
        "folds": {"k": 2},
        "select": {"inner_folds": 2},
        "cluster": THREADS,
        **changes,
    }
    path = folder / "mieten.yaml"
    path.write_text(yaml.safe_dump(plain, allow_unicode=True), encoding="utf-8")
    return path

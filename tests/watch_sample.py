"""Months of wages as an office exports them: the same every month, or with a planted drift."""

import numpy as np
import yaml
from dask_process import THREADS

COLUMNS = ("age", "hours", "skill", "town", "wage")


def write_month(path, n=240, seed=0, *, drift=0.0, columns=COLUMNS):
    """Write one file; drift pays those above 45 so much more."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 65, size=n).round(1)
    hours = (rng.uniform(20, 45, size=n) + 0.1 * age).round(1)
    skill = rng.normal(size=n).round(3)
    town = rng.choice(["north", "south"], size=n)
    wage = 20 * hours + 60 * skill + 2 * age + 40 * (town == "north") + 30 * rng.normal(size=n)
    wage = (wage + drift * (age > 45)).round(2)
    rows = dict(zip(COLUMNS, (age, hours, skill, town, wage), strict=True))
    cells = zip(*(rows[name] for name in columns), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in cells)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_wages(folder, **changes):
    """Write wages.yaml with the first month beside it; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_month(folder / "month-0.csv", n=600, seed=0)
    plain = {
        "name": "wages",
        "data": {
            "problem": "table",
            "path": "month-0.csv",
            "target": "wage",
            "sensitive": ["age"],
            "numeric": ["hours", "skill"],
            "categorical": ["town"],
            "units": {"wage": "euros"},
        },
        "folds": {"k": 3},
        "methods": [
            "dummy",
            {
                "name": "krr_fkd",
                "gamma": 0.5,
                "grid": {"iterations": [0, 2]},
                "approximation": {"kind": "nystroem", "landmarks": 60},
            },
        ],
        "select": {"inner_folds": 2, "subject_to": {"gdp": 0.2}},
        "cluster": THREADS,
        **changes,
    }
    path = folder / "wages.yaml"
    path.write_text(yaml.safe_dump(plain))
    return path

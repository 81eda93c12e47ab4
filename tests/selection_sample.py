"""A small table with a study of it, every trial computed."""

import numpy as np
import pandas as pd

from configs.load import parse_config
from tasks.fit.job import run_job
from tasks.select.study import open_study


def computed(
    folder, settings, *, methods, unfair=0.0, signal=1.0, n=240, copies_target=False, w=1.0, **more
):
    """Return the study of a table in which s acts on an input and on y by `unfair`."""
    rng = np.random.default_rng(0)
    s, x = rng.uniform(size=n), rng.normal(size=(n, 2))
    x[:, 0] += unfair * s
    y = signal * (x @ [1.0, 0.5]) + 0.3 * rng.normal(size=n)
    columns = {"a": x[:, 0], "b": x[:, 1], "s": y if copies_target else s, "y": y, "w": w}
    path = folder / "rows.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    data = {
        "problem": "table",
        "path": str(path),
        "target": "y",
        "sensitive": ["s"],
        "numeric": ["a", "b"],
        "keep": ["w"],
    }
    tree = {"name": "rows", "data": data, "methods": methods, "folds": {"k": 3}, **more}
    study = open_study(parse_config(tree, "test"), settings)
    for job in study.missing():
        run_job(job)
    return study

"""A model of rents with the file that it was trained on, as `fkd score` takes them."""

from pathlib import Path

import numpy as np
from own_sample import DATA, HEADER, german, rents

from configs.data import DataConfig, FileFormat
from fkd.core.predictors import KernelExpansion
from fkd.problems.bundle import Bundle
from fkd.problems.encoder import Encoder
from tasks.data.columns import to_table
from tasks.data.user_table import read_columns
from tasks.monitor.scoring import ScoreRequest
from tasks.storage.files import pack_npz, sha256
from tasks.storage.settings import Settings
from tasks.storage.store import open_store
from tasks.track.registry import RegisteredBundle

WORDS = {"missing_words": ["k.A."]}
INPUTS = ("Fläche m²", "Baujahr", "Bezirk")


def write_file(path, rows, *, columns=HEADER, cell=german, separator=";", encoding="latin-1"):
    """Write some columns of rents; without target or sensitive column, if these are not named."""
    places = [HEADER.index(name) for name in columns]
    lines = [columns, *([cell(row[place]) for place in places] for row in rows)]
    text = "\r\n".join(separator.join(line) for line in lines)
    path.write_bytes(text.encode(encoding))
    return path


def rent_table(path, missing="impute"):
    """Return a file as training reads it."""
    data = DataConfig(**{**DATA, **WORDS, "path": str(path), "missing": missing})
    return to_table(data, read_columns(Path(data.path), data))[0]


def register(folder, bundle):
    """Return a bundle as if it had been fetched from a registry."""
    data = pack_npz(bundle.arrays())
    settings = Settings(folder)
    open_store(settings).write(f"bundles/{sha256(data)}.npz", data)
    return RegisteredBundle("rents", 3, sha256(data), settings)


def rent_model(folder, *, missing="impute"):
    """Return a model of rents, with the table it has learnt from."""
    table = rent_table(write_file(folder / "train.csv", rents()), missing)
    encoder = Encoder.fit(table, scale="minmax")
    X = encoder.transform(table)
    coef = np.random.default_rng(0).normal(size=len(X))
    ranges = np.stack([np.nanmin(table.numeric, axis=0), np.nanmax(table.numeric, axis=0)], axis=1)
    predictor = KernelExpansion("rbf", 0.7, 1, 0.0, X, coef)
    return Bundle(encoder, predictor, table.target_range, ranges), table


def request(folder, model, data, **changes):
    """Return what is asked of `score_table`."""
    plain = {"form": FileFormat(**WORDS), "out": folder / "out.parquet", **changes}
    return ScoreRequest(data=data, model=model, **plain)

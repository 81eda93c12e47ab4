"""A user's own CSV or Parquet file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv, parquet

from configs.data import DataConfig
from configs.errors import UserError
from configs.nearest import check_name
from fkd.catalog.labels import labels_of
from tasks.data.columns import Category, Columns


def own_path(data: DataConfig) -> Path:
    """Return the file that the configuration names, if it is there."""
    path = Path(data.path or "").expanduser()
    if not path.is_file():
        raise UserError(f"data.path must be an existing CSV or Parquet file, got {data.path!r}.")
    return path


def read_own_file(data: DataConfig) -> Columns:
    """Return the named columns, without rows that lack a number.

    Parameters
    ----------
    data
        Path with the names of target, sensitive, numeric, categorical, kept columns.
    """
    problem = data.declaration
    numeric = dict.fromkeys((problem.target, *data.sensitive_columns, *problem.numeric))
    named = dict.fromkeys((*numeric, *problem.categorical, *problem.extra))
    frame = _read(own_path(data), list(named))
    # Times and groups keep their order as numbers where they are numbers in every row.
    ordered = [name for name in problem.extra if _is_complete_number(frame[name])]
    labels = [*problem.categorical, *(name for name in problem.extra if name not in ordered)]
    values = {name: _numbers(frame[name], name) for name in numeric}
    kept = np.ones(len(frame), dtype=bool)
    dropped: dict[str, int] = {}
    for name, column in values.items():
        absent = kept & np.isnan(column)
        dropped[f"{name} missing"] = int(absent.sum(axis=0))
        kept &= ~absent
    if not kept.any():
        raise UserError(f"{data.path} must have rows with every number present, got none.")
    return Columns(
        numbers={
            **{name: _numbers(frame[name], name)[kept] for name in ordered},
            **{name: column[kept] for name, column in values.items()},
        },
        categories={name: Category(*labels_of(frame[name][kept])) for name in labels},
        rows_read=len(frame),
        dropped=dropped,
    )


def _read(path: Path, names: list[str]) -> pd.DataFrame:
    """Return only the named columns of the file."""
    try:
        if path.suffix == ".parquet":
            _check_names(parquet.read_schema(path).names, names, path)
            table = parquet.read_table(path, columns=names)
        else:
            # Names first: pyarrow's own error for an absent column does not name the nearest.
            with csv.open_csv(path) as reader:
                _check_names(reader.schema.names, names, path)
            options = csv.ConvertOptions(include_columns=names, strings_can_be_null=True)
            table = csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from error
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _is_complete_number(column: "pd.Series[float]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not column.isna().any()


def _check_names(found: list[str], wanted: list[str], path: Path) -> None:
    """Name the column that the file lacks, with the nearest that it has."""
    for name in wanted:
        try:
            check_name(name, found, key=f"a column of {path}")
        except ValueError as error:
            raise UserError(f"{error}.") from None


def _numbers(column: "pd.Series[float]", name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a column as floats, NaN where it is missing."""
    try:
        numbers = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"column {name} must hold numbers ({error}); list it under data.categorical if it "
            "holds labels."
        ) from error
    infinite = int(np.isinf(numbers).sum(axis=0))
    if infinite:
        raise UserError(f"column {name} must hold finite numbers, got {infinite} infinite ones.")
    return numbers

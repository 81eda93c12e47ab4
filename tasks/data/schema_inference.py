"""Infer the role of each column of a file, and write a configuration that runs on it."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml
from pyarrow import compute as pc

from configs.data import FileFormat
from configs.errors import UserError
from configs.load import parse_config
from fkd import __version__
from fkd.core.arrays import Array
from fkd.core.sentinel_values import sentinel_values, shown_values
from fkd.problems.table import canonical_label, factorize_labels
from tasks.data.columns import to_table
from tasks.data.table_formats import RawColumns, check_names, header_of, read_raw
from tasks.data.user_table import (
    DATE,
    FEW_ROWS,
    MANY_LABELS,
    CellColumn,
    Mask,
    as_mask,
    cell_column,
    read_columns,
    read_numbers,
)

Role = Literal["target", "sensitive", "numeric", "categorical", "left out"]

# A column is numeric if this share of its cells is, and at most so many words are among them.
_NUMERIC_SHARE, _MAX_WORDS = 0.8, 5
_DATE_SHARE = 0.9
_EXAMPLES = 4
# Words in the names of ids, in English and German.
_ID_WORDS = {
    *("id", "ids", "uid", "uuid", "guid", "pk", "key", "nr", "no", "num", "number", "nummer"),
    *("index", "idx", "rowid", "code", "kennung"),
}
_WIDTH = 28  # of a line of YAML before its comment


@dataclass(frozen=True)
class InferredColumn:
    """A column with its role.

    Parameters
    ----------
    name, role, why
        The column, its role, and the reason for people.
    words
        Words that mean a missing value in the column.
    missing
        Number of missing values.
    codes
        Numbers that look like codes for a missing value.
    ends
        Smallest and largest number, if there are codes.
    real_elsewhere
        Codes that are no words, because another column holds them as values.
    """

    name: str
    role: Role
    why: str
    words: tuple[str, ...] = ()
    missing: int = 0
    codes: tuple[float, ...] = ()
    ends: tuple[float, float] = (0.0, 0.0)
    real_elsewhere: str = ""


@dataclass(frozen=True)
class InferredSchema:
    """The columns of a file with their roles."""

    path: Path
    rows: int
    read_as: str
    columns: tuple[InferredColumn, ...]

    def with_role(self, role: Role) -> list[InferredColumn]:
        """Return the columns of a role in the order of the file."""
        return [column for column in self.columns if column.role == role]

    @property
    def words(self) -> tuple[str, ...]:
        """Words that mean a missing value in a column that is used."""
        used = (column for column in self.columns if column.role != "left out")
        return tuple(dict.fromkeys(word for column in used for word in column.words))


def infer_schema(
    path: Path, options: FileFormat, target: str, sensitive: Sequence[str]
) -> InferredSchema:
    """Return the roles of the columns of a file.

    Parameters
    ----------
    path
        The file.
    options
        The format of the file, unless it is detected.
    target, sensitive
        The column to predict, and the sensitive columns.
    """
    wanted = (target, *sensitive)
    header = header_of(path, options, wanted)
    check_names(header, wanted, path)
    unique = [name for name in header if header.count(name) == 1 and name.strip()]
    raw = read_raw(path, options, unique, unique)
    columns = []
    for name in dict.fromkeys(header):
        if name in unique:
            role: Role | None = "sensitive" if name in sensitive else None
            columns.append(_infer_column(raw, name, options, "target" if name == target else role))
        else:
            why = "another column has the same name" if name.strip() else "it has no name"
            columns.append(InferredColumn(name, "left out", why))
    schema = InferredSchema(path, len(raw.frame), raw.read_as, tuple(columns))
    numeric = [column.name for column in schema.with_role("numeric")]
    if not numeric and not schema.with_role("categorical"):
        reasons = "; ".join(f"{c.name}: {c.why}" for c in schema.with_role("left out"))
        raise UserError(
            f"{path} must have a column that can be an input beside {', '.join(wanted)}, got none "
            f"({reasons})."
        )
    words = (*options.missing_words, *schema.words)
    known = options.model_copy(update={"missing_words": words})
    numbers, _ = read_numbers(raw, [*dict.fromkeys((*wanted, *numeric))], known)
    checked = [_with_codes(c, numbers) if c.name in wanted else c for c in columns]
    return replace(schema, columns=tuple(checked))


def propose_run(schema: InferredSchema, options: FileFormat, out: Path) -> str:
    """Return the YAML of a run on a file. It was parsed, and the file was read with it.

    Parameters
    ----------
    schema
        The roles of the columns.
    options
        The format of the file as given by the user.
    out
        Location of the YAML. The path of the file is relative to it.
    """
    text = "\n".join(_yaml_lines(schema, options, out)) + "\n"
    tree: dict[str, Any] = yaml.safe_load(text)
    located = {**tree, "data": {**tree["data"], "path": str(schema.path)}}
    data = parse_config(located, str(out)).data
    try:
        to_table(data, read_columns(schema.path, data))
    except ValueError as error:
        raise UserError(f"{schema.path}: {error}.") from error
    return text


def _infer_column(
    raw: RawColumns, name: str, options: FileFormat, role: Role | None
) -> InferredColumn:
    """Return a column with its role. A given role is kept."""
    cells = raw.frame[name]
    if role is None:
        if cells.isna().all():
            return InferredColumn(name, "left out", "it is empty")
        if _is_dated(cells):
            example = _examples([cells.dropna().iloc[0]])
            why = f"dates, such as {example}; a year or an age can be an input"
            return InferredColumn(name, "left out", why)
        if isinstance(cells.dtype, pd.CategoricalDtype):
            return _categorical(cells, name)
    column = cell_column(raw, name, options.missing_words)
    is_text = as_mask(pc.is_valid(column.text)) & ~(column.point | column.comma)
    is_number = ~np.isnan(column.numbers) | column.point | column.comma
    text = column.text.filter(is_text).unique().to_pylist()
    words = tuple(word for word in text if not re.search(r"\d", word))
    numbers, present = int(is_number.sum()), int((is_number | is_text).sum())
    mostly = numbers >= _NUMERIC_SHARE * max(present, 1)
    if role is not None or (mostly and len(words) == len(text) <= _MAX_WORDS):
        return _numeric(column, is_number, words if mostly else (), role)
    return _categorical(cells, name)


def _is_dated(cells: "pd.Series[Any]") -> bool:
    """Return True if nearly all cells are dates or times, by type or as text."""
    present = cells.dropna()
    if pd.api.types.is_numeric_dtype(present) or isinstance(cells.dtype, pd.CategoricalDtype):
        return False
    typed = present.map(lambda cell: isinstance(cell, date | time | timedelta))
    written = present.astype(str).str.strip().str.match(DATE)
    return bool((typed | written).mean() > _DATE_SHARE)


def _numeric(
    column: CellColumn, is_number: Mask, words: tuple[str, ...], role: Role | None
) -> InferredColumn:
    """Return a column of numbers. Numbers that identify rows are no input."""
    name, count = column.name, int(is_number.sum())
    missing = len(is_number) - count
    why = f"{count:,} numbers" + (f", {missing:,} missing" if missing else "")
    if role is not None:
        return InferredColumn(name, role, why, words, missing)
    text: pd.Series[Any] = column.text.to_pandas().astype(object)
    cells = text.where(np.isnan(column.numbers), column.numbers)
    if as_mask(pc.match_substring_regex(column.text, r"^0\d+$")).any():
        return _categorical(cells, name, "numbers that begin with 0, hence names: ")
    distinct = cells[is_number].nunique()
    if distinct <= 1:
        return InferredColumn(name, "left out", "it is constant")
    many = len(is_number) >= FEW_ROWS
    words_of_name = re.findall(r"[A-Z]+(?![a-zäöü])|[A-ZÄÖÜ]?[a-zäöüß]+|\d+", name)
    if many and any(word.lower() in _ID_WORDS for word in words_of_name):
        if distinct > MANY_LABELS * count:
            return InferredColumn(name, "left out", f"an id by its name, {distinct:,} values")
        return _categorical(cells, name, "an id by its name: ")
    parsed = pd.to_numeric(text, errors="coerce")
    values = np.where(np.isnan(column.numbers), parsed, column.numbers)
    if many and (np.diff(values) == 1).all():
        return InferredColumn(name, "left out", "it numbers the rows")
    return InferredColumn(name, "numeric", why, words, missing)


def _categorical(cells: "pd.Series[Any]", name: str, because: str = "") -> InferredColumn:
    """Return a column of labels. A constant column and ids are left out."""
    codes, labels = factorize_labels(cells)
    missing = int((codes < 0).sum(axis=0))
    if len(labels) + bool(missing) <= 1:
        return InferredColumn(name, "left out", "it is constant")
    # Labels in the spelling of the file, with leading zeros.
    spelling: dict[str, str] = {}
    for value in cells.dropna().unique():
        if isinstance(value, str):
            spelling.setdefault(canonical_label(value), value)
    examples = _examples([spelling.get(label, label) for label in labels])
    why = f"{because}{len(labels):,} labels, such as {examples}"
    if len(codes) >= FEW_ROWS and len(labels) > MANY_LABELS * len(codes):
        why = f"{why}, in {len(codes):,} rows, like ids, names or free text"
        return InferredColumn(name, "left out", why)
    why += f", {missing:,} missing" if missing else ""
    return InferredColumn(name, "categorical", why, missing=missing)


def _with_codes(column: InferredColumn, numbers: Mapping[str, Array]) -> InferredColumn:
    """Return a column with its codes for missing values.

    A code becomes a missing word unless it is a value of another column, because words apply to
    every column.
    """
    values = numbers[column.name]
    codes, rows = sentinel_values(values)
    if not len(codes):
        return column
    real = [
        (code, f"{shown_values([code])} in {count:,} row{'s' if count > 1 else ''} of {name}")
        for name, other in numbers.items()
        for code in np.setdiff1d(codes, sentinel_values(other)[0])
        if (count := np.count_nonzero(other == code))
    ]
    safe = np.setdiff1d(codes, [code for code, _ in real])
    return replace(
        column,
        why=f"{column.why}; {shown_values(codes)} in {len(rows):,} of them look like missing ones",
        words=(*column.words, *(shown_values([code]) for code in safe)),
        codes=tuple(codes.tolist()),
        ends=(float(np.nanmin(values)), float(np.nanmax(values))),
        real_elsewhere=_examples([text for _, text in real], width=None),
    )


def _yaml_lines(schema: InferredSchema, options: FileFormat, out: Path) -> Iterator[str]:
    stem = schema.path.name.partition(".")[0]
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_-")
    path = os.path.relpath(schema.path, out.absolute().parent)
    read_as = f", read as {schema.read_as}" if schema.read_as else ""
    size = f"{schema.rows:,} rows, {len(schema.columns)} columns"
    (target,) = schema.with_role("target")
    yield f"# {_one_line(schema.path.name)}: {size}{read_as}."
    yield f"# Proposed by fkd {__version__}. Check it, see the plan with --dry-run, then run it."
    yield f"name: {name[:100] or 'own'}"
    yield "data:"
    yield "  problem: table"
    yield _commented(f"  path: {_flow(path)}", "relative to the folder of this file")
    yield _commented(f"  target: {_flow(target.name)}", f"the column to predict; {target.why}")
    titles: dict[Role, str] = {
        "sensitive": "sensitive columns",
        "numeric": "numeric inputs",
        "categorical": "categorical inputs",
    }
    for role, title in titles.items():
        if columns := schema.with_role(role):
            yield _commented(f"  {role}:", title)
            yield from (_commented(f"    - {_flow(c.name)}", c.why) for c in columns)
    if columns := schema.with_role("left out"):
        yield "  # No inputs. Move a column into a list above if that is wrong:"
        for column in columns:
            yield f"  #   {_one_line(column.name) or '(no name)'}: {_one_line(column.why)}"
    yield from _format_lines(schema, options)
    yield "folds: {k: 5}"
    yield "methods:"
    yield _commented("  - dummy", "the mean for every row, as a baseline")
    yield _commented(
        "  - {name: krr_fkd, approximation: {kind: auto}}",
        "removes nothing to much; exact, or by landmarks if there are many rows",
    )
    yield _commented("select: {knee_of: gdp}", "or a limit: {subject_to: {gdp: 0.02}}")


def _format_lines(schema: InferredSchema, options: FileFormat) -> Iterator[str]:
    """Yield the options for the format of the file, and for its missing values."""
    for key in ("encoding", "separator", "decimal"):
        if key in options.model_fields_set:
            yield f"  {key}: {_flow(getattr(options, key))}"
    words = [*dict.fromkeys((*options.missing_words, *schema.words))]
    if words:
        yield _commented(f"  missing_words: {_flow(words)}", "found in columns of numbers")
    if coded := [column for column in schema.columns if column.codes]:
        for column in coded:
            if real := _one_line(column.real_elsewhere):
                yield f"  # {_one_line(column.name)}: codes are left out of missing_words,"
                yield f"  # which applies to every column and would also remove {real}."
                yield "  # Empty the cells in the file if they mean missing values."
        ranges = {column.name: list(column.ends) for column in coded}
        yield "  # Numbers in missing_words are read as missing in every column. If codes are real:"
        yield f"  # ranges: {_flow(ranges)}"
    if gaps := [column.name for column in schema.with_role("numeric") if column.missing]:
        why = f"{', '.join(gaps)} have missing values; drop removes these rows"
        yield _commented("  missing: impute", why)


def _examples(values: Sequence[Any], width: int | None = 20) -> str:
    """Return the first values in one line."""
    shown = [_one_line(str(value))[:width] for value in values[:_EXAMPLES]]
    return ", ".join(shown) + (", ..." if len(values) > _EXAMPLES else "")


def _flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    # Only double quotes escape a line break in a name.
    style = '"' if "\n" in str(value) or "\r" in str(value) else None
    text = yaml.safe_dump(
        value, default_flow_style=True, default_style=style, allow_unicode=True, width=10**6
    )
    return text.removesuffix("...\n").strip()


def _commented(line: str, comment: str) -> str:
    return f"{line:<{_WIDTH}}  # {_one_line(comment)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())

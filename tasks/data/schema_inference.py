"""What each column of an unknown file seems to be, so that a run on it can be proposed."""

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

from configs.data import WrittenForm
from configs.errors import UserError
from configs.load import parse_config
from fkd import __version__
from fkd.core.arrays import Array
from fkd.core.sentinel_values import sentinel_values, shown_values
from fkd.problems.labels import canonical_label, factorize_labels
from tasks.data.columns import to_table
from tasks.data.table_formats import (
    DATE,
    CellColumn,
    RawColumns,
    as_mask,
    cell_column,
    check_names,
    header_of,
    read_numbers,
    read_raw,
)
from tasks.data.user_table import FEW_ROWS, MANY_LABELS, read_own_file
from tasks.storage.files import write_atomic

Role = Literal["target", "sensitive", "numeric", "categorical", "left out"]
# A word among numbers means a missing value where nearly all cells are numbers.
_MOSTLY, _MOST_WORDS = 0.8, 5
_NEARLY_ALL = 0.9
_SHOWN = 4
# Parts of names that tell of an id, in the languages of the files that were looked at.
_ID_WORDS = {"id", "ids", "uid", "uuid", "guid", "pk", "key", "nr", "no", "num", "number"} | {
    "nummer",
    "index",
    "idx",
    "rowid",
    "code",
    "kennung",
}


@dataclass(frozen=True)
class ProposedColumn:
    """A column with its part in a run."""

    name: str
    role: Role
    why: str
    words: tuple[str, ...] = ()  # that mean a missing value in it
    missing: int = 0
    codes: tuple[float, ...] = ()  # numbers that look like codes for a missing value
    ends: tuple[float, float] = (0.0, 0.0)  # least and greatest number, if there are codes
    real_elsewhere: str = ""  # codes that are no words, since another column holds them as values


@dataclass(frozen=True)
class LookedAt:
    """A file as it was understood."""

    path: Path
    rows: int
    told: str
    columns: tuple[ProposedColumn, ...]

    def named(self, role: Role) -> list[ProposedColumn]:
        """Return the columns of one part, in the file's order."""
        return [column for column in self.columns if column.role == role]

    @property
    def words(self) -> tuple[str, ...]:
        """Words that mean a missing value in some column that is used."""
        used = (column for column in self.columns if column.role != "left out")
        return tuple(dict.fromkeys(word for column in used for word in column.words))


def look_at(path: Path, form: WrittenForm, target: str, sensitive: Sequence[str]) -> LookedAt:
    """Return what the columns of a file seem to be, besides those that are named.

    Parameters
    ----------
    path
        The file.
    form
        How it is written, where it does not show so itself.
    target, sensitive
        What is to be predicted, what must not matter.
    """
    wanted = (target, *sensitive)
    header = header_of(path, form, wanted)
    check_names(header, wanted, path)
    once = [name for name in header if header.count(name) == 1 and name.strip()]
    raw = read_raw(path, form, once, once)
    found = []
    for name in dict.fromkeys(header):
        if name not in once:
            why = "another column has the same name" if name.strip() else "it has no name"
            found.append(ProposedColumn(name, "left out", why))
            continue
        role: Role | None = (
            "target" if name == target else "sensitive" if name in sensitive else None
        )
        found.append(_look(raw, name, form, role))
    looked = LookedAt(path, len(raw.frame), raw.told, tuple(found))
    if not looked.named("numeric") and not looked.named("categorical"):
        raise UserError(
            f"{path} must have a column that can be an input beside {', '.join(wanted)}, got none: "
            + "; ".join(f"{column.name}: {column.why}" for column in looked.named("left out"))
            + "."
        )
    words = (*form.missing_words, *looked.words)
    used = [*dict.fromkeys((*wanted, *(column.name for column in looked.named("numeric"))))]
    numbers, _ = read_numbers(raw, used, form.model_copy(update={"missing_words": words}))
    columns = [_with_codes(c, numbers) if c.name in wanted else c for c in looked.columns]
    return replace(looked, columns=tuple(columns))


def _with_codes(column: ProposedColumn, numbers: Mapping[str, Array]) -> ProposedColumn:
    """Return a column with the numbers that look like codes for a missing value.

    A code is a missing word unless it is a value of another column, to which the word applies too.
    """
    values = numbers[column.name]
    codes, rows = sentinel_values(values)
    if not len(codes):
        return column
    why = f"{column.why}; {shown_values(codes)} in {len(rows):,} of them look like missing values"
    real = [
        (code, f"{shown_values([code])} in {count:,} row{'s' if count > 1 else ''} of {name}")
        for name, other in numbers.items()
        for code in np.setdiff1d(codes, sentinel_values(other)[0])
        if (count := np.count_nonzero(other == code))
    ]
    safe = np.setdiff1d(codes, [code for code, _ in real])
    return replace(
        column,
        why=why,
        words=(*column.words, *(shown_values([code]) for code in safe)),
        codes=tuple(codes.tolist()),
        ends=(float(np.nanmin(values)), float(np.nanmax(values))),
        real_elsewhere=", ".join(text for _, text in real[:_SHOWN])
        + (", ..." if len(real) > _SHOWN else ""),
    )


def _look(raw: RawColumns, name: str, form: WrittenForm, role: Role | None) -> ProposedColumn:
    """Return what one column is; a column whose part is given stays in it."""
    cells = raw.frame[name]
    if role is None and cells.isna().all():
        return ProposedColumn(name, "left out", "it is empty")
    if role is None and _is_dated(cells):
        why = f"dates, such as {_shown([cells.dropna().iloc[0]])}; a year or an age can be an input"
        return ProposedColumn(name, "left out", why)
    if role is None and isinstance(cells.dtype, pd.CategoricalDtype):
        return _labels(cells, name)
    column = cell_column(raw, name, form.missing_words)
    readable = ~np.isnan(column.numbers) | column.point | column.comma
    text = column.text.filter(~(column.point | column.comma)).drop_null().unique().to_pylist()
    present = int(readable.sum()) + int((as_mask(pc.is_valid(column.text)) & ~readable).sum())
    words = tuple(word for word in text if not re.search(r"\d", word))
    mostly = int(readable.sum()) >= _MOSTLY * max(present, 1)
    if role is not None or (mostly and len(words) == len(text) <= _MOST_WORDS):
        return _numbers(column, readable, words if mostly else (), role)
    return _labels(cells, name)


def _is_dated(cells: "pd.Series[Any]") -> bool:
    """Return whether (nearly) all cells are dates or times, typed or written."""
    if pd.api.types.is_datetime64_any_dtype(cells) or pd.api.types.is_timedelta64_dtype(cells):
        return True
    present = cells.dropna()
    if pd.api.types.is_numeric_dtype(present) or isinstance(cells.dtype, pd.CategoricalDtype):
        return False
    typed = present.map(lambda cell: isinstance(cell, date | time | timedelta))
    written = present.astype(str).str.strip().str.match(DATE)
    return bool((typed | written).mean() > _NEARLY_ALL)


def _numbers(
    column: CellColumn, readable: "np.ndarray[Any, Any]", words: tuple[str, ...], role: Role | None
) -> ProposedColumn:
    """Return a column of numbers, unless its numbers are names."""
    name, count = column.name, int(readable.sum())
    missing = len(readable) - count
    told = f"{count:,} numbers" + (f", {missing:,} missing" if missing else "")
    if role is not None:
        return ProposedColumn(name, role, told, words, missing)
    text: pd.Series[Any] = column.text.to_pandas().astype(object)
    cells = text.where(np.isnan(column.numbers), column.numbers)
    if as_mask(pc.match_substring_regex(column.text, r"^0\d+$")).any():
        return _labels(cells, name, "numbers that begin with 0, hence names: ")
    distinct = cells[readable].nunique()
    if distinct <= 1:
        return ProposedColumn(name, "left out", "it is constant")
    if _says_id(name) and len(readable) >= FEW_ROWS:
        if distinct > MANY_LABELS * count:
            return ProposedColumn(name, "left out", f"an id by its name, {distinct:,} values")
        return _labels(cells, name, "an id by its name: ")
    if count >= FEW_ROWS and _counts_rows(column.numbers, column.text.to_pandas()):
        return ProposedColumn(name, "left out", "it numbers the rows")
    return ProposedColumn(name, "numeric", told, words, missing)


def _counts_rows(numbers: "np.ndarray[Any, Any]", text: "pd.Series[Any]") -> bool:
    """Return whether each row has the number of the one before plus one."""
    plain = np.where(np.isnan(numbers), pd.to_numeric(text, errors="coerce"), numbers)
    return bool(len(plain) and (np.diff(plain) == 1).all())


def _labels(cells: "pd.Series[Any]", name: str, because: str = "") -> ProposedColumn:
    """Return a column of labels, left out where there is nothing to learn from it."""
    codes, labels = factorize_labels(cells)
    missing = int((codes < 0).sum(axis=0))
    told = f"{because}{len(labels):,} labels, such as {_shown(_as_written(cells, labels))}"
    if len(labels) + bool(missing) <= 1:
        return ProposedColumn(name, "left out", "it is constant")
    if len(codes) >= FEW_ROWS and len(labels) > MANY_LABELS * len(codes):
        why = f"{told}, in {len(codes):,} rows, as ids, names and free text have"
        return ProposedColumn(name, "left out", why)
    why = told + (f", {missing:,} missing" if missing else "")
    return ProposedColumn(name, "categorical", why, (), missing)


def _as_written(cells: "pd.Series[Any]", labels: Sequence[str]) -> list[str]:
    """Return the labels as the file spells them, with the zeros that they begin with."""
    spelt: dict[str, str] = {}
    for value in cells.dropna().unique():
        if isinstance(value, str):
            spelt.setdefault(canonical_label(value), value)
    return [spelt.get(label, label) for label in labels]


def _says_id(name: str) -> bool:
    """Return whether a part of the name tells of an id: customer_id, KundenNr, ID."""
    parts = re.findall(r"[A-Z]+(?![a-zäöü])|[A-ZÄÖÜ]?[a-zäöüß]+|\d+", name)
    return any(part.lower() in _ID_WORDS for part in parts)


def _shown(values: Sequence[Any]) -> str:
    """Return the first values in one line."""
    shown = [" ".join(str(value).split())[:20] for value in values[:_SHOWN]]
    return ", ".join(shown) + (", ..." if len(values) > _SHOWN else "")


_WIDTH = 28  # of a name before its comment


def propose_run(looked: LookedAt, form: WrittenForm, out: Path) -> str:
    """Return the YAML of a run on a file, seen to load and to read the file.

    Parameters
    ----------
    looked
        What the columns are.
    form
        What the user has said of how the file is written.
    out
        Where the YAML shall lie; the path in it is told from there.
    """
    text = "\n".join(_lines(looked, form, out)) + "\n"
    tree: dict[str, Any] = yaml.safe_load(text)
    located = {**tree, "data": {**tree["data"], "path": str(looked.path)}}
    data = parse_config(located, str(out)).data
    try:
        to_table(data, read_own_file(data))
    except ValueError as error:
        raise UserError(f"{looked.path}: {error}.") from error
    return text


def write_run(text: str, out: Path) -> None:
    """Write the YAML as a whole."""
    write_atomic(out, text.encode("utf-8"))


def _lines(looked: LookedAt, form: WrittenForm, out: Path) -> Iterator[str]:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", looked.path.name.partition(".")[0]).strip("_-")
    path = os.path.relpath(looked.path, out.absolute().parent)
    told = f", read as {looked.told}" if looked.told else ""
    size = f"{looked.rows:,} rows, {len(looked.columns)} columns"
    yield f"# {_comment(looked.path.name)}: {size}{told}."
    yield f"# Proposed by fkd {__version__}. Look through it, see the plan by --dry-run, run it."
    yield f"name: {name[:100] or 'own'}"
    yield "data:"
    yield "  problem: table"
    yield _commented(f"  path: {_plain(path)}", "seen from the folder of this file")
    (target,) = looked.named("target")
    yield _commented(f"  target: {_plain(target.name)}", f"what is predicted; {target.why}")
    yield from _listed("sensitive", looked.named("sensitive"), "what must not matter")
    yield from _listed("numeric", looked.named("numeric"), "inputs that are numbers")
    yield from _listed("categorical", looked.named("categorical"), "inputs that are labels")
    if left := looked.named("left out"):
        yield "  # No inputs; move one into a list above if that is wrong:"
        yield from (f"  #   {_comment(c.name) or '(no name)'}: {_comment(c.why)}" for c in left)
    yield from _form_lines(looked, form)
    yield "folds: {k: 5}"
    yield "methods:"
    yield _commented("  - dummy", "the mean for everyone, to compare with")
    yield _commented(
        "  - {name: krr_fkd, approximation: {kind: auto}}",
        "from nothing removed to much; exact, or by landmarks where rows are many",
    )
    yield _commented("select: {knee_of: gdp}", "or a limit: {subject_to: {gdp: 0.02}}")


def _form_lines(looked: LookedAt, form: WrittenForm) -> Iterator[str]:
    """Yield how the file is written, as far as the file itself does not show it."""
    for key in ("encoding", "separator", "decimal"):
        if key in form.model_fields_set:
            yield f"  {key}: {_plain(getattr(form, key))}"
    words = [*dict.fromkeys((*form.missing_words, *looked.words))]
    if words:
        line = f"  missing_words: {_plain(words)}"
        yield _commented(line, "found where there should be numbers")
    if coded := [column for column in looked.columns if column.codes]:
        ranges = {column.name: list(column.ends) for column in coded}
        for column in coded:
            if real := _comment(column.real_elsewhere):
                yield f"  # {_comment(column.name)}: codes are left out of missing_words,"
                yield f"  # which applies to every column and would also remove {real}."
                yield "  # Empty the cells in the file if they stand for missing values."
        yield "  # Numbers in missing_words are read as missing in every column. If codes are real:"
        yield f"  # ranges: {_plain(ranges)}"
    if gaps := [column for column in looked.named("numeric") if column.missing]:
        why = f"{', '.join(column.name for column in gaps)} lack values; drop leaves such rows out"
        yield _commented("  missing: impute", why)


def _listed(key: str, columns: Sequence[ProposedColumn], what: str) -> Iterator[str]:
    """Yield a list of columns, each with a word on what it holds."""
    if columns:
        yield _commented(f"  {key}:", what)
        yield from (_commented(f"    - {_plain(column.name)}", column.why) for column in columns)


def _plain(value: Any) -> str:
    """Return a value as YAML in one line."""
    # A line break inside a name is escaped in double quotes only.
    style = '"' if "\n" in str(value) or "\r" in str(value) else None
    text = yaml.safe_dump(
        value, default_flow_style=True, default_style=style, allow_unicode=True, width=10**6
    )
    return text.removesuffix("...\n").strip()


def _commented(line: str, comment: str) -> str:
    return f"{line:<{_WIDTH}}  # {_comment(comment)}"


def _comment(text: str) -> str:
    """Return a text that stays in its line."""
    return " ".join(text.split())

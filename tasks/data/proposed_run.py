"""A commented configuration that runs on a file as it is."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from configs.errors import UserError
from configs.load import parse_config
from configs.text_form import WrittenForm
from fkd import __version__
from tasks.adapters.files import write_atomic
from tasks.data.columns import to_table
from tasks.data.own_file import read_own_file
from tasks.data.own_look import LookedAt, ProposedColumn

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

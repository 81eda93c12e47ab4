"""Commands for data: fetch, list, verify, remove, and propose a configuration for a file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cyclopts
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from configs.data import DataConfig
from configs.errors import UserError
from fkd.core.sentinel_values import shown_values
from fkd.problems import PROBLEMS
from flows.command_options import Names, Overrides
from flows.model_commands import written_form
from tasks.data.download import Cache
from tasks.data.load import PREPARED
from tasks.data.schema_inference import InferredSchema, infer_schema, propose_run
from tasks.storage.files import named_disk_errors, write_atomic
from tasks.storage.settings import read_settings
from tasks.storage.store import open_store

# Reading tables imports pandas with pyarrow: it happens inside `fetch`, so that help is instant.

app = cyclopts.App(name="data")


@app.command
def fetch(
    problem: str,
    /,
    *,
    states: str | None = None,
    year: str | None = None,
    horizon: str | None = None,
) -> None:
    """Fetch and verify the files of a problem, prepare its table and print its rows.

    Parameters
    ----------
    problem
        crimes, acs_income or acs_travel_time.
    states
        Postal codes separated by commas, or all.
    year
        One survey year, or several separated by commas.
    horizon
        1-Year, 3-Year or 5-Year.
    """
    from tasks.data.columns import report_text
    from tasks.data.load import describe_rows, load_table

    data = _config(problem, states=states, year=year, horizon=horizon)
    console = Console(highlight=False, markup=False)
    with _progress() as listener:
        loaded = load_table(data, read_settings(), listener)
    for file in loaded.provenance["files"]:
        console.print(f"{file['name']}  sha256 {file['sha256']}", soft_wrap=True)
    console.print(report_text(loaded.provenance["columns"]), soft_wrap=True)
    for name, reason in loaded.provenance["columns_left_out"].items():
        console.print(f"no input: {name}, {reason}")
    console.print(f"{data.problem}: {describe_rows(loaded.provenance)}", soft_wrap=True)


@app.command(name="list")
def list_() -> None:
    """List the problems and the downloaded files."""
    console = Console(highlight=False)
    problems = Table("problem", "target", "sensitive", "sources", title="Problems", box=None)
    for problem in PROBLEMS.values():
        sources = ", ".join(problem.sources)
        problems.add_row(problem.name, problem.target, ", ".join(problem.sensitive), sources)
    console.print(problems)
    files = Table("file", "MB", "sha256", "checksum known", title="Files in the cache", box=None)
    for record in _cache().records():
        known = "in advance" if record.pinned else "since first use"
        files.add_row(record.name, f"{record.size / 1e6:.1f}", record.sha256[:12], known)
    console.print(files)


@app.command
def verify() -> None:
    """Verify the checksum of every downloaded file and prepared table."""
    cache = _cache()
    records = list(cache.records())
    store = open_store(read_settings())
    tables = [entry.name for entry in store.entries(PREPARED)]
    damaged = [record.name for record in records if not cache.is_intact(record)]
    damaged += [name for name in tables if store.read(name) is None]
    if damaged:
        raise UserError(
            f"{len(damaged)} of {len(records) + len(tables)} files are damaged: "
            f"{', '.join(damaged)}. The next run fetches them again; `fkd data clean` removes them."
        )
    Console(highlight=False).print(
        f"{len(records)} downloaded files, {len(tables)} prepared tables: all intact"
    )


@app.command
def clean(*names: str, everything: bool = False) -> None:
    """Remove damaged, partial or unused files, or the named ones.

    Parameters
    ----------
    names
        Files as `fkd data list` shows them. Their recorded checksums are removed too.
    everything
        Remove all downloaded files and all prepared tables.
    """
    cache = _cache()
    records = {record.name: record for record in cache.records()}
    unknown = [name for name in names if name not in records]
    if unknown:
        raise UserError(
            f"{', '.join(unknown)} is not in the cache. `fkd data list` shows its files."
        )
    damaged = [name for name, record in records.items() if not cache.is_intact(record)]
    chosen = list(records) if everything else list(names) or damaged
    with named_disk_errors(cache.folder):
        removed = sum(cache.remove(name) for name in chosen)
        busy = len(chosen) - removed
        if not names:
            leftovers, fetched = cache.remove_leftovers()
            removed, busy = removed + leftovers + _clean_tables(everything), busy + fetched
    kept = f"; {_count(busy)} kept: another process is fetching them" if busy else ""
    Console(highlight=False).print(f"{_count(removed)} removed{kept}")


def _clean_tables(everything: bool) -> int:
    """Remove damaged prepared tables, or all of them, and return their number."""
    store = open_store(read_settings())
    tables = [entry.name for entry in store.entries(PREPARED)]
    if everything:
        return sum(store.remove(name) for name in tables)
    return sum(store.read(name) is None for name in tables)  # reading removes what is damaged


def _count(files: int) -> str:
    return f"{files} file{'' if files == 1 else 's'}"


def _config(problem: str, **chosen: str | None) -> DataConfig:
    """Return the validated data configuration."""
    tree: dict[str, Any] = {"problem": problem}
    tree |= {key: value.split(",") for key, value in chosen.items() if value and key != "horizon"}
    if chosen["horizon"]:
        tree["horizon"] = chosen["horizon"]
    # The embedded copy needs no fetching.
    public = (
        [s for s in PROBLEMS[problem].sources if s != "embedded"] if problem in PROBLEMS else []
    )
    tree |= {"source": public[0]} if public else {}
    try:
        return DataConfig.model_validate(tree)
    except ValidationError as error:
        raise UserError("; ".join(_fault(fault) for fault in error.errors())) from error


def _fault(fault: Any) -> str:
    """Return a validation error with the key."""
    key = f"data.{fault['loc'][0]}: " if fault["loc"] else ""
    return f"{key}{fault['msg'].removeprefix('Value error, ')}"


def _cache() -> Cache:
    return Cache(read_settings().downloads)


@contextmanager
def _progress() -> Iterator[Any]:
    """Yield a listener that shows one bar per file on a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    bars: dict[str, Any] = {}
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as progress:

        def listen(name: str, done: int, total: int | None) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name)
            progress.update(bars[name], completed=done, total=total)

        yield listen


def propose_own(
    table: Path,
    /,
    *,
    target: str,
    sensitive: Names,
    out: Path | None = None,
    force: bool = False,
    overrides: Overrides = (),
) -> None:
    """Write a commented configuration for a table of your own.

    Parameters
    ----------
    table
        A CSV, TSV, Excel, Parquet or Feather file with a header.
    target
        Column to predict.
    sensitive
        Numeric columns on which predictions must not depend.
    out
        Path of the YAML file; the default is the name of the table in this folder.
    force
        Overwrite an existing file.
    """
    if not table.is_file():
        raise UserError(
            f"The table must be an existing CSV, TSV, Excel, Parquet or Feather file, got "
            f"{str(table)!r}, which {'is a folder' if table.is_dir() else 'does not exist'}."
        )
    if target in sensitive or not sensitive:
        raise UserError(
            f"--sensitive must name a column other than the target, got {', '.join(sensitive)} "
            f"with target {target}."
        )
    out = out or Path(f"{table.name.partition('.')[0]}.yaml")
    if out.exists() and not force:
        raise UserError(
            f"{out} exists already. Choose another path by --out, or overwrite it by --force."
        )
    form = written_form(overrides)
    schema = infer_schema(table.absolute(), form, target, sensitive)
    write_atomic(out, propose_run(schema, form, out).encode("utf-8"))
    _show(schema, out)


def _show(schema: InferredSchema, out: Path) -> None:
    """Print the role of every column, and the next command."""
    console = Console(highlight=False)
    grid = Table("column", "taken as", "because")
    for column in schema.columns:
        grid.add_row(escape(column.name), column.role, escape(column.why))
    console.print(grid)
    for column in schema.columns:
        if column.codes:
            remedy = (
                "The configuration reads them as missing (data.missing_words); "
                "declare data.ranges instead if they are real."
            )
            if column.real_elsewhere:
                remedy = (
                    "Codes are left out of data.missing_words, which applies to every column and "
                    f"would also remove {column.real_elsewhere}. Empty the cells in the file, or "
                    "declare data.ranges if they are real."
                )
            held = f"Column {column.name} holds {shown_values(column.codes)}"
            text = f"{held}, far from its other values. {remedy}"
            console.print(f"[yellow]{escape(text)}[/yellow]", soft_wrap=True)
    console.print(f"[bold]configuration[/bold] {escape(str(out))}", soft_wrap=True)
    console.print(f"Next: fkd run {escape(str(out))} --dry-run", soft_wrap=True)

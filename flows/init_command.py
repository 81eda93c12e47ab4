"""The command that proposes a run on a table of one's own."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from fkd.core.sentinel_values import shown_values
from flows.command_options import Overrides
from flows.said_form import written_form
from tasks.data.own_look import LookedAt, look_at
from tasks.data.proposed_run import propose_run, write_run

Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]


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
    """Look at a table, write a commented YAML that runs on it.

    Parameters
    ----------
    table
        A CSV, TSV, Excel, Parquet or Feather file with a header.
    target
        The column to predict.
    sensitive
        Columns that must not matter, each a number.
    out
        Where the YAML is written, by default in this folder under the table's name.
    force
        Write over a file that is there.
    """
    if not table.is_file():
        raise UserError(
            f"a table must be an existing CSV, TSV, Excel, Parquet or Feather file, got "
            f"{str(table)!r}, which is {'a folder' if table.is_dir() else 'not there'}."
        )
    if target in sensitive or not sensitive:
        raise UserError(
            f"--sensitive must name a column other than the target, got {', '.join(sensitive)} "
            f"with target {target}."
        )
    out = out or Path(f"{table.name.partition('.')[0]}.yaml")
    if out.exists() and not force:
        raise UserError(f"{out} is there already; name another by --out, or say --force.")
    form = written_form(overrides)
    looked = look_at(table.absolute(), form, target, sensitive)
    write_run(propose_run(looked, form, out), out)
    _show(looked, out)


def _show(looked: LookedAt, out: Path) -> None:
    """Print what every column was taken for, then what to do next."""
    console = Console(highlight=False)
    grid = Table("column", "taken as", "because")
    for column in looked.columns:
        grid.add_row(escape(column.name), column.role, escape(column.why))
    console.print(grid)
    for column in looked.columns:
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

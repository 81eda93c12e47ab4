"""The command that audits predictions of any model."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from fkd import FairnessWarning
from fkd import audit as audit_rows
from fkd.measures import survey_weights
from fkd.measures.auditing import Audit
from flows.command_options import Names
from tasks.adapters.reachable import TrackingUnreachableError
from tasks.adapters.settings import read_settings
from tasks.data.predicted_file import PredictedColumns, PredictionFile, read_predicted
from tasks.report.audit_page import AuditStory, audit_grid, audit_sentences, write_audit
from tasks.report.tables import Grid

# Types of numbers in a signature, as columns have them.
_NUMBERS = {"double": "float64", "float": "float32", "long": "int64", "integer": "int32"}


def audit_file(
    table: str,
    /,
    *,
    target: str,
    sensitive: Names,
    prediction: str | None = None,
    other: str | None = None,
    model: str | None = None,
    group_by: Names = (),
    weights: str | None = None,
    unit: str = "",
    seed: int = 0,
    out: Path = Path("audit.html"),
) -> None:
    """Audit the predictions of any model along sensitive columns.

    Parameters
    ----------
    table
        A CSV, TSV, Excel, Parquet or Feather file: predictions beside the truth.
    target
        The column that holds the truth.
    sensitive
        Columns to follow the predictions along, each a number with more than two values.
    prediction
        The column of predictions, called prediction if not said.
    other
        A second model's column of predictions, compared on the same rows.
    model
        Instead of a column: an MLflow model such as models:/NAME@champion, applied to the table.
    group_by
        Legitimate columns: dependence is measured within their groups too.
    weights
        The column that says how much each row counts, such as how many people it stands for;
        scaled to sum to the number of rows.
    unit
        What the target is counted in.
    seed
        Of intervals and bands.
    out
        Where the page is written.
    """
    if model is not None and prediction is not None:
        raise UserError(
            "predictions come from --prediction or from --model, got both; leave one out."
        )
    applied = None if model is None else _model(model)
    column = None if model is not None else prediction or "prediction"
    wanted = PredictedColumns(table, target, sensitive, column, other, group_by, weights=weights)
    if applied is not None:
        wanted = replace(
            wanted,
            inputs=applied.inputs,
            numbers=tuple(applied.numbers),
            labels=applied.labels,
        )
    rows = read_predicted(wanted, None if applied is None else applied.predict)
    found = _audited(rows, seed)
    story = AuditStory(
        target=target,
        unit=unit,
        source=f"{Path(table).name}, {model or f'column {column}'}",
        model=model or str(column),
        other=other or "",
        rows_read=rows.read,
        dropped=tuple(f"{number:,}: {reason}" for reason, number in rows.dropped.items()),
        weights=weights or "",
    )
    page = write_audit(found, story, out)
    _show(found, story, page)


def _audited(rows: PredictionFile, seed: int) -> Audit:
    """Return the audit, its notes kept for the page; a fault of the rows is told as ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        try:
            return audit_rows(
                rows.y_true,
                rows.y_pred,
                rows.sensitive,
                other=rows.other,
                control_features=rows.control,
                random_state=seed,
                sample_weight=None if rows.weights is None else survey_weights(rows.weights),
            )
        except ValueError as error:
            raise UserError(f"{error}.") from error


@dataclass(frozen=True)
class AppliedModel:
    """A model of MLflow's with the columns that its signature names."""

    address: str
    inputs: tuple[str, ...]
    numbers: Mapping[str, str]  # those that it takes as numbers, with the type that it wants
    labels: tuple[str, ...]  # those that it takes as text
    function: Callable[[pd.DataFrame], Any]
    faults: tuple[type[Exception], ...]  # by which it refuses rows

    def predict(self, frame: pd.DataFrame) -> Any:
        """Return its predictions; what it says against the rows becomes a sentence."""
        try:
            return self.function(frame.astype(dict(self.numbers)))
        except self.faults as error:
            told = " ".join(str(error).split()).rstrip(".")
            raise UserError(
                f"{self.address} cannot predict these rows: {told}; correct or leave out such "
                "rows, or audit a file with a column of predictions."
            ) from error


def _model(address: str) -> AppliedModel:
    """Return the model at an address, which must say what it takes."""
    from tasks.adapters.registry import REFUSALS, load_model

    try:
        loaded = load_model(read_settings(), address)
    except TrackingUnreachableError as error:
        raise UserError(
            f"--model must be an address that MLflow knows, such as models:/NAME@champion, got "
            f"{address!r} ({error.cause})."
        ) from None
    schema = loaded.metadata.get_input_schema()
    if schema is None or not schema.has_input_names():
        raise UserError(
            f"{address} must say which columns it takes, got a model without a signature; log it "
            "with one, or audit a file with a column of predictions."
        )
    numbers = {
        spec.name: _NUMBERS[spec.type.name] for spec in schema.inputs if spec.type.name in _NUMBERS
    }
    labels = tuple(spec.name for spec in schema.inputs if spec.type.name == "string")
    inputs = tuple(schema.input_names())
    return AppliedModel(address, inputs, numbers, labels, loaded.predict, REFUSALS)


def _show(audit: Audit, story: AuditStory, page: Path) -> None:
    """Print the numbers, then where the page lies."""
    console = Console(highlight=False)
    for note in audit.notes:
        console.print(f"[yellow]{escape(note)}[/yellow]")
    console.print(_table(audit_grid(audit, story)))
    console.print(escape(" ".join(audit_sentences(audit, story))))
    console.print(f"[bold]page[/bold] {escape(str(page))}", soft_wrap=True)


def _table(grid: Grid) -> Table:
    """Return a grid for a terminal."""
    table = Table(*grid.headings)
    for row in grid.rows:
        table.add_row(*(escape(cell.text) for cell in row.cells))
    return table

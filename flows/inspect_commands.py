"""Commands that inspect results: audit, compare, and the checks of a run."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
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
from fkd.measures import REPORTED, survey_weights
from fkd.measures.auditing import Audit
from flows.command_options import Names
from tasks.data.user_table import PredictedColumns, PredictionFile, read_predicted
from tasks.report import tables
from tasks.report.audit_page import AuditLabels, audit_sentences, audit_table, write_audit
from tasks.select.checks import CheckOutcome, check_study
from tasks.select.results import MAE
from tasks.select.study import Study
from tasks.storage.settings import read_settings
from tasks.track.client import TrackingUnreachableError
from tasks.track.compare import (
    Difference,
    PairedTrial,
    code_differences,
    config_differences,
    data_differences,
    paired_trials,
)
from tasks.track.run_index import find_study, identity_of

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
        Column of the true values.
    sensitive
        Sensitive columns, each numeric with more than two values.
    prediction
        Column of the predictions; the default is prediction.
    other
        Column of a second model's predictions, compared on the same rows.
    model
        An MLflow model such as models:/NAME@champion to apply, instead of a column.
    group_by
        Columns within whose groups dependence is measured too.
    weights
        Column of sample weights. They are scaled to sum to the number of rows.
    unit
        Unit of the target.
    seed
        Seed of intervals and bands.
    out
        Path of the page to write.
    """
    if model is not None and prediction is not None:
        raise UserError(
            "Predictions come from --prediction or from --model, got both. Leave one of them out."
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
    labels = AuditLabels(
        target=target,
        unit=unit,
        source=f"{Path(table).name}, {model or f'column {column}'}",
        model=model or str(column),
        other=other or "",
        rows_read=rows.read,
        dropped=tuple(f"{number:,}: {reason}" for reason, number in rows.dropped.items()),
        weights=weights or "",
    )
    page = write_audit(found, labels, out)
    _show(found, labels, page)


def _audited(rows: PredictionFile, seed: int) -> Audit:
    """Return the audit. Its warnings are notes of the page."""
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
    """An MLflow model with the columns of its signature."""

    address: str
    inputs: tuple[str, ...]
    numbers: Mapping[str, str]  # type by numeric column
    labels: tuple[str, ...]  # text columns
    function: Callable[[pd.DataFrame], Any]
    faults: tuple[type[Exception], ...]  # raised for rows that it refuses

    def predict(self, frame: pd.DataFrame) -> Any:
        """Return predictions, or raise a UserError for rows that the model refuses."""
        try:
            return self.function(frame.astype(dict(self.numbers)))
        except self.faults as error:
            cause = " ".join(str(error).split()).rstrip(".")
            raise UserError(
                f"{self.address} cannot predict these rows: {cause}. Correct or remove such rows, "
                "or audit a file with a column of predictions."
            ) from error


def _model(address: str) -> AppliedModel:
    """Return the model at an address, which must have a signature."""
    from tasks.track.registry import REFUSALS, load_model

    try:
        loaded = load_model(read_settings(), address)
    except TrackingUnreachableError as error:
        raise UserError(
            f"--model must be the address of a model in MLflow, such as models:/NAME@champion, got "
            f"{address!r} ({error.cause})."
        ) from None
    schema = loaded.metadata.get_input_schema()
    if schema is None or not schema.has_input_names():
        raise UserError(
            f"--model must have a signature with its input columns, got {address} without one. Log "
            "the model with a signature, or audit a file with a column of predictions."
        )
    numbers = {
        spec.name: _NUMBERS[spec.type.name] for spec in schema.inputs if spec.type.name in _NUMBERS
    }
    labels = tuple(spec.name for spec in schema.inputs if spec.type.name == "string")
    inputs = tuple(schema.input_names())
    return AppliedModel(address, inputs, numbers, labels, loaded.predict, REFUSALS)


def _show(audit: Audit, labels: AuditLabels, page: Path) -> None:
    """Print the numbers and the path of the page."""
    console = Console(highlight=False)
    for note in audit.notes:
        console.print(f"[yellow]{escape(note)}[/yellow]")
    console.print(_table(audit_table(audit, labels)))
    console.print(escape(" ".join(audit_sentences(audit, labels))))
    console.print(f"[bold]page[/bold] {escape(str(page))}", soft_wrap=True)


def _table(filled: tables.Table) -> Table:
    """Return a table for a terminal."""
    table = Table(*filled.headings)
    for row in filled.rows:
        table.add_row(*(escape(cell.text) for cell in row.cells))
    return table


_COLOURS = {
    CheckOutcome.PASSED: "green",
    CheckOutcome.ISSUE: "bold red",
    CheckOutcome.TIP: "yellow",
    CheckOutcome.NOT_APPLICABLE: "dim",
    CheckOutcome.SKIPPED: "dim",
}


class IssueFoundError(UserError):
    """A check found an issue in a finished run."""

    exit_code = 3


def show_checks(study: Study) -> None:
    """Print the checks of a finished run; raise an error with exit code 3 if one finds an issue."""
    results = check_study(study)
    console = Console(highlight=False)
    for result in results:
        colour = _COLOURS[result.outcome]
        console.print(
            f"[bold]{result.check.code}[/bold] {escape(result.check.title)}: "
            f"[{colour}]{result.outcome}[/{colour}]"
        )
        console.print(f"   {escape(result.message)}", soft_wrap=True)
        if result.outcome in (CheckOutcome.ISSUE, CheckOutcome.TIP):
            console.print(f"   [dim]{escape(result.check.explanation)}[/dim]", soft_wrap=True)
            console.print(f"   [dim]{result.check.address}[/dim]")
    outcomes = [result.outcome for result in results]
    counts = [f"{outcomes.count(one)} {one}" for one in CheckOutcome if one in outcomes]
    console.print(f"checks: {', '.join(counts)}")
    issues = [result for result in results if result.outcome is CheckOutcome.ISSUE]
    if issues:
        codes = ", ".join(result.check.code for result in issues)
        raise IssueFoundError(f"Checks of {study.config.name} found issues: {codes}. See above.")


def compare_runs(first: str, second: str, /, *, most: int = 12) -> None:
    """Show the differences between two runs: settings, rows, code, numbers.

    Parameters
    ----------
    first, second
        A YAML file, the name of a run of this home (NAME~1 for the run before the latest), the
        first digits of its identity, its id in MLflow, its report, or a shipped configuration.
    most
        Largest number of common trials to compare, champions first.
    """
    if most < 1:
        raise UserError(f"--most must be at least 1, got {most}.")
    settings = read_settings()
    studies = [find_study(settings, word) for word in (first, second)]
    console = Console(highlight=False)
    for letter, study in zip("AB", studies, strict=True):
        console.print(
            f"[bold]{letter}[/bold] {escape(study.config.name)} {identity_of(study)[:12]}, "
            f"{len(study.results())} of {len(study.trials)} trials stored"
        )
    _show_differences(console, "Settings", config_differences(*studies))
    _show_differences(console, "Rows", data_differences(*studies))
    _show_differences(console, "Code", code_differences(*studies))
    _show_numbers(console, studies, most)


def _show_differences(console: Console, title: str, found: Sequence[Difference]) -> None:
    """Print differences, or that there are none."""
    if not found:
        console.print(f"[bold]{title}[/bold]: the same")
        return
    table = Table("", "A", "B", title=title, title_justify="left")
    for difference in found:
        table.add_row(*map(escape, (difference.what, difference.first, difference.second)))
    console.print(table)


def _show_numbers(console: Console, studies: Sequence[Study], most: int) -> None:
    """Print scores of common trials, with intervals if both runs have the same rows."""
    pairs, reason = paired_trials(*studies, most=most)
    if not pairs:
        console.print("[bold]Numbers[/bold]: no trial is stored in both runs.")
        return
    same = [pair for pair in pairs if pair.same]
    other = [pair for pair in pairs if not pair.same]
    for pair in other:
        title = f"Numbers, {escape(pair.title)}"
        table = Table("", "A", "B", "B − A", title=title, title_justify="left")
        for cells in _cells(pair):
            table.add_row(*map(escape, cells))
        console.print(table)
    if other:
        how = (
            f"Means over folds, without intervals: {reason}."
            if reason
            else "On all tested rows, B − A with a 95 % interval. Means over folds if predictions "
            "were not kept."
        )
        console.print(how, soft_wrap=True)
    if same:
        titles = ", ".join(pair.title for pair in same)
        console.print(escape(f"Both runs use the same stored fits of: {titles}."), soft_wrap=True)


def _cells(pair: PairedTrial) -> list[tuple[str, str, str, str]]:
    """Return the cells of one row per measure; the error has one row."""
    rows = []
    for i, (column, found) in enumerate(pair.means.items()):
        for measure, (first, second) in found.items():
            if measure == MAE and i:
                continue
            name = "MAE" if measure == MAE else f"{REPORTED[measure].label} {column}"
            change = f"{second - first:+.4f}"
            if math.isnan(second - first):
                a, b = ("undefined" if math.isnan(x) else f"{x:.4f}" for x in (first, second))
                rows.append((name, a, b, "undefined"))
                continue
            known = () if pair.scores is None else pair.scores[0].measures[column]
            if pair.scores is not None and (measure == MAE or measure in known):
                after, before, both = (
                    scores.mae if measure == MAE else scores.measures[column][measure]
                    for scores in pair.scores
                )
                first, second = before[0], after[0]
                change = f"{both[0]:+.4f} ({both[1]:+.4f} to {both[2]:+.4f})"
            rows.append((name, f"{first:.4f}", f"{second:.4f}", change))
    return rows

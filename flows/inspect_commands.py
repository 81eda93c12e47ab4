"""Commands that inspect results: audit, check, compare."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from configs.load import load_config
from configs.run import RunConfig
from fkd import FairnessWarning
from fkd import audit as audit_rows
from fkd.measures import REPORTED, survey_weights
from fkd.measures.auditing import Audit
from flows.command_options import Names, Overrides
from tasks.data.audit_input import PredictedColumns, PredictionFile, read_predicted
from tasks.report import tables
from tasks.report.audit_page import AuditLabels, audit_sentences, audit_table, write_audit
from tasks.select.checks import CheckOutcome, CheckResult, check_study
from tasks.select.results import MAE
from tasks.select.study import Study, open_study
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
    from tasks.track.registry import REFUSALS, load_model

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


def _show(audit: Audit, labels: AuditLabels, page: Path) -> None:
    """Print the numbers, then where the page lies."""
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
    """A check found an issue: everything was computed, but somebody should look."""

    exit_code = 3


def check_run(config: str = "default", /, *, overrides: Overrides = ()) -> None:
    """Print what the checks say of a finished run; an issue ends with exit code 3.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one.
    """
    check_config(load_config(config, overrides))


def check_config(config: RunConfig) -> None:
    """Print the checks of a configuration whose trials are stored; an issue is exit code 3."""
    study = open_study(config, read_settings())
    if jobs := study.missing():
        raise UserError(
            f"{config.name} is not finished: {sum(len(job.trials) for job in jobs)} fits are not "
            "stored; compute them by `fkd run` first."
        )
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
    console.print(checks_line(results))
    issues = [result for result in results if result.outcome is CheckOutcome.ISSUE]
    if issues:
        codes = ", ".join(result.check.code for result in issues)
        raise IssueFoundError(f"checks of {config.name} found issues: {codes}; see above.")


def checks_line(results: Iterable[CheckResult]) -> str:
    """Return how many checks ended how."""
    outcomes = [result.outcome for result in results]
    told = [f"{outcomes.count(one)} {one}" for one in CheckOutcome if one in outcomes]
    return f"checks: {', '.join(told)}"


def compare_runs(first: str, second: str, /, *, most: int = 12) -> None:
    """Say what differs between two runs: settings, rows, code, numbers.

    Parameters
    ----------
    first, second
        A YAML file, the name of a run of this home (the latest; NAME~1 is the one before), the
        first digits of its identity, its id in MLflow, its report, or a shipped configuration.
    most
        So many trials that both have are compared, champions first.
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
    """Print what differs, or that nothing does."""
    if not found:
        console.print(f"[bold]{title}[/bold]: the same")
        return
    table = Table("", "A", "B", title=title, title_justify="left")
    for difference in found:
        table.add_row(*map(escape, (difference.what, difference.first, difference.second)))
    console.print(table)


def _show_numbers(console: Console, studies: Sequence[Study], most: int) -> None:
    """Print numbers of what both runs have, with intervals where the rows are the same."""
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
            else "On all tested rows, B − A with a 95 % interval, row by row; means over folds "
            "where predictions were not kept."
        )
        console.print(how, soft_wrap=True)
    if same:
        titles = ", ".join(pair.title for pair in same)
        console.print(escape(f"One and the same stored fit in both: {titles}."), soft_wrap=True)


def _cells(pair: PairedTrial) -> list[tuple[str, str, str, str]]:
    """Return one row per measure, the error once."""
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

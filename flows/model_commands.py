"""Commands for models: audit, score, promote."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.cluster import ClusterConfig
from configs.data import FileFormat
from configs.errors import UserError
from configs.load import apply_overrides
from fkd import FairnessWarning
from fkd import audit as audit_rows
from fkd.measures import survey_weights
from fkd.measures.auditing import Audit
from flows.command_options import Names, Overrides
from flows.messages import is_json, run_log, write_line
from tasks.data.user_table import PredictedColumns, PredictionFile, read_predicted
from tasks.monitor.scoring import MissingRule, ScoreRequest, check_request, score_table
from tasks.report.audit_page import AuditLabels, audit_sentences, audit_table, write_audit
from tasks.storage.settings import Settings, read_settings
from tasks.track.client import TrackingUnreachableError
from tasks.track.registry import CHAMPION, Promotion, fetch_bundle, promote_version
from tasks.track.run_index import now


def written_form(overrides: Overrides) -> FileFormat:
    """Return the file format that --set describes with keys under data."""
    tree, known = apply_overrides({}, overrides), ", ".join(FileFormat.model_fields)
    if not tree.keys() <= {"data"}:
        raise UserError(f"--set must name keys under data here ({known}), got {', '.join(tree)}.")
    try:
        return FileFormat.model_validate(tree.get("data") or {})
    except ValidationError as error:
        faults = "; ".join(fault["msg"].removeprefix("Value error, ") for fault in error.errors())
        raise UserError(f"--set data: {faults}. The keys are {known} here.") from error


def score_rows(
    model: str,
    data: Path,
    /,
    *,
    out: Path,
    keep: Names = (),
    missing: MissingRule = "refuse",
    workers: int = 0,
    cluster: str | None = None,
    overrides: Overrides = (),
) -> None:
    """Predict the rows of a table with a registered model.

    Parameters
    ----------
    model
        Address of the model, such as models:/NAME@champion or models:/NAME/3.
    data
        A CSV, TSV, Excel, Parquet or Feather file, or a folder of them, of any size. Only the
        columns that the model needs are read.
    out
        The Parquet file to write, with the rows in the order of the data.
    keep
        Columns to copy, such as an id.
    missing
        Treatment of rows with a missing number that the model cannot impute: refuse raises an
        error, null leaves the prediction empty.
    workers
        Number of local Dask workers; 0 computes in this process, block by block.
    cluster
        Address of a running Dask scheduler, instead of workers.
    """
    settings = read_settings()
    form, data = written_form(overrides), data.expanduser()
    check_request(data, out, keep)
    found = fetch_bundle(settings, model)
    request = ScoreRequest(data.absolute(), out, found, form, keep, missing)
    with _client(settings, workers, cluster) as client:
        seen = score_table(request, client)
    scored = seen.rows - sum(seen.unscored.values())
    if is_json():
        for line in seen.messages(found.bundle()):
            write_line("warning", "log", line)
        fields = {"rows": scored, "model": found.address, "bundle": found.digest}
        write_line("info", "result", f"{scored} rows scored", **fields, predictions=out)
        return
    console = Console(highlight=False)
    for line in seen.messages(found.bundle()):
        console.print(f"[yellow]{escape(line)}[/yellow]", soft_wrap=True)
    console.print(
        f"{scored:,} rows scored by {escape(found.address)} (bundle {found.digest[:12]})",
        soft_wrap=True,
    )
    console.print(f"[bold]predictions[/bold] {escape(str(out))}", soft_wrap=True)


@contextmanager
def _client(settings: Settings, workers: int, address: str | None) -> Iterator[Any]:
    """Yield a client of the requested cluster, or None."""
    if workers < 0 or (workers and address is not None):
        raise UserError(
            "--workers must be 0 or more and not be given with --cluster, got workers "
            f"{workers} and cluster {address}."
        )
    if not workers and address is None:
        yield None
        return
    from tasks.cluster.cluster import connect

    config = ClusterConfig(address=address, **({"workers": workers} if workers else {}))
    with connect(config, settings) as client:
        yield client


def promote_model(model: str, /, *, version: int, who: str, why: str) -> None:
    """Make a registered version the champion, and record who decided it.

    Parameters
    ----------
    model
        Name of the registered model, such as crimes.
    version
        Its version, for instance that of @candidate.
    who
        The person or body that decides.
    why
        The reason of the decision.
    """
    who, why = " ".join(who.split()), " ".join(why.split())
    if not who:
        raise UserError('--who must name the person or body that decides, got "".')
    if not why:
        raise UserError('--why must give the reason of the decision, got "".')
    promote_version(read_settings(), model, version, Promotion(who, why, now()))
    run_log().log(f"models:/{model}@{CHAMPION} is now version {version}")


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
            wanted, inputs=applied.inputs, numbers=tuple(applied.numbers), labels=applied.labels
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
    console = Console(highlight=False)
    for note in found.notes:
        console.print(f"[yellow]{escape(note)}[/yellow]")
    numbers = audit_table(found, labels)
    shown = Table(*numbers.headings)
    for row in numbers.rows:
        shown.add_row(*(escape(cell.text) for cell in row.cells))
    console.print(shown)
    console.print(escape(" ".join(audit_sentences(found, labels))))
    console.print(f"[bold]page[/bold] {escape(str(page))}", soft_wrap=True)


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

"""Commands for registered models: score, promote."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from configs.data import FileFormat
from configs.errors import UserError
from configs.load import apply_overrides
from configs.run import ClusterConfig
from flows.command_options import Names, Overrides
from flows.log_lines import is_json, write_line
from flows.progress import run_log
from tasks.monitor.scoring import MissingRule, ScoreRequest, check_request, score_table
from tasks.storage.settings import Settings, read_settings
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


def promote_model(model: str, version: int, who: str, why: str) -> None:
    """Move the alias of the champion to a version, and record who decided it, when and why."""
    who, why = " ".join(who.split()), " ".join(why.split())
    if not who:
        raise UserError('--who must name the person or body that decides, got "".')
    if not why:
        raise UserError('--why must give the reason of the decision, got "".')
    promote_version(read_settings(), model, version, Promotion(who, why, now()))
    run_log().log(f"models:/{model}@{CHAMPION} is now version {version}")

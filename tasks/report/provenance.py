"""Where the numbers of a report come from: rows, run, versions."""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version

from configs.load import dump_config
from fkd import __version__
from fkd.problems.own_table import NAME as TABLE
from tasks.data.load import table_parts
from tasks.report.contents import DataFile, DataProvenance, RunProvenance
from tasks.study.champion import Champion
from tasks.study.known_runs import time_taken
from tasks.study.opening import Study
from tasks.study.recording import model_address, recorded
from tasks.study.same_again import command_again

_PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "prefect", "dask", "distributed", "mlflow")


def data_provenance(study: Study) -> DataProvenance:
    """Return the story of the rows."""
    story = study.loaded.provenance
    table = study.loaded.table
    return DataProvenance(
        source=story["source"],
        rows_read=story["rows_read"],
        rows_used=story["rows_used"],
        files=tuple(DataFile(f["name"], f.get("sha256", "")) for f in story["files"]),
        rows_dropped=story["rows_dropped"],
        row_noun=study.config.data.declaration.row_noun,
        inputs=len(table.numeric_names) + len(table.categorical_names),
        survey_weight=_weight_column(study),
        weighed=_weighed(study),
        synthetic=story["synthetic"],
        datasheet=_datasheet(study),
    )


def _weight_column(study: Study) -> str:
    """Return the column of weights: the one that was used, else that of the census."""
    if study.config.weights is not None:
        return study.config.weights.column
    return "PWGTP" if "PWGTP" in study.loaded.table.extra else ""


def _weighed(study: Study) -> tuple[str, ...]:
    """Return in words what rows were weighed in."""
    weights = study.config.weights
    if weights is None:
        return ()
    uses = {
        "what was removed": weights.removal,
        "what was fitted": weights.fit,
        "every measure, curve and interval": weights.measures,
    }
    return tuple(words for words, used in uses.items() if used)


def _datasheet(study: Study) -> str:
    """Return the data's sheet; that of an own table in the words of today's configuration."""
    data = study.config.data
    if data.problem == TABLE:
        return data.declaration.datasheet
    return str(study.loaded.provenance["datasheet"])


def run_provenance(study: Study, champion: Champion | None) -> RunProvenance:
    """Return what is needed to make the same numbers again."""
    place = recorded(study)
    seconds, finished = time_taken(study)
    tracking: Mapping[str, str] = (
        {}
        if place is None
        else {
            "MLflow": place.uri,
            "experiment": f"{study.config.experiment} ({place.experiment_id})",
            "parent run": place.run_id,
            **({} if champion is None else {"model": model_address(study, champion)}),
        }
    )
    return RunProvenance(
        seed=study.config.seed,
        finished=finished or datetime.now(UTC),
        seconds=seconds,
        config_digest=study.config.digest,
        config_yaml=dump_config(study.config),
        data_digest=study.loaded.digest,
        # No configuration names joined rows.
        commands=(command_again(study),) if len(table_parts(study.loaded)) == 1 else (),
        versions={"fkd": __version__, **{name: version(name) for name in _PACKAGES}},
        machine={"system": platform.platform(), "python": platform.python_version()},
        tracking=tracking,
    )

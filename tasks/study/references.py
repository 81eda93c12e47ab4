"""The blobs of the store that known runs refer to."""

from collections.abc import Iterator

from configs.errors import UserError
from tasks.adapters.settings import Settings
from tasks.adapters.store import failure_name, predictions_name, record_name
from tasks.data.prepared import prepared_name
from tasks.planned.trials import record_key
from tasks.study.known_runs import known_runs
from tasks.study.opening import Study

# Of these a name says what they belong to; all else is removed by its age alone.
_KINDS = (".record", ".failed", ".npz")
_PREPARED = "prepared/"


def referenced(settings: Settings) -> tuple[set[str], list[str]]:
    """Return the tables, records, predictions of all known runs, with what cannot be opened."""
    runs, problems = known_runs(settings)
    found: set[str] = set()
    for run in runs:
        try:
            found.update(_names(run.open(settings)))
        except UserError as error:
            problems.append(f"{run.config.name}: {error}")
    return found, problems


def is_told_by_name(name: str) -> bool:
    """Return whether a blob is a table, a record, predictions or a failure."""
    folder, _, rest = name.partition("/")
    return name.startswith(_PREPARED) or (len(folder) == 2 and rest.endswith(_KINDS))


def _names(study: Study) -> Iterator[str]:
    """Yield the names of what a run's numbers rest on."""
    yield prepared_name(study.loaded.digest)
    for fold in study.inputs.splits.all(study.loaded.table).values():
        for trial in study.trials:
            key = record_key(trial, fold, study.inputs)
            yield from (record_name(key), predictions_name(key), failure_name(key))

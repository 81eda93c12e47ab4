"""The blobs of the store that known runs refer to."""

from collections.abc import Iterator

from configs.errors import UserError
from tasks.adapters.settings import Settings
from tasks.adapters.store import failure_name, predictions_name, record_name
from tasks.data.prepared import prepared_name
from tasks.planned.trials import record_key
from tasks.study.known_runs import known_runs
from tasks.study.opening import Study
from tasks.study.shared_runs import FOLDER, shared_runs

# Of these a name says what they belong to; all else is removed by its age alone.
_KINDS = (".record", ".failed", ".npz")
_PREPARED = "prepared/"
_NAMED = (_PREPARED, FOLDER)


def referenced(settings: Settings) -> tuple[set[str], list[str]]:
    """Return what all known runs refer to, with what cannot be opened.

    Those that other homes have left in a shared store are known; their files are kept too.
    """
    runs, problems = known_runs(settings)
    others, unread = shared_runs(settings)
    found = {name for other in others for name in other.names}
    problems += unread
    own = {run.identity for run in runs}
    for run in (*runs, *(other.run for other in others if other.run.identity not in own)):
        try:
            found.update(_names(run.open(settings)))
        except UserError as error:
            problems.append(f"{run.config.name}: {error}")
    return found, problems


def is_told_by_name(name: str) -> bool:
    """Return whether a blob is a table, a record, predictions, a failure or a run's file."""
    folder, _, rest = name.partition("/")
    return name.startswith(_NAMED) or (len(folder) == 2 and rest.endswith(_KINDS))


def _names(study: Study) -> Iterator[str]:
    """Yield the names of what a run's numbers rest on."""
    yield prepared_name(study.loaded.digest)
    for fold in study.inputs.splits.all(study.loaded.table).values():
        for trial in study.trials:
            key = record_key(trial, fold, study.inputs)
            yield from (record_name(key), predictions_name(key), failure_name(key))

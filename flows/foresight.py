"""What a run asks for behind its fits, made beside them while the driver waits."""

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType

from tasks.blocks.shared_training import solves_by_passes, sums_of
from tasks.planned.trials import Job, record_key
from tasks.study.champion import foresee_champion
from tasks.study.counted_ends import is_counted
from tasks.study.opening import Study
from tasks.study.row_facts import row_facts


class Foresight:
    """Makes facts of rows at once, champions when the fits are there that decide them.

    The store keeps both, so that the steps which need them find them. Only of very many rows whose
    models come from sums of them, hence in seconds: the driver has time to spare, not the memory
    of a worker. A fault stays here: the step that needs what was not made meets it, and tells it.

    Parameters
    ----------
    studies
        Of a run.
    jobs
        What workers compute of them now.
    """

    def __init__(self, studies: Sequence[Study], jobs: Sequence[Job]) -> None:
        computed = {key for job in jobs for key in job.record_keys}
        asked = [study for study in studies if is_foreseen(study)] if computed else []
        self._waiting = [(study, deciding_keys(study) & computed) for study in asked]
        self._open = ExitStack()

    def __enter__(self) -> "Foresight":
        # Whoever sets warnings aside does so for the whole process: what stood before all of it
        # stands again behind all of it.
        self._open.enter_context(warnings.catch_warnings())
        self._thread = self._open.enter_context(ThreadPoolExecutor(1, "fkd-foresight"))
        for study, _ in self._waiting:
            self._thread.submit(row_facts, study.apart())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:  # who ends a run waits for what has begun, for nothing else
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._open.__exit__(kind, error, trace)

    def done(self, job: Job) -> None:
        """Hear of a finished job; make the champions that it was the last one to decide."""
        waiting, self._waiting = self._waiting, []
        for study, keys in waiting:
            if left := keys - set(job.record_keys):
                self._waiting.append((study, left))
            else:
                self._thread.submit(foresee_champion, study.apart())


def deciding_keys(study: Study) -> set[str]:
    """Return the records by which the champion is chosen and judged."""
    table, inputs = study.loaded.table, study.inputs
    folds = [inputs.splits.all(table)[label] for label in inputs.splits.deciding(table)]
    return {record_key(trial, fold, inputs) for trial in study.trials for fold in folds}


def is_foreseen(study: Study) -> bool:
    """Return whether a champion is to be made beside fits: of many rows, cheaply, of all trials."""
    config, inputs, table = study.config, study.inputs, study.loaded.table
    if config.select is None or any(
        entry.search or entry.grows(config.data.problem) for entry in config.methods
    ):
        return False
    rows = len(inputs.splits.held_out_fold(table).test)
    return (
        is_counted(rows, study.held_out_weights())
        and all(sums_of(trial, inputs) for trial in study.trials)
        and not any(solves_by_passes(trial) for trial in study.trials)
    )

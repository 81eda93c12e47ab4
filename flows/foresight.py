"""What a run asks for behind its fits, made beside them while the driver waits."""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType

from flows.progress import watcher
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
    of a worker. What fails here, or has not begun when the fits are there, is left to these steps.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._thread = ThreadPoolExecutor(1, "fkd-foresight")
        self._made: list[Future[object]] = []
        self._waiting: list[tuple[Study, set[str]]] = []

    def __enter__(self) -> "Foresight":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._open:
            # Who ends a run does not wait here; its process ends behind what has begun.
            self._thread.shutdown(wait=False, cancel_futures=True)
            if error is None:
                self._wait()

    def _wait(self) -> None:
        """Wait for what has begun; note what failed."""
        begun = [future for future in self._made if not future.cancelled()]
        if any(not future.done() for future in begun):
            watcher().say("the champion is being judged")
        for future in begun:
            if (fault := future.exception()) is not None:
                told = f"not made beside fits: {type(fault).__name__}: {fault}"
                watcher().note("foresight", "info", told)

    def expect(self, studies: Sequence[Study], jobs: Sequence[Job]) -> None:
        """Look at what workers compute now, jobs of these studies."""
        computed = {key for job in jobs for key in job.record_keys}
        asked = [study for study in studies if is_foreseen(study)]
        if asked and not self._made:
            # Whoever sets warnings aside does so for the whole process: what stood before all of
            # it stands again behind all of it.
            self._open.enter_context(warnings.catch_warnings())
        self._waiting = [(study, deciding_keys(study) & computed) for study in asked]
        for study in asked:
            self._begin(row_facts, study)

    def done(self, job: Job) -> None:
        """Hear of a finished job; make the champions that it was the last one to decide."""
        waiting, self._waiting = self._waiting, []
        for study, keys in waiting:
            if left := keys - set(job.record_keys):
                self._waiting.append((study, left))
            else:
                self._begin(foresee_champion, study)

    def _begin(self, make: Callable[[Study], object], study: Study) -> None:
        """Have something made of a study as it is known now."""
        self._made.append(self._thread.submit(make, study.apart()))


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

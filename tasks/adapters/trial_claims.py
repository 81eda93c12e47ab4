"""Whose run of a trial counts where several homes record it at once: the server decides.

A run is made first, as a candidate without a trial. Then its batch is entered on the parent as a
parameter of the next number, of which MLflow takes the first value alone. The entries in their
order say which runs count, to everybody the same: of every trial the one whose batch stands first.
Nobody waits for a lock; who is killed leaves candidates, which the same home takes up, or others
enter as void.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException

TRIAL = "fkd.trial"
CLAIM = "fkd.claim"  # on a candidate: its batch with the trial's key
WRITER = "fkd.writer"  # which home has made it
_ENTRY = "fkd.batch."  # on the parent, with a number: a batch that counts, or is void
_VOID = "void "
_AT_ONCE = 1000  # runs in one answer
_POLL_SECONDS = 1.0
SILENT_SECONDS = 30.0  # another home that has done nothing for so long is taken for dead

Create = Callable[[str, Mapping[str, str]], Run]  # a trial's key, tags: a new run of it


@dataclass(frozen=True)
class Standing:
    """The runs under a parent as its entries sort them."""

    entries: tuple[str, ...]
    taken: Mapping[str, Run]  # by key, the run that counts
    lost: tuple[Run, ...]  # never to count
    pending: tuple[Run, ...]  # of batches that are not entered


def settle(entries: Sequence[str], runs: Iterable[Run]) -> Standing:
    """Return what entries make of runs: whoever asks later, or elsewhere, is told the same."""
    taken: dict[str, Run] = {}
    batches: defaultdict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: str(run.info.run_id)):
        if CLAIM in run.data.tags:
            batches[batch_of(run)].append(run)
        elif TRIAL in run.data.tags:  # recorded before there were claims
            taken.setdefault(run.data.tags[TRIAL], run)
    lost: list[Run] = []
    for entry in dict.fromkeys(entries):
        for run in batches.pop(entry.removeprefix(_VOID), ()):
            if entry.startswith(_VOID) or taken.setdefault(key_of(run), run) is not run:
                lost.append(run)
    pending = tuple(run for batch in batches.values() for run in batch)
    return Standing(tuple(entries), taken, tuple(lost), pending)


def batch_of(run: Run) -> str:
    """Return the batch of a candidate."""
    return str(run.data.tags[CLAIM]).partition(" ")[0]


def key_of(run: Run) -> str:
    """Return the key of the trial that a candidate is for."""
    return str(run.data.tags[CLAIM]).partition(" ")[2]


@dataclass(frozen=True)
class TrialClaims:
    """The runs under one parent, claimed by one home."""

    client: Any
    experiment_id: str
    parent: str
    writer: str

    def standing(self) -> Standing:
        """Return whose runs count, after those that never will are removed."""
        # Entries first: every run of a batch was there before the batch was entered.
        entries = self._entries()
        found = settle(entries, self._runs())
        for run in found.lost:
            self.client.delete_run(run.info.run_id)
        return found

    def claim(self, keys: Sequence[str], create: Create) -> Mapping[str, Run]:
        """Return the run that counts for every key; where there is none, one is created."""
        while True:
            found = self.standing()
            missing = [key for key in keys if key not in found.taken]
            if not missing:
                return found.taken
            mine = [run for run in found.pending if self.is_ours(run)]
            # A process of this home was killed before it entered them; two at once there are not.
            batch = min((batch_of(run) for run in mine), default=uuid4().hex)
            begun = {key_of(run) for run in mine if batch_of(run) == batch}
            for key in missing:
                if key not in begun:
                    create(key, {CLAIM: f"{batch} {key}", WRITER: self.writer})
            self._enter(batch, len(found.entries))

    def is_ours(self, run: Run) -> bool:
        """Return whether nobody but this home is at work on a run."""
        return str(run.data.tags.get(WRITER, self.writer)) == self.writer

    def outlast(self) -> None:
        """Return once no other home is at work under this parent, or one has stopped for long.

        What it has claimed may then be completed; candidates that it has not entered are void.
        """
        before, since = None, time.monotonic()
        while others := [run for run in self._runs(unfinished=True) if not self.is_ours(run)]:
            now, seen = time.monotonic(), {run.info.run_id for run in others}
            if seen != before:
                before, since = seen, now
            elif now - since > SILENT_SECONDS:
                found = self.standing()
                for batch in {batch_of(run) for run in found.pending}:
                    self._enter(f"{_VOID}{batch}", len(found.entries))
                self.standing()
                return
            time.sleep(_POLL_SECONDS)

    def _enter(self, entry: str, number: int) -> None:
        """Write an entry behind all others, of which so many are known."""
        while True:
            name = f"{_ENTRY}{number}"
            try:
                self.client.log_param(self.parent, name, entry)
                return
            except MlflowException:
                if name not in self.client.get_run(self.parent).data.params:
                    raise
            number += 1

    def _entries(self) -> list[str]:
        """Return the parent's entries in their order."""
        params = self.client.get_run(self.parent).data.params
        found: list[str] = []
        while (name := f"{_ENTRY}{len(found)}") in params:
            found.append(params[name])
        return found

    def _runs(self, *, unfinished: bool = False) -> list[Run]:
        """Return the runs under the parent that are not deleted."""
        wanted = f"tags.`mlflow.parentRunId` = '{self.parent}'"
        wanted += " and attributes.status != 'FINISHED'" if unfinished else ""
        found: dict[str, Run] = {}
        token = None
        while True:
            # Deleted ones are asked for too: one that leaves meanwhile would move another from the
            # next page to one that has been read.
            page = self.client.search_runs(
                [self.experiment_id],
                wanted,
                run_view_type=ViewType.ALL,
                max_results=_AT_ONCE,
                page_token=token,
            )
            found |= {run.info.run_id: run for run in page}
            token = page.token
            if not token:
                return [run for run in found.values() if run.info.lifecycle_stage == "active"]

"""The one parent run of an identity where several homes make it at once.

A run is made first, as a candidate without the identity. Then a registered model is made, whose
name the server takes once, with the candidate's run beside it. Whoever meets that name gives the
identity to the run that it names, unless a run has it already, then removes the name. So whoever is
killed is in nobody's way.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from tasks.adapters.files import sha256
from tasks.adapters.trial_claims import CLAIM, WRITER

IDENTITY = "fkd.identity"
_RUN = "fkd.run"
_NAME = "fkd-recording-"
_SETTLED = "settled"  # in the place of a candidate's claim, once the name is removed
_TRIES = 20
_WHAT = (
    "Which run two recorders at once have agreed on. It is removed within a second; where one was "
    "killed in between, by the next that records the same."
)
_EXISTS, _ABSENT, _FORBIDDEN = (
    "RESOURCE_ALREADY_EXISTS",
    "RESOURCE_DOES_NOT_EXIST",
    "PERMISSION_DENIED",
)


@dataclass(frozen=True)
class ParentClaim:
    """The runs that were made for an identity, claimed by one home."""

    client: Any
    experiment_id: str
    identity: str
    writer: str

    def find(self) -> Run | None:
        """Return the run of the identity, None where there is none."""
        found = self._search(IDENTITY)
        return found[0] if found else None

    def claim(self, create: Callable[[Mapping[str, str]], Run]) -> Run:
        """Return the run of the identity, created where there is none."""
        run = self.find()
        if run is None or run.data.tags.get(CLAIM) == self.identity:
            run = run or self._agreed(create)
            self._release()
            self.client.set_tag(run.info.run_id, CLAIM, _SETTLED)
        for other in self._search(CLAIM):
            # Once a run has the identity, no other will.
            if other.info.run_id != run.info.run_id:
                self.client.delete_run(other.info.run_id)
        return run

    def _agreed(self, create: Callable[[Mapping[str, str]], Run]) -> Run:
        """Return the run that everybody takes who looks now."""
        # That of a process of this home which was killed in between.
        begun = [run for run in self._search(CLAIM) if run.data.tags.get(WRITER) == self.writer]
        own = begun[0] if begun else create({CLAIM: self.identity, WRITER: self.writer})
        for _ in range(_TRIES):
            holder = self._hold(own.info.run_id)
            if holder is None:
                continue
            # Only now: who held the name before has given the identity away by then.
            run = self.find() or self._named(holder)
            if run is not None:
                return run
            self._release()
            own = create({CLAIM: self.identity, WRITER: self.writer})
        raise MlflowException(
            f"the registered model {self._name} stands for a run that is gone; delete that model"
        )

    @property
    def _name(self) -> str:
        """Return the name that the server takes once."""
        return _NAME + sha256(f"{self.experiment_id} {self.identity}".encode())[:32]

    def _hold(self, own: str) -> str | None:
        """Return the run that the name stands for; None where the name has just been removed."""
        try:
            self.client.create_registered_model(self._name, {_RUN: own}, _WHAT)
            return own
        except MlflowException as error:
            if error.error_code not in (_EXISTS, _ABSENT):
                raise
        try:
            # Read while it is removed, a name may come without what stood beside it.
            held: str | None = self.client.get_registered_model(self._name).tags.get(_RUN)
            return held
        except MlflowException as error:
            if error.error_code != _ABSENT:
                raise
            return None

    def _named(self, holder: str) -> Run | None:
        """Return a run after it has got the identity; None where somebody has deleted it."""
        try:
            if self.client.get_run(holder).info.lifecycle_stage != "active":
                return None
        except MlflowException as error:
            if error.error_code != _ABSENT:
                raise
            return None
        self.client.set_tag(holder, IDENTITY, self.identity)
        run: Run = self.client.get_run(holder)
        return run

    def _release(self) -> None:
        """Remove the name; another may have done so, or be the only one who is allowed to."""
        try:
            self.client.delete_registered_model(self._name)
        except MlflowException as error:
            if error.error_code not in (_ABSENT, _FORBIDDEN):
                raise

    def _search(self, tag: str) -> list[Run]:
        """Return the runs that carry the identity in a tag."""
        found: list[Run] = self.client.search_runs(
            [self.experiment_id], f"tags.`{tag}` = '{self.identity}'"
        )
        return found

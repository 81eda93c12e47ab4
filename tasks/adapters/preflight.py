"""Whether each worker can do a run's work, asked before its first job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import fkd
from configs.errors import UserError
from fkd import measures
from fkd.methods import methods
from fkd.problems import encoder
from tasks.adapters.addresses import scrubbed
from tasks.adapters.settings import Settings
from tasks.adapters.state.opened_store import open_store
from tasks.adapters.store import SCHEMA
from tasks.adapters.workers import ask_workers, workers_of_others

_NAMED = 3  # workers, in a sentence
_SENTENCE = 160  # characters of what a worker says of its fault
_AGAIN = "then run the same command: what was computed is kept."


@dataclass(frozen=True)
class Answer:
    """What a worker says of itself."""

    package: str
    versions: Mapping[str, int]
    saw: bool  # what the driver had written into the store
    wrote: str = ""  # the name of the blob that it wrote for the driver
    fault: str = ""  # why it cannot use the store


@dataclass
class Preflight:
    """The workers of one connection that have been asked, what they are asked for.

    Parameters
    ----------
    settings
        Of the run, whose store the workers must see; None where only the package counts.
    """

    settings: Settings | None = None
    asked: set[str] = field(default_factory=set)

    def unasked(self, client: Any) -> set[str]:
        """Return the workers that have not answered yet."""
        return workers_of_others(client) - self.asked

    def check(self, client: Any) -> None:
        """Raise where a worker that has not answered yet cannot do the work."""
        new = self.unasked(client)
        if not new:
            return
        nonce, note = uuid4().hex, ""
        if self.settings is not None:
            note = f"probes/{nonce}"
            open_store(self.settings).write(note, nonce.encode())
        settings = None if self.settings is None else self.settings.for_workers()
        told = {
            where: found
            for where, found in ask_workers(client, partial(answer, settings, nonce), new).items()
            # Without an error number it is Dask's: the connection broke, as if the worker died.
            # The worker is asked again at the next look if it is still there.
            if not (isinstance(found, OSError) and found.errno is None)
        }
        self.asked |= set(told)
        try:
            self._judge(told, nonce)
        finally:
            self._clear([note, *(a.wrote for a in told.values() if isinstance(a, Answer))])

    def _judge(self, told: Mapping[str, Any], nonce: str) -> None:
        """Raise for the first kind of fault that workers have."""
        _refuse(
            {where: _difference(found) for where, found in told.items()},
            f"have the package of this run, fkd {fkd.__version__}",
            "install it where they start, or end them",
        )
        if self.settings is None:
            return
        store = open_store(self.settings)
        _refuse(
            {where: self._unseen(found, nonce) for where, found in told.items()},
            f"read and write the store of this run, {store.place.address}",
            "let FKD_STORE be a place that driver and workers see: a folder that all of them "
            "mount, or s3://bucket/folder with the AWS_* variables of each machine",
        )

    def _unseen(self, found: Any, nonce: str) -> str:
        """Return why a worker and the driver do not see one store, nothing where they do."""
        if found.fault:
            return f"cannot ({found.fault})"
        if not found.saw:
            return "does not find there what was just written"
        assert self.settings is not None
        seen = open_store(self.settings).read(found.wrote) == nonce.encode()
        return "" if seen else "writes there what is not to be seen here"

    def _clear(self, names: list[str]) -> None:
        """Remove the notes that were exchanged."""
        for name in filter(None, names):
            if self.settings is not None:
                open_store(self.settings).remove(name)


_OF_CLIENTS: WeakKeyDictionary[Any, Preflight] = WeakKeyDictionary()


def enrol(client: Any, settings: Settings) -> None:
    """Have the workers of a connection asked for a run's store too."""
    _OF_CLIENTS[client] = Preflight(settings)


def preflight_of(client: Any) -> Preflight:
    """Return what is known of the workers of a connection."""
    return _OF_CLIENTS.setdefault(client, Preflight())


def code_versions() -> dict[str, int]:
    """Return the versions of everything that decides numbers in this process."""
    found = {name: method.version for name, method in methods().items()}
    return {**found, "measures": measures.VERSION, "encoder": encoder.VERSION, "records": SCHEMA}


def answer(settings: Settings | None, nonce: str) -> Answer:
    """Return, on a worker, what it is and whether it sees the store."""
    if settings is None:
        return Answer(fkd.__version__, code_versions(), saw=True)
    wrote = f"probes/{nonce}-{uuid4().hex}"
    try:
        store = open_store(settings)
        if store.read(f"probes/{nonce}") != nonce.encode():
            return Answer(fkd.__version__, code_versions(), saw=False)
        store.write(wrote, nonce.encode())
    except (UserError, OSError) as error:
        return Answer(fkd.__version__, code_versions(), saw=False, fault=_short(error))
    return Answer(fkd.__version__, code_versions(), saw=True, wrote=wrote)


def _difference(found: Any) -> str:
    """Return in which package a worker differs from this process, nothing where in none."""
    if isinstance(found, Exception):
        return f"has none ({_short(found)})"
    if found.package != fkd.__version__:
        return f"has fkd {found.package}"
    own, theirs = code_versions(), found.versions
    other = [
        f"{name} {theirs.get(name, 'absent')} instead of {own.get(name, 'absent')}"
        for name in sorted({*own, *theirs})
        if own.get(name) != theirs.get(name)
    ]
    return f"has {', '.join(other[:_NAMED])}" if other else ""


def _refuse(faults: Mapping[str, str], rule: str, cure: str) -> None:
    """Raise one sentence on the workers that have a fault."""
    named = [f"{where} {fault}" for where, fault in sorted(faults.items()) if fault]
    if not named:
        return
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    raise UserError(
        f"Dask workers must {rule}, but {', '.join(named[:_NAMED])}{more}; {cure}, {_AGAIN}"
    )


def _short(error: Exception) -> str:
    """Return what a worker met in a few words."""
    return scrubbed(" ".join(str(error).split()))[:_SENTENCE].rstrip(".;, ")

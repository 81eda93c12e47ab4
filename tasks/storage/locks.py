"""Locks that all processes of one store share.

A folder has a file lock, which the operating system releases when its holder is killed. An object
store has numbered objects: whoever creates the next number holds the lock (a conditional put).
The holder renews its object every few seconds; others take over one that was not renewed for a
minute, or was released. A server that does not support conditional puts cannot keep two homes
apart; the processes of one home take turns there too.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from filelock import FileLock

from tasks.storage.store import SharedStore

RENEW_SECONDS = 10.0
EXPIRE_SECONDS = 60.0
_POLL_SECONDS = 0.5
_RELEASED = b"released"


@contextmanager
def store_lock(store: SharedStore, name: str, home: Path) -> Iterator[None]:
    """Hold a lock of the store; wait until it is free.

    Parameters
    ----------
    store
        The lock is shared by all processes that use this store.
    name
        What the lock protects.
    home
        Folder of this machine, for the lock among its own processes if the store is remote.
    """
    file = f"locks/{name}.lock"
    path = store.place.local(file) or home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        if store.place.local(file) is not None:
            yield
        else:
            with _lease(store, f"locks/{name}"):
                yield


@contextmanager
def _lease(store: SharedStore, folder: str) -> Iterator[None]:
    """Hold the highest numbered object of a folder."""
    own = _take(store, folder)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_SECONDS):
            with suppress(OSError):  # the next renewal may reach the store
                store.write(own, uuid4().bytes)

    thread = threading.Thread(target=renew, name="fkd-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        store.write(own, _RELEASED)


def _take(store: SharedStore, folder: str) -> str:
    """Return the name of the object that this process has created as the highest one."""
    seen, since = None, time.monotonic()
    while True:
        numbers = _numbers(store, folder)
        last = max(numbers, default=0)
        content = store.read(_name(folder, last)) if last else _RELEASED
        if (last, content) != seen:
            seen, since = (last, content), time.monotonic()
        if content == _RELEASED or time.monotonic() - since > EXPIRE_SECONDS:
            own = _name(folder, last + 1)
            # Another process may have gone through this number and a higher one since the listing.
            if store.write_absent(own, uuid4().bytes) and max(_numbers(store, folder)) == last + 1:
                for number in numbers:
                    store.remove(_name(folder, number))
                return own
        time.sleep(_POLL_SECONDS)


def _numbers(store: SharedStore, folder: str) -> list[int]:
    return [int(entry.name.rpartition("/")[2]) for entry in store.entries(f"{folder}/")]


def _name(folder: str, number: int) -> str:
    return f"{folder}/{number:012d}"

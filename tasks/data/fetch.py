"""Public files, fetched once, verified at every use."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from configs.errors import UserError
from tasks.adapters.addresses import without_credentials
from tasks.adapters.disk import named_disk_errors
from tasks.adapters.settings import Settings
from tasks.data.cache import Cache, CachedFile, file_sha256
from tasks.data.remote import RemoteFile
from tasks.data.transfer import Patience, Progress, Transfer, TransferFault
from tasks.data.zips import UnsafeZipError, check_content, check_zip

logger = logging.getLogger(__name__)
T = TypeVar("T")


class AbsentFileError(UserError):
    """Every address has answered, and none has the file: it may not be published yet."""


@dataclass(frozen=True)
class Fetched:
    """A verified file on this disk."""

    path: Path
    record: CachedFile


def fetch_all(
    files: Sequence[RemoteFile],
    settings: Settings,
    *,
    patience: Patience | None = None,
    progress: Progress | None = None,
    at_once: int = 4,
) -> list[Fetched]:
    """Return the files in the order asked for, several fetched at once.

    Parameters
    ----------
    files
        What is wanted.
    settings
        Cache folder with the user's mirror.
    patience, progress
        Limits of the network; a listener.
    at_once
        Parallel transfers: public hosts dislike many.
    """
    if len(files) == 1:
        return [fetch(files[0], settings, patience=patience, progress=progress)]
    return _together(
        lambda file, stop: fetch(file, settings, patience=patience, progress=progress, stop=stop),
        files,
        at_once,
    )


def fetch_some(
    files: Sequence[RemoteFile],
    settings: Settings,
    *,
    patience: Patience | None = None,
    progress: Progress | None = None,
    at_once: int = 4,
) -> list[Fetched | UserError]:
    """Return the files in the order asked for, in place of one that cannot be had the reason.

    Parameters are those of `fetch_all`.
    """

    def attempt(file: RemoteFile, stop: threading.Event) -> Fetched | UserError:
        try:
            return fetch(file, settings, patience=patience, progress=progress, stop=stop)
        except UserError as error:
            return error

    return _together(attempt, files, at_once)


def _together(
    task: Callable[[RemoteFile, threading.Event], T], files: Sequence[RemoteFile], at_once: int
) -> list[T]:
    """Return what a task makes of each file, several at once; one failure ends all."""
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = [pool.submit(task, file, stop) for file in files]
        try:
            # One failure ends the waiting, whichever file it is.
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            # The pool waits for its threads: tell them that nobody needs the rest.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def fetch(
    file: RemoteFile,
    settings: Settings,
    *,
    patience: Patience | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Fetched:
    """Return a file from the cache, or from the mirror, or from its publisher.

    Parameters
    ----------
    file
        What is wanted.
    settings
        Cache folder with the user's mirror.
    patience, progress, stop
        Limits of the network; a listener; a flag that ends the transfer.
    """
    cache = Cache(settings.downloads)
    with named_disk_errors(settings.downloads), cache.lock(file.name):
        # Looked up under the lock: whoever waited here finds what the other has fetched.
        record = cache.find(file.name)
        if record and file.pinned in (None, record.sha256) and cache.is_intact(record):
            return Fetched(cache.object_path(record.sha256), record)
        if record:
            logger.warning("%s in the cache is damaged or outdated, fetched again", file.name)
        transfer = Transfer(
            file.name,
            cache.partial_path(file.name),
            patience or Patience(),
            progress,
            stop or threading.Event(),
        )
        return _Search(file, cache, transfer, record).run(sources(file, settings.mirror))


def sources(file: RemoteFile, mirror: str | None) -> list[str]:
    """Return the addresses of a file, the mirror's first."""
    if mirror is None:
        return [file.url]
    if mirror.startswith(("http://", "https://")):
        return [f"{mirror.rstrip('/')}/{file.name}", file.url]
    folder = Path(mirror).expanduser()
    if not folder.is_dir():
        raise UserError(
            "FKD_DATA_MIRROR must be a folder or an http address, got "
            f"{without_credentials(mirror)!r}; "
            "correct it or unset it."
        )
    return [str(folder.absolute() / file.name), file.url]


@dataclass(frozen=True)
class _Search:
    """The walk over addresses until one yields the file."""

    file: RemoteFile
    cache: Cache
    transfer: Transfer
    known: CachedFile | None

    def run(self, addresses: list[str]) -> Fetched:
        """Return the file from the first address that has it, or say what each one answered."""
        answers, absent = [], True
        for address in addresses:
            try:
                return self._persist(address)
            except TransferFault as fault:
                logger.warning("%s %s", without_credentials(address), fault)
                answers.append(f"{without_credentials(address)} {fault}")
                absent &= fault.absent
        raise (AbsentFileError if absent else UserError)(
            f"{self.file.name} could not be fetched: {'; '.join(answers)}. Check the network, or "
            "put the file into a folder laid out by that name and set FKD_DATA_MIRROR to it."
        )

    def _persist(self, address: str) -> Fetched:
        """Come back to one address as often as that can help."""
        patience = self.transfer.patience
        refused = set[str]()
        for attempt in range(1, patience.attempts + 1):
            try:
                return self._attempt(address)
            except TransferFault as fault:
                if not fault.retry or attempt == patience.attempts or fault.content in refused:
                    raise
                if fault.content:
                    refused.add(fault.content)
                pause = max(fault.wait, patience.backoff * 2 ** (attempt - 1))
                logger.info("%s %s, again in %.1f s", without_credentials(address), fault, pause)
                if self.transfer.stop.wait(pause):
                    raise TransferFault("was stopped", retry=False) from fault
        raise AssertionError("unreachable: the last attempt raises")

    def _attempt(self, address: str) -> Fetched:
        """Transfer once, verify, take into the cache."""
        begun = time.monotonic()
        if address.startswith(("http://", "https://")):
            self.transfer.download(address)
        else:
            self.transfer.copy(Path(address))
        try:
            sha256 = self._verified(self.transfer.partial)
        except TransferFault:
            # Wrong bytes must not be continued from.
            self.transfer.discard()
            raise
        record = CachedFile(
            name=self.file.name,
            sha256=sha256,
            size=self.transfer.partial.stat().st_size,
            source=without_credentials(address),
            pinned=self.file.pinned is not None,
        )
        path = self.cache.admit(self.transfer.partial, record)
        self.transfer.discard()
        logger.info("%s fetched in %.1f s", self.file.name, time.monotonic() - begun)
        return Fetched(path, record)

    def _verified(self, partial: Path) -> str:
        """Return the checksum of a download that is what it should be."""
        # The checksum first: a known file needs no further reading.
        sha256 = file_sha256(partial)
        if self.file.pinned not in (None, sha256):
            raise TransferFault(
                f"sent other bytes than the published ones (sha256 {sha256}, "
                f"known is {self.file.pinned})",
                retry=True,
                content=sha256,
            )
        if self.file.member is not None:
            try:
                member = check_zip(partial, self.file)
                if self.file.pinned is None:
                    check_content(partial, member)
            except UnsafeZipError as error:
                raise TransferFault(
                    f"sent a file that is refused: {error}", retry=True, content=sha256
                ) from error
        if self.file.pinned is None and self.known and self.known.sha256 != sha256:
            raise TransferFault(
                f"sent other bytes than at first use (sha256 {sha256}, recorded is "
                f"{self.known.sha256}); if the publisher has replaced the file, run "
                f"`fkd data clean {self.file.name}` to accept the new one",
                retry=False,
            )
        return sha256

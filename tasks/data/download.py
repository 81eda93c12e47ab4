"""Download public files into a cache: mirrors, retries, continued transfers, verification.

The cache holds contents by sha256, and one record per file. `fetch` tries the addresses of a file
in turn. A transfer writes to a partial file, which a later attempt continues. A complete file is
verified by its sha256, or at first use by reading the zip, and moved into the cache. Temporary
faults are retried with growing pauses. A stalled transfer is aborted, and `TransferPolicy.total`
bounds the time for one file.
"""

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import stat
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal

import httpx
from filelock import FileLock, Timeout

from configs.errors import UserError
from tasks.storage.backends import FolderBackend
from tasks.storage.files import named_disk_errors, sha256
from tasks.storage.settings import Settings, scrubbed, without_credentials
from tasks.storage.store import BlobStore

logger = logging.getLogger(__name__)

Progress = Callable[[str, int, int | None], None]
"""Called with the name of a file, the bytes so far, and the total number of bytes if known."""

# Parallel transfers. Public hosts refuse many.
_AT_ONCE = 4
# Well above every published person file. It bounds an endless response.
MAX_BYTES = 16 * 2**30
# The tables of 2018 shrink by a factor of four. The limits leave room for other years.
MAX_RATIO = 200
MAX_TABLE_BYTES = 40 * 2**30
MAX_MEMBERS = 100
# The lock under which contents and records are changed together.
_ADMISSION = "admission"


@dataclass(frozen=True)
class CachedFile:
    """The record of a cached file.

    Parameters
    ----------
    name
        Its name in mirrors.
    sha256, size
        Checksum and number of bytes.
    source
        The address that it was downloaded from.
    pinned
        True if the checksum was known before the download, False if it was recorded at first use.
    """

    name: str
    sha256: str
    size: int
    source: str
    pinned: bool


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Cache:
    """A folder with downloaded contents, their records, partial downloads and locks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = folder / "names"
        self._records = BlobStore(FolderBackend(self._names), folder)

    def object_path(self, sha256: str) -> Path:
        """Return the location of the content with a checksum."""
        return self.folder / "objects" / sha256[:2] / sha256

    def partial_path(self, name: str) -> Path:
        """Return the location of the partial download of a file."""
        return self.folder / "partial" / f"{name.replace('/', '_')}.part"

    def find(self, name: str) -> CachedFile | None:
        """Return the record of a file, or None if it is absent or damaged."""
        record = self._records.read(f"{name}.json")
        return None if record is None else CachedFile(**json.loads(record))

    def is_intact(self, record: CachedFile) -> bool:
        """Return True if the content exists and has the recorded checksum."""
        # Computed at every use: half a second per gigabyte detects silent damage.
        path = self.object_path(record.sha256)
        return path.is_file() and file_sha256(path) == record.sha256

    def admit(self, partial: Path, record: CachedFile) -> Path:
        """Move a verified download into the cache in one step, and return its location."""
        target = self.object_path(record.sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Content before name: a power failure must not leave a name without its content.
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        with self.lock(_ADMISSION):
            partial.replace(target)
            # A crash before the record leaves an object without a record, which is removed later.
            self._records.write(f"{record.name}.json", json.dumps(asdict(record)).encode())
        return target

    def records(self) -> Iterator[CachedFile]:
        """Yield the records by name."""
        for path in sorted(self._names.rglob("*.json")):
            record = self.find(path.relative_to(self._names).as_posix().removesuffix(".json"))
            if record is not None:
                yield record

    def remove(self, name: str) -> bool:
        """Remove the record, the partial download and the content of a file.

        A content that another record refers to is kept. Return False if another process is
        fetching the file; nothing is removed then.
        """
        lock = self._acquire(name)
        if lock is None:
            return False
        with lock:
            with self.lock(_ADMISSION):
                record = self.find(name)
                self._record_path(name).unlink(missing_ok=True)
                if record and record.sha256 not in {other.sha256 for other in self.records()}:
                    self.object_path(record.sha256).unlink(missing_ok=True)
            remove_partial(self.partial_path(name))
        return True

    def remove_leftovers(self, *, older_than: float = 0.0) -> tuple[int, int]:
        """Remove files without a record. Return the number of removed files and of files in use.

        Parameters
        ----------
        older_than
            Minimum age in seconds of a partial download. The next run can continue a younger one.
        """
        with self.lock(_ADMISSION):
            wanted = {self.object_path(record.sha256) for record in self.records()}
            wanted |= {self._record_path(record.name) for record in self.records()}
            found = [*(self.folder / "objects").rglob("*"), *self._names.rglob("*")]
            leftovers = {path for path in found if path.is_file()} - wanted
            for path in leftovers:
                path.unlink(missing_ok=True)
        removed, busy = len(leftovers), 0
        # The note of a partial download may exist without it.
        partials = {p.with_suffix(".part") for p in (self.folder / "partial").glob("*.*")}
        for partial in partials:
            lock = self._acquire(partial.stem)
            if lock is None:
                busy += 1
                continue
            # The process that held the lock may have removed both files.
            with lock, suppress(FileNotFoundError):
                file = partial if partial.exists() else partial.with_suffix(".json")
                if time.time() - file.stat().st_mtime >= older_than:
                    remove_partial(partial)
                    removed += 1
        return removed, busy

    def lock(self, name: str) -> FileLock:
        """Return the lock of a file. The system releases that of a killed process."""
        folder = self.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{name.replace('/', '_')}.lock")

    def _acquire(self, name: str) -> AbstractContextManager[Any] | None:
        """Acquire the lock of a file, or return None if another process holds it."""
        try:
            return self.lock(name).acquire(blocking=False)
        except Timeout:
            return None

    def _record_path(self, name: str) -> Path:
        return self._names / f"{name}.json"


def remove_partial(partial: Path) -> None:
    """Remove a partial download with its note."""
    partial.unlink(missing_ok=True)
    partial.with_suffix(".json").unlink(missing_ok=True)


@dataclass(frozen=True)
class TransferPolicy:
    """Time limits and retries of a download.

    Parameters
    ----------
    connect, read
        Seconds to wait for a connection, and for the next bytes.
    window, floor
        A transfer with fewer than `floor` bytes in `window` seconds is stalled.
    total
        Seconds for one file, with all its attempts and addresses. A host that sends nothing can
        exceed them by `read` seconds.
    attempts, backoff
        Attempts per address, and seconds before the second one. The pause doubles each time.
    """

    connect: float = 10.0
    read: float = 30.0
    window: float = 60.0
    floor: int = 10_000
    total: float = 2 * 3600.0
    attempts: int = 4
    backoff: float = 1.0


@dataclass(frozen=True)
class RemoteFile:
    """A file of a public host.

    Parameters
    ----------
    name
        Its path in a mirror, and its name in the cache.
    url
        Its address at the publisher.
    member
        For a zip: a regular expression for the name of the table in it.
    sha256
        The required checksum. None: the checksum at first use is recorded and required later.
    """

    name: str
    url: str
    member: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Fetched:
    """A verified file on this disk."""

    path: Path
    record: CachedFile


class AbsentFileError(UserError):
    """No address has the file, although all answered. It may not be published yet."""


class UnsafeZipError(Exception):
    """A zip that is damaged, dangerous, or another one than requested."""


def fetch(
    file: RemoteFile,
    settings: Settings,
    *,
    policy: TransferPolicy | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Fetched:
    """Return a file from the cache, the mirror, or its publisher.

    Parameters
    ----------
    file
        The file to fetch.
    settings
        Folder of the cache, and the mirror.
    policy, progress, stop
        Time limits and retries, a listener, an event that stops the transfer.
    """
    cache = Cache(settings.downloads)
    with named_disk_errors(settings.downloads), cache.lock(file.name):
        # Looked up under the lock, so that a process that waited finds the file of the other one.
        record = cache.find(file.name)
        if record and file.sha256 in (None, record.sha256) and cache.is_intact(record):
            return Fetched(cache.object_path(record.sha256), record)
        if record:
            logger.warning("%s in the cache is damaged or outdated, fetched again", file.name)
        stop = stop or threading.Event()
        download = _Download(file, cache, record, policy or TransferPolicy(), progress, stop)
        return download.run(addresses(file, settings.mirror))


def fetch_all(
    files: Sequence[RemoteFile],
    settings: Settings,
    *,
    faulty: Literal["stop", "skip"] = "stop",
    policy: TransferPolicy | None = None,
    progress: Progress | None = None,
) -> list[Fetched | UserError]:
    """Return files in their order, several downloaded at once.

    Parameters
    ----------
    files
        The files to fetch.
    settings
        Folder of the cache, and the mirror.
    faulty
        stop: the first file that cannot be fetched raises its error. skip: the error takes its
        place in the result.
    policy, progress
        Time limits and retries, a listener.
    """
    stop = threading.Event()

    def attempt(file: RemoteFile) -> Fetched | UserError:
        try:
            return fetch(file, settings, policy=policy, progress=progress, stop=stop)
        except UserError as error:
            if faulty == "stop":
                raise
            return error

    if len(files) == 1:  # in this thread, where Ctrl-C ends it at once
        return [attempt(files[0])]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = [pool.submit(attempt, file) for file in files]
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            # The pool waits for its threads, so they must end soon.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def addresses(file: RemoteFile, mirror: str | None) -> list[str]:
    """Return the addresses of a file, the mirror first."""
    if mirror is None:
        return [file.url]
    if mirror.startswith(("http://", "https://")):
        return [f"{mirror.rstrip('/')}/{file.name}", file.url]
    folder = Path(mirror).expanduser()
    if not folder.is_dir():
        raise UserError(
            "FKD_DATA_MIRROR must be a folder or an http address, got "
            f"{without_credentials(mirror)!r}. Correct it or unset it."
        )
    return [str(folder.absolute() / file.name), file.url]


def check_zip(path: Path, file: RemoteFile) -> str:
    """Return the name of the table in a zip. Raise UnsafeZipError for an unsafe zip.

    Nothing is unpacked to disk, but a name outside the folder, a symbolic link or a bomb shows that
    the file is not that of the publisher.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise UnsafeZipError(f"it is no complete zip file ({error})") from error
    if len(members) > MAX_MEMBERS:
        raise UnsafeZipError(f"the zip must have at most {MAX_MEMBERS} members, got {len(members)}")
    for member in members:
        name, size, packed = member.filename, member.file_size, member.compress_size
        # Both spellings: a name that is safe here may not be on a Windows machine.
        windows = PureWindowsPath(name)
        if PurePosixPath(name).is_absolute() or windows.anchor or ".." in windows.parts:
            raise UnsafeZipError(f"the name {name!r} in the zip leaves its folder")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise UnsafeZipError(f"the member {name!r} of the zip is a symbolic link")
        if member.flag_bits & 1:
            raise UnsafeZipError(f"the member {name!r} of the zip is encrypted")
        # Reading stops at the announced size, so it suffices to check the announced size.
        if size > MAX_TABLE_BYTES or size > MAX_RATIO * max(packed, 100):
            raise UnsafeZipError(f"{name!r} in the zip would unpack {packed} bytes to {size}")
    # Exactly one: a second table with the same name could replace the checked one.
    pattern = re.compile(file.member or "", re.IGNORECASE)
    tables = [member.filename for member in members if pattern.fullmatch(member.filename)]
    if len(tables) != 1:
        names = ", ".join(member.filename for member in members[:5]) or "nothing"
        raise UnsafeZipError(f"the zip must hold one table named {file.member}, it holds {names}")
    return tables[0]


def check_content(path: Path, member: str) -> None:
    """Read a table to its end, which compares its checksum in the zip."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            while stream.read(2**20):
                pass
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UnsafeZipError(f"the table {member} in the zip is damaged ({error})") from error


@dataclass(eq=False)
class _TransferFault(Exception):
    """A failed attempt.

    Parameters
    ----------
    message
        The fault, as a predicate of the address.
    retry
        True if another attempt at the same address can succeed.
    wait
        Seconds to wait, as requested by the host.
    content
        The checksum of a refused file. The same bytes a second time end the retries.
    absent
        True if the host answered that it does not have the file.
    """

    message: str
    retry: bool = False
    wait: float = 0.0
    content: str = ""
    absent: bool = False

    def __str__(self) -> str:
        return self.message


@dataclass
class _Download:
    """The download of one file: addresses, attempts, one partial file.

    Parameters
    ----------
    file
        The file to fetch.
    cache
        The cache that receives it.
    known
        Its record from an earlier download, if there is one.
    policy, progress, stop
        As in `fetch`.
    """

    file: RemoteFile
    cache: Cache
    known: CachedFile | None
    policy: TransferPolicy
    progress: Progress | None
    stop: threading.Event

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.policy.total
        self.partial = self.cache.partial_path(self.file.name)
        # The address and the validator of the partial file.
        self.note = self.partial.with_suffix(".json")

    def run(self, addresses: Sequence[str]) -> Fetched:
        """Return the file from the first address that has it."""
        faults: list[str] = []
        absent = True
        for address in addresses:
            try:
                return self._retry(address)
            except _TransferFault as fault:
                faults.append(f"{without_credentials(address)} {fault}")
                logger.warning("%s", faults[-1])
                absent &= fault.absent
        raise (AbsentFileError if absent else UserError)(
            f"{self.file.name} could not be fetched: {'; '.join(faults)}. Check the network, or "
            "put the file under that name into a folder and set FKD_DATA_MIRROR to the folder."
        )

    def _retry(self, address: str) -> Fetched:
        """Repeat attempts at one address while another one can succeed."""
        refused = set[str]()
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._attempt(address)
            except _TransferFault as fault:
                last = attempt == self.policy.attempts
                if not fault.retry or last or fault.content in refused:
                    raise
                if fault.content:
                    refused.add(fault.content)
                pause = max(fault.wait, self.policy.backoff * 2 ** (attempt - 1))
                logger.info("%s %s, again in %.1f s", without_credentials(address), fault, pause)
                if self.stop.wait(min(pause, max(self.deadline - time.monotonic(), 0.0))):
                    raise _TransferFault("was stopped") from fault

    def _attempt(self, address: str) -> Fetched:
        """Transfer the file, verify it, and move it into the cache."""
        start = time.monotonic()
        self._check_deadline()
        self.partial.parent.mkdir(parents=True, exist_ok=True)
        if address.startswith(("http://", "https://")):
            self._request(address)
        else:
            self._copy(Path(address))
        try:
            checksum = self._verify()
        except _TransferFault:
            # Wrong bytes must not be continued.
            remove_partial(self.partial)
            raise
        record = CachedFile(
            name=self.file.name,
            sha256=checksum,
            size=self.partial.stat().st_size,
            source=without_credentials(address),
            pinned=self.file.sha256 is not None,
        )
        path = self.cache.admit(self.partial, record)
        remove_partial(self.partial)
        logger.info("%s fetched in %.1f s", self.file.name, time.monotonic() - start)
        return Fetched(path, record)

    def _copy(self, source: Path) -> None:
        """Copy the file from a folder."""
        if not source.is_file():
            raise _TransferFault("has no such file", absent=True)
        with source.open("rb") as stream:
            chunks = iter(lambda: stream.read(2**18), b"")
            self._write("wb", chunks, 0, source.stat().st_size)

    def _request(self, url: str) -> None:
        """Download the file, or the rest of it if the host has the version of the partial file."""
        # Identity: lengths and ranges must count the bytes of the file, not of an encoding.
        headers = {"User-Agent": f"fkd/{version('fkd')}", "Accept-Encoding": "identity"}
        start = 0
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            note = json.loads(self.note.read_text())
            # Without a validator of the same address the bytes may belong to another version.
            if note["url"] == sha256(url.encode()) and note["validator"]:
                start = self.partial.stat().st_size
        if start:
            headers |= {"Range": f"bytes={start}-", "If-Range": note["validator"]}
        try:
            with (
                httpx.Client(
                    timeout=httpx.Timeout(self.policy.read, connect=self.policy.connect),
                    follow_redirects=True,
                    max_redirects=5,
                    event_hooks={"request": [self._check_deadline]},
                ) as client,
                _closed_at(self.deadline, client),
                client.stream("GET", url, headers=headers) as response,
            ):
                if response.status_code == 416:  # the partial file is longer than that of the host
                    remove_partial(self.partial)
                _check_response(response, url)
                self._receive(response, url, start)
        except httpx.TimeoutException as error:
            raise _TransferFault("stalled: no answer in time", retry=True) from error
        except httpx.TooManyRedirects as error:
            raise _TransferFault("redirects in circles") from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise _TransferFault("is no address of a host") from error
        except httpx.TransportError as error:
            self._check_deadline()
            cause = scrubbed(str(error), url)
            raise _TransferFault(f"broke the connection ({cause})", retry=True) from error

    def _receive(self, response: httpx.Response, url: str, start: int) -> None:
        """Append to the partial file, or begin it again if the host sends the whole file."""
        if response.status_code == 206:
            if not response.headers.get("content-range", "").startswith(f"bytes {start}-"):
                remove_partial(self.partial)
                raise _TransferFault("continued at another byte than requested", retry=True)
        else:
            start = 0
            etag = response.headers.get("etag", "")
            # A weak tag does not promise equal bytes, so the file could not be continued.
            strong = "" if etag.startswith("W/") else etag
            validator = strong or response.headers.get("last-modified", "")
            # A digest, because the address may contain a password.
            note = {"url": sha256(url.encode()), "validator": validator}
            self.note.write_text(json.dumps(note))
        length = response.headers.get("content-length", "")
        # Without an announced length, only verification detects a truncated file.
        total = start + int(length) if length.isdigit() else None
        # Chunks as they arrive: collecting them would hide a stall and lose them at a break.
        self._write("ab" if start else "wb", response.iter_raw(), start, total)

    def _write(self, mode: str, chunks: Iterable[bytes], done: int, total: int | None) -> None:
        """Write chunks to the partial file, and check the size, the rate and the deadline."""
        if (total or 0) > MAX_BYTES:
            raise _TransferFault(f"announces {total} bytes, more than {MAX_BYTES}")
        free, wanted = shutil.disk_usage(self.partial.parent).free, (total or 0) - done
        if wanted > free:
            raise OSError(
                errno.ENOSPC, f"No space left on device: {wanted} bytes wanted, {free} free"
            )
        mark, since = time.monotonic(), done
        with self.partial.open(mode) as file:
            for chunk in chunks:
                file.write(chunk)
                done += len(chunk)
                if self.progress:
                    self.progress(self.file.name, done, total)
                if self.stop.is_set():
                    raise _TransferFault("was stopped")
                if done > MAX_BYTES:
                    raise _TransferFault(f"sends more than {MAX_BYTES} bytes")
                if time.monotonic() - mark > self.policy.window:
                    if done - since < self.policy.floor:
                        raise _TransferFault("stalled: hardly any bytes in time", retry=True)
                    mark, since = time.monotonic(), done
                if done != total:
                    self._check_deadline()

    def _verify(self) -> str:
        """Return the checksum of the partial file. A wrong file is a fault."""
        # The checksum first: a known file needs no further reading.
        checksum, expected = file_sha256(self.partial), self.file.sha256
        if expected not in (None, checksum):
            raise _TransferFault(
                f"sent other bytes than the published ones (sha256 {checksum}, expected "
                f"{expected})",
                retry=True,
                content=checksum,
            )
        if self.file.member is not None:
            try:
                member = check_zip(self.partial, self.file)
                if expected is None:
                    check_content(self.partial, member)
            except UnsafeZipError as error:
                raise _TransferFault(
                    f"sent a file that is refused: {error}", retry=True, content=checksum
                ) from error
        if expected is None and self.known and self.known.sha256 != checksum:
            raise _TransferFault(
                f"sent other bytes than at first use (sha256 {checksum}, recorded "
                f"{self.known.sha256}); if the publisher has replaced the file, run "
                f"`fkd data clean {self.file.name}` to accept the new one"
            )
        return checksum

    def _check_deadline(self, _: Any = None) -> None:
        if time.monotonic() >= self.deadline:
            raise _TransferFault(
                f"did not send the file within {self.policy.total:g} s; the received part is "
                "kept and the next run continues it"
            )


@contextmanager
def _closed_at(deadline: float, client: httpx.Client) -> Iterator[None]:
    """Close a client at the deadline.

    Timeouts of httpx restart with every byte, so that they do not bound a header that arrives byte
    by byte.
    """
    timer = threading.Timer(max(deadline - time.monotonic(), 0.0), client.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check_response(response: httpx.Response, url: str) -> None:
    """Raise a fault for a response that is not the file."""
    code = response.status_code
    if code in (404, 410):
        raise _TransferFault(f"has no such file ({code})", absent=True)
    if code in (401, 403, 407, 451):
        raise _TransferFault(f"refuses to send the file ({code})")
    if code not in (200, 206):
        busy = code >= 500 or code in (408, 416, 425, 429)
        requested = response.headers.get("retry-after", "")
        pause = min(float(requested), 60.0) if requested.isdigit() else 0.0
        raise _TransferFault(f"answered with status {code}", retry=busy, wait=pause)
    if url.startswith("https:") and response.url.scheme != "https":
        raise _TransferFault(f"redirects to the unprotected address http://{response.url.host}")
    # Portals and firewalls answer with a web page and status 200.
    if response.headers.get("content-type", "").startswith("text/html"):
        raise _TransferFault("sent a web page instead of the file")

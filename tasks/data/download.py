"""One attempt to bring a file's bytes here."""

import errno
import json
import logging
import re
import shutil
import ssl
import stat
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeVar

import httpx

from configs.data import FIPS, Horizon
from configs.errors import UserError
from tasks.data.file_cache import Cache, CachedFile, file_sha256
from tasks.storage.addresses import scrubbed, without_credentials
from tasks.storage.files import named_disk_errors, sha256
from tasks.storage.settings import Settings

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes so far, the bytes in all where they are known."""

_CHUNK = 2**18
# Well above any published person file; an endless answer must end somewhere.
MAX_BYTES = 16 * 2**30


@dataclass(frozen=True)
class Patience:
    """How long to wait for whom, how often to come back.

    Parameters
    ----------
    connect, read
        Seconds until a silent host is given up.
    window, floor
        A transfer that brings fewer than `floor` bytes in `window` seconds has stalled.
    attempts, backoff
        Tries per host; seconds before the second one, doubled each time.
    """

    connect: float = 10.0
    read: float = 30.0
    window: float = 60.0
    floor: int = 10_000
    attempts: int = 4
    backoff: float = 1.0


class TransferFault(Exception):
    """An attempt that failed.

    Parameters
    ----------
    message
        What happened, as the second half of a sentence.
    retry
        Whether the same host may do better next time.
    wait
        Seconds that the host asked us to wait.
    content
        The checksum of what was refused: the same bytes a second time end the retries.
    absent
        Whether the host answered, and has no such file.
    """

    def __init__(
        self,
        message: str,
        *,
        retry: bool,
        wait: float = 0.0,
        content: str | None = None,
        absent: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry = retry
        self.wait = wait
        self.content = content
        self.absent = absent


@dataclass(frozen=True)
class Transfer:
    """A file's way from one address to one partial file.

    Parameters
    ----------
    name
        The file's name, for progress.
    partial
        Where bytes are collected; what is there already is continued where the host allows it.
    patience, progress, stop
        Limits, listener, a flag that ends the transfer.
    """

    name: str
    partial: Path
    patience: Patience = field(default_factory=Patience)
    progress: Progress | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def copy(self, source: Path) -> None:
        """Bring the bytes from a folder."""
        self.partial.parent.mkdir(parents=True, exist_ok=True)
        if not source.is_file():
            raise TransferFault("has no such file", retry=False, absent=True)
        self._reserve(source.stat().st_size)
        with source.open("rb") as stream, self.partial.open("wb") as file:
            chunks = iter(lambda: stream.read(_CHUNK), b"")
            self._write(file.write, chunks, done=0, total=source.stat().st_size)

    def download(self, url: str) -> None:
        """Bring the bytes from a host, continuing a partial file that the host still has."""
        self.partial.parent.mkdir(parents=True, exist_ok=True)
        limits = httpx.Timeout(self.patience.read, connect=self.patience.connect)
        start, headers = self._resume(url)
        try:
            with (
                httpx.Client(
                    timeout=limits, follow_redirects=True, max_redirects=5, verify=_trust()
                ) as client,
                client.stream("GET", url, headers=headers) as response,
            ):
                if response.status_code == 416:
                    self.discard()  # it is longer than the host's file
                check_response(response, url)
                self._receive(response, url, start)
        except httpx.TimeoutException as error:
            raise TransferFault("stalled: no answer in time", retry=True) from error
        except httpx.TooManyRedirects as error:
            raise TransferFault("redirects in circles", retry=False) from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise TransferFault("is no address of a host", retry=False) from error
        except httpx.TransportError as error:
            said = scrubbed(str(error), url)
            raise TransferFault(f"broke the connection ({said})", retry=True) from error

    def _resume(self, url: str) -> tuple[int, dict[str, str]]:
        """Return where to continue with the headers that ask for it."""
        # Identity: lengths and ranges must count the bytes of the file, not of an encoding.
        headers = {"User-Agent": f"fkd/{version('fkd')}", "Accept-Encoding": "identity"}
        # Without a validator of the same address the bytes may belong to another version.
        note = self._note()
        known = note.get("url") == sha256(url.encode())
        if not known or not note.get("validator") or not self.partial.is_file():
            return 0, headers
        start = self.partial.stat().st_size
        if start:
            headers |= {"Range": f"bytes={start}-", "If-Range": note["validator"]}
        return start, headers

    def _receive(self, response: httpx.Response, url: str, start: int) -> None:
        """Append to the partial file, or begin it anew if the host sends the whole."""
        if response.status_code == 206:
            if not response.headers.get("content-range", "").startswith(f"bytes {start}-"):
                self.discard()
                raise TransferFault("continued at another place than asked", retry=True)
        else:
            start = 0
            etag = response.headers.get("etag", "")
            # A weak tag does not promise equal bytes, so it cannot be continued from.
            strong = "" if etag.startswith("W/") else etag
            validator = strong or response.headers.get("last-modified", "")
            # The address itself may hold a password.
            note = {"url": sha256(url.encode()), "validator": validator}
            self._note_path.write_text(json.dumps(note))
        length = response.headers.get("content-length", "")
        # Some hosts do not announce a length; then only the content can tell a truncation.
        left = int(length) if length.isdigit() else None
        total = None if left is None else start + left
        self._reserve(left or 0)
        with self.partial.open("ab" if start else "wb") as file:
            # Chunks as they arrive: collecting them would hide a stall and lose them at a break.
            self._write(file.write, response.iter_raw(), done=start, total=total)

    def _write(
        self, write: Callable[[bytes], int], chunks: Iterable[bytes], done: int, total: int | None
    ) -> None:
        """Pass chunks on, watching their pace and their sum."""
        mark, since = time.monotonic(), done
        for chunk in chunks:
            write(chunk)
            done += len(chunk)
            if self.progress:
                self.progress(self.name, done, total)
            if self.stop.is_set():
                raise TransferFault("was stopped", retry=False)
            if done > MAX_BYTES:
                raise TransferFault(f"sends more than {MAX_BYTES} bytes", retry=False)
            if time.monotonic() - mark > self.patience.window:
                if done - since < self.patience.floor:
                    raise TransferFault("stalled: hardly any bytes in time", retry=True)
                mark, since = time.monotonic(), done

    def _reserve(self, size: int) -> None:
        """Refuse before the first byte what cannot fit."""
        if size > MAX_BYTES:
            raise TransferFault(f"announces {size} bytes, more than {MAX_BYTES}", retry=False)
        free = shutil.disk_usage(self.partial.parent).free
        if size > free:
            raise OSError(
                errno.ENOSPC, f"No space left on device: {size} bytes wanted, {free} free"
            )

    @property
    def _note_path(self) -> Path:
        return self.partial.with_suffix(".json")

    def _note(self) -> dict[str, str]:
        """Return what is known of the partial file."""
        try:
            note = json.loads(self._note_path.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}

    def discard(self) -> None:
        """Forget the bytes collected so far."""
        self.partial.unlink(missing_ok=True)
        self._note_path.unlink(missing_ok=True)


@cache
def _trust() -> ssl.SSLContext:
    """Return the trusted authorities, read once: that costs more than a small file."""
    return httpx.create_ssl_context()


def check_response(response: httpx.Response, url: str) -> None:
    """Raise TransferFault for an answer that is not the file."""
    code = response.status_code
    if code in (404, 410):
        raise TransferFault(f"has no such file ({code})", retry=False, absent=True)
    if code in (401, 403, 407, 451):
        raise TransferFault(f"refuses to send the file ({code})", retry=False)
    if code not in (200, 206):
        # Only what can pass by itself is worth another try.
        busy = code >= 500 or code in (408, 416, 425, 429)
        asked = response.headers.get("retry-after", "")
        wait = min(float(asked), 60.0) if asked.isdigit() else 0.0
        raise TransferFault(f"answered with status {code}", retry=busy, wait=wait)
    if url.startswith("https:") and response.url.scheme != "https":
        place = f"http://{response.url.host}"
        raise TransferFault(f"redirects to the unprotected address {place}", retry=False)
    # Portals and firewalls answer with a friendly page and status 200.
    if response.headers.get("content-type", "").startswith("text/html"):
        raise TransferFault("sent a web page instead of the file", retry=False)


_CENSUS = "https://www2.census.gov/programs-surveys/acs/data/pums"
# The address of single files, whose checksum is known; newer pages offer an archive of them.
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/communities"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a public host.

    Parameters
    ----------
    name
        Its path in a mirror, which is its name in the cache too.
    url
        Where the publisher keeps it.
    member
        For a zip: a pattern of the name of the table in it.
    """

    name: str
    url: str
    member: str | None = None

    @property
    def pinned(self) -> str | None:
        """The sha256 that the file must have, where it is known in advance."""
        return _manifest().get(self.name)


def person_file(state: str, year: int, horizon: Horizon) -> RemoteFile:
    """Return the census file of one state's persons.

    Until 2006 the files lie in the year's folder; until 2016 the table in the zip is named by year
    with the postal code (ss16pmt.csv), since then by the FIPS number alone (psam_p30.csv).
    """
    short = f"csv_p{state.lower()}.zip"
    # The cache keeps one layout for all years, whatever the host does.
    folder = f"{year}" if year < 2007 else f"{year}/{horizon}"
    old = rf"ss{year % 100:02d}p{state.lower()}"
    return RemoteFile(
        name=f"census/{year}/{horizon}/{short}",
        url=f"{_CENSUS}/{folder}/{short}",
        member=rf"(psam_p{FIPS[state]}|{old})\.csv",
    )


COMMUNITIES = RemoteFile(name="uci/communities.data", url=f"{_UCI}/communities.data")


def matches_member(file: RemoteFile, name: str) -> bool:
    """Tell whether a name inside the zip is that of the table."""
    return re.fullmatch(file.member or "", name, flags=re.IGNORECASE) is not None


@cache
def _manifest() -> dict[str, str]:
    """Read the shipped list of known checksums."""
    text = files("tasks").joinpath("data", "manifest.json").read_text(encoding="utf-8")
    pinned: dict[str, str] = json.loads(text)
    return pinned


# The tables of 2018 shrink by four; these leave ample room for other years and larger samples.
MAX_RATIO = 200
MAX_TABLE_BYTES = 40 * 2**30
MAX_MEMBERS = 100


class UnsafeZipError(Exception):
    """A zip that is broken, dangerous, or not the one that was asked for."""


def check_zip(path: Path, file: RemoteFile) -> str:
    """Return the name of the table in a zip that is safe to read.

    Nothing is ever unpacked to disk, but a name that would leave the folder, a symbolic link or a
    bomb shows that the file is not the publisher's.

    Parameters
    ----------
    path
        Where the zip lies.
    file
        What it should be.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise UnsafeZipError(f"it is no complete zip file ({error})") from error
    if len(members) > MAX_MEMBERS:
        raise UnsafeZipError(f"the zip must have at most {MAX_MEMBERS} members, got {len(members)}")
    for member in members:
        _check_member(member)
    # Exactly one: a second table of the same name could shadow the checked one.
    tables = [member.filename for member in members if matches_member(file, member.filename)]
    if len(tables) != 1:
        names = ", ".join(member.filename for member in members[:5]) or "nothing"
        raise UnsafeZipError(f"the zip must hold one table named {file.member}, it holds {names}")
    return tables[0]


def check_content(path: Path, member: str) -> None:
    """Read a table once to its end, so that its own checksum is compared."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            while stream.read(2**20):
                pass
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UnsafeZipError(f"the table {member} in the zip is damaged ({error})") from error


def _check_member(member: zipfile.ZipInfo) -> None:
    name = member.filename
    # Both spellings are judged: what is harmless here may not be on the reader's machine.
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.drive or windows.root or ".." in windows.parts:
        raise UnsafeZipError(f"a name in the zip leaves its folder: {name!r}")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise UnsafeZipError(f"a member of the zip is a symbolic link: {name!r}")
    if member.flag_bits & 1:
        raise UnsafeZipError(f"a member of the zip is encrypted: {name!r}")
    # Reading stops at the announced size, so it is enough to judge what is announced.
    if member.file_size > MAX_TABLE_BYTES or member.file_size > MAX_RATIO * max(
        member.compress_size, 100
    ):
        raise UnsafeZipError(
            f"{name!r} in the zip would unpack {member.compress_size} bytes to {member.file_size}"
        )


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

"""One attempt to bring a file's bytes here."""

import errno
import json
import shutil
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

import httpx

from tasks.adapters.addresses import scrubbed
from tasks.adapters.files import sha256

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

"""Turn exceptions into errors for users, with exit codes."""

import errno
import os
import resource
from collections.abc import Iterator

from configs.errors import UnreadableTableError, UserError
from tasks.storage.backends import StoreUnreachableError
from tasks.storage.files import FULL, disk_error, full_disk_error
from tasks.storage.settings import read_settings, scrubbed

NO_MEMORY = (
    "fkd got no more memory or threads from this machine. Raise the limit (`ulimit -v`, "
    "`ulimit -u`, or that of the container), or use fewer workers, such as --set "
    "cluster.workers=1. Then run the same command: computed results are kept."
)
_FULL_DISK = ("no space left on device", "disk is full", "disk quota exceeded")
_MEMORY = (
    "can't start new thread",
    "cannot allocate memory",
    "out of memory",
    "memoryerror",
    "failed to map segment",  # of a shared library
)
_FILE_LIMITS = (errno.EMFILE, errno.ENFILE)
_LOG_BYTES = 4000


class CrashError(UserError):
    """A defect of fkd."""

    exit_code = 1


def as_user_error(error: BaseException) -> UserError:
    """Return an exception as an error with a message for users."""
    if isinstance(error, UserError):
        return error
    chain = list(_chain(error))
    status = _server_status(chain)
    text = " ".join(f"{type(e).__name__} {e}".lower() for e in chain)
    if status is not None:
        text += _server_log()  # the answer of the server does not contain the cause
    codes = {e.errno for e in chain if isinstance(e, OSError)}
    for cause in chain:
        # The package refuses its own import if both distributions are installed.
        refused = type(cause) is ImportError and cause.name == "fkd"
        if refused or isinstance(cause, StoreUnreachableError):
            return UserError(str(cause))
    if (full := _full_disk(chain, text)) is not None:
        return full
    if errno.ENOMEM in codes or any(words in text for words in _MEMORY):
        return UserError(NO_MEMORY)
    if codes & set(_FILE_LIMITS):
        return UserError(
            "fkd must not open more files. Raise the limit by `ulimit -n`, then run the same "
            "command: computed results are kept."
        )
    for cause in chain:
        if isinstance(cause, UnreadableTableError):
            return UserError(f"{str(cause)[:1].upper()}{str(cause)[1:]}.")
    if status is not None:
        return UserError(
            f"The Prefect server failed (status {status}). The log of a server that fkd started "
            f"is {read_settings().prefect / 'server.log'}. The same command continues the run."
        )
    message = " ".join(scrubbed(str(error)).split())[:300]
    name = type(error).__name__ + (f": {message}" if message else "")
    return CrashError(
        f"fkd failed with {name.removesuffix('.')}. This is a defect of fkd. Computed results are "
        "kept; the same command with --debug shows the traceback."
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen = set[int]()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _server_status(chain: list[BaseException]) -> int | None:
    """Return the HTTP status of a server error among the causes."""
    answers = (getattr(error, "response", None) for error in chain)
    codes = (getattr(answer, "status_code", None) for answer in answers)
    return next((code for code in codes if isinstance(code, int) and code >= 500), None)


def _server_log() -> str:
    """Return the end of the log of the Prefect server that fkd started."""
    try:
        with (read_settings().prefect / "server.log").open("rb") as file:
            file.seek(max(file.seek(0, 2) - _LOG_BYTES, 0))
            return " " + file.read().decode(errors="replace").lower()
    except OSError:
        return ""


def _full_disk(chain: list[BaseException], text: str) -> UserError | None:
    """Return an error if a full disk is the cause."""
    home = read_settings().home
    refused = next((e for e in chain if isinstance(e, OSError) and e.errno in FULL), None)
    if refused is None and not any(words in text for words in _FULL_DISK):
        # Some libraries hide the cause of a failed write.
        return full_disk_error(home)
    refused = refused or OSError(errno.ENOSPC, "No space left on device")
    return full_disk_error(home) or disk_error(refused, home)


# With less, OpenBLAS waits without end or ends the process.
_TO_LOAD = 2**30
# With less, Dask and Prefect cannot start their threads, and callbacks are never called.
_TO_RUN = 2**31
_PER_THREAD = 2**27  # stack and buffers of each further BLAS thread, of numpy and of scipy


def check_address_space(*, run: bool = False) -> None:
    """Raise a UserError if `ulimit -v` is too low to load the libraries, or to do a run.

    Later failures under a low limit are reported as far as Python sees them, but many of them hang.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    named = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    threads = int(named) if named.isdigit() and int(named) > 0 else os.cpu_count() or 1
    least = (_TO_RUN if run else _TO_LOAD) + _PER_THREAD * (threads - 1)
    if limit != resource.RLIM_INFINITY and limit < least:
        raise UserError(
            f"`ulimit -v` must allow at least {least >> 20} MiB of address space, got "
            f"{limit >> 20}. Raise the limit, or set OPENBLAS_NUM_THREADS=1."
        )

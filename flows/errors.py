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
    "This machine gives fkd no more memory or threads; raise the limit (`ulimit -v`, `ulimit -u`, "
    "or that of the container), or use fewer workers, such as --set cluster.workers=1, then run "
    "the same command: what was computed is kept."
)
_WORDS_OF_A_FULL_DISK = ("no space left on device", "disk is full", "disk quota exceeded")
_WORDS_OF_MEMORY = (
    "can't start new thread",
    "cannot allocate memory",
    "out of memory",
    "memoryerror",
    "failed to map segment",  # of a library that is being loaded
)
_LAST_WORDS = 4000  # bytes of a log


class CrashError(UserError):
    """A fault of fkd itself."""

    exit_code = 1


def as_user_error(error: BaseException) -> UserError:
    """Return an error as the sentence that a person is shown."""
    if isinstance(error, UserError):
        return error
    chain = list(_chain(error))
    said = " ".join(f"{type(e).__name__} {e}".lower() for e in chain)
    code = _refusal(chain)
    if code is not None:
        said += _log()  # a server tells only there what it lacks
    return (
        _owners(chain)
        or _store(chain)
        or _disk(chain, said)
        or _memory(chain, said)
        or _files(chain)
        or _table(chain)
        or _server(code)
        or _crash(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, then what caused it."""
    seen = set[int]()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _refusal(chain: list[BaseException]) -> int | None:
    """Return with which status a server has said that it cannot go on."""
    answers = (getattr(error, "response", None) for error in chain)
    codes = (getattr(answer, "status_code", None) for answer in answers)
    return next((code for code in codes if isinstance(code, int) and code >= 500), None)


def _log() -> str:
    """Return the last words of our own Prefect server."""
    try:
        with (read_settings().prefect / "server.log").open("rb") as file:
            file.seek(max(file.seek(0, 2) - _LAST_WORDS, 0))
            return " " + file.read().decode(errors="replace").lower()
    except OSError:
        return ""


def _owners(chain: list[BaseException]) -> UserError | None:
    """Return that the package itself refuses to be imported, if it does."""
    # By its name: where it refuses, no class of its own can be imported either.
    refused = (e for e in chain if type(e) is ImportError and e.name == "fkd")
    return next((UserError(str(e)) for e in refused), None)


def _store(chain: list[BaseException]) -> UserError | None:
    """Return that the store does not answer, if that is the cause."""
    lost = (e for e in chain if isinstance(e, StoreUnreachableError))
    return next((UserError(str(e)) for e in lost), None)


def _disk(chain: list[BaseException], said: str) -> UserError | None:
    """Return that a disk is full, if that is the cause."""
    home = read_settings().home
    refused = next((e for e in chain if isinstance(e, OSError) and e.errno in FULL), None)
    if refused is None and not any(words in said for words in _WORDS_OF_A_FULL_DISK):
        # Not everybody who writes tells why it could not.
        return full_disk_error(home)
    refused = refused or OSError(errno.ENOSPC, "No space left on device")
    return full_disk_error(home) or disk_error(refused, home)


def _memory(chain: list[BaseException], said: str) -> UserError | None:
    """Return that memory or threads are used up, if that is the cause."""
    refused = any(isinstance(e, OSError) and e.errno == errno.ENOMEM for e in chain)
    if not refused and not any(words in said for words in _WORDS_OF_MEMORY):
        return None
    return UserError(NO_MEMORY)


def _files(chain: list[BaseException]) -> UserError | None:
    """Return that no more files may be opened, if that is the cause."""
    limits = (errno.EMFILE, errno.ENFILE)
    if not any(isinstance(e, OSError) and e.errno in limits for e in chain):
        return None
    return UserError(
        "fkd may not open more files; raise the limit by `ulimit -n`, then run the same command: "
        "what was computed is kept."
    )


def _table(chain: list[BaseException]) -> UserError | None:
    """Return that the prepared rows went away while they were read, if that is the cause."""
    gone = (error for error in chain if isinstance(error, UnreadableTableError))
    return next((UserError(f"{str(error)[:1].upper()}{str(error)[1:]}.") for error in gone), None)


def _server(code: int | None) -> UserError | None:
    """Return that a server has failed, if one has."""
    if code is None:
        return None
    return UserError(
        f"The Prefect server failed (status {code}); its log is "
        f"{read_settings().prefect / 'server.log'} where it is ours. The same command continues."
    )


def _crash(error: BaseException) -> UserError:
    """Return an error that nobody has foreseen."""
    said = " ".join(scrubbed(str(error)).split())[:300]
    cause = type(error).__name__ + (f": {said}" if said else "")
    return CrashError(
        f"It crashed by {cause.removesuffix('.')}. That is a fault of fkd; what was computed is "
        "kept, and the same command with --debug shows the whole traceback."
    )


# Loaded into less, OpenBLAS waits for ever or ends the process without a word of ours.
_TO_LOAD = 2**30
# In less, Dask and Prefect cannot start all their threads; a callback without one is never called.
_TO_RUN = 2**31
_PER_THREAD = 2**27  # for each further thread of BLAS: stack and buffers, of numpy's and of scipy's


def check_address_space(*, run: bool = False) -> None:
    """Refuse a `ulimit -v` in which the libraries cannot be loaded, or no run can be gone through.

    What goes wrong in it later is told too as far as Python hears of it, but much of it hangs.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    least = (_TO_RUN if run else _TO_LOAD) + _PER_THREAD * (_threads() - 1)
    if limit != resource.RLIM_INFINITY and limit < least:
        raise UserError(
            f"fkd needs at least {least >> 20} MiB of address space for this, but `ulimit -v` "
            f"allows {limit >> 20}; raise that limit, or lower the number of threads by "
            "OPENBLAS_NUM_THREADS=1."
        )


def _threads() -> int:
    """Return how many threads BLAS will prepare."""
    chosen = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else os.cpu_count() or 1

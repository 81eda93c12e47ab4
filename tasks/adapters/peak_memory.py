"""The greatest memory that this process has held since a moment."""

import resource
import sys
from pathlib import Path

MEMORY = "memory"  # under which a record's environment has it
_FORGET = "5"  # what has the kernel forget the peak so far
_UNIT = 1 if sys.platform == "darwin" else 1024  # of what `getrusage` counts


class PeakMemory:
    """Resident memory of the whole process, its other threads included, at its greatest.

    Where the kernel forgets an earlier peak (Linux), it is that since the beginning of a job;
    elsewhere that since the process began.
    """

    def __init__(self) -> None:
        self.since = "job" if _forgotten() else "process"

    def told(self) -> dict[str, dict[str, int | str]]:
        """Return the bytes so far, with since when, as a record's environment has them."""
        peak = _since_reset() if self.since == "job" else None
        if peak is None:
            return {MEMORY: {"peak_rss": _since_start(), "since": "process"}}
        return {MEMORY: {"peak_rss": peak, "since": self.since}}


def _forgotten() -> bool:
    """Return whether the kernel has forgotten this process's peak."""
    try:
        Path("/proc/self/clear_refs").write_text(_FORGET)
    except OSError:
        return False
    return True


def _since_reset() -> int | None:
    """Return the peak in bytes as the kernel tells it, None where it does not."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    found = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return next((1024 * int(kib) for kib in found), None)


def _since_start() -> int:
    """Return the peak in bytes since this process began."""
    return _UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

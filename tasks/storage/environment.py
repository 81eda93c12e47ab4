"""Packages, BLAS kernels, BLAS threads and memory of this process."""

import os
import resource
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any

import numpy as np
import psutil
import scipy.linalg  # loads a BLAS of its own, which `threadpool_info` lists then
import sklearn
from threadpoolctl import ThreadpoolController, threadpool_info

from fkd.methods import method

MEMORY = "memory"  # key of the peak memory in a record's environment
_PACKAGES = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn}


def environment(fitted: str | None = None) -> dict[str, Any]:
    """Return versions of packages, BLAS libraries with their kernels, and numpy's SIMD level.

    Parameters
    ----------
    fitted
        A method that was fitted in this process. PyTorch is listed if that method needs it. It is
        not imported for this purpose.
    """
    found: dict[str, Any] = {name: package.__version__ for name, package in _PACKAGES.items()}
    simd: Any = np.show_config(mode="dicts")
    simd = simd.get("SIMD Extensions", {})
    found["simd"] = " ".join([*simd.get("baseline", ()), *simd.get("found", ())][-1:])
    blas = {
        (str(b["internal_api"]), b["version"], b.get("architecture"), b["num_threads"])
        for b in threadpool_info()
        if b["user_api"] == "blas"
    }
    names = ("library", "version", "architecture", "threads")
    found["blas"] = [dict(zip(names, one, strict=True)) for one in sorted(blas, key=str)]
    extra = method(fitted).extra if fitted else None
    torch = sys.modules.get("torch") if extra and "torch" in extra.packages else None
    if torch is not None:
        capability = torch.backends.cpu.get_cpu_capability()
        found["torch"] = {"version": torch.__version__, "capability": capability}
    return found


def kernels(environment: Mapping[str, Any]) -> str:
    """Return the BLAS kernels and the SIMD level of an environment as text."""
    blas = {f"{b['library']} {b['architecture']}" for b in environment.get("blas", ())}
    simd = [f"numpy {environment['simd']}"] if "simd" in environment else []
    return ", ".join([*sorted(blas), *simd])


def own_kernels() -> str:
    """Return the BLAS kernels and the SIMD level of this process."""
    return kernels(environment())


def mixed_kernels_warning(workers: Mapping[str, int], stored: Collection[str]) -> str | None:
    """Return a warning if fits are computed with different kernels, else None.

    Parameters
    ----------
    workers
        Number of workers by kernels.
    stored
        Kernels of the stored fits.
    """
    other = {name for name in stored if name} - set(workers)
    if len(other | set(workers)) < 2:
        return None
    parts = []
    if workers:
        counts = (f"{count} with {name}" for name, count in sorted(workers.items()))
        parts.append(f"workers: {'; '.join(counts)}")
    if other:
        parts.append(f"stored fits: {'; '.join(sorted(other))}")
    return (
        f"processors are mixed ({', '.join(parts)}): numbers of these machines may differ in their "
        "last digits. Equal values of OPENBLAS_CORETYPE and NPY_DISABLE_CPU_FEATURES on all "
        "workers make them equal (docs/howto/cluster.md)"
    )


def memory_per_worker(workers: int | None) -> float:
    """Return the bytes of memory per worker on this machine; None is one worker per core."""
    return psutil.virtual_memory().total / (workers or os.cpu_count() or 1)


@dataclass
class _ThreadLimit:
    """The number of BLAS threads that the running blocks share."""

    turn: Condition = field(default_factory=Condition)
    count: int = 0
    blocks: int = 0
    restore: list[Callable[[], Any]] = field(default_factory=list)


_limit = _ThreadLimit()


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Limit the threads of BLAS; a block waits while blocks with another limit run.

    OpenBLAS has one limit for the whole process. If two threads changed it independently, the last
    bits of sums would depend on timing.
    """
    libraries = ThreadpoolController().lib_controllers
    common = [library for library in libraries if _is_common(library)]
    own = [library for library in libraries if not _is_common(library)]
    with _limit.turn:
        _limit.turn.wait_for(lambda: not _limit.blocks or _limit.count == count)
        if not _limit.blocks:
            _limit.count, _limit.restore = count, _set_threads(common, count)
        _limit.blocks += 1
    restore = _set_threads(own, count)
    try:
        yield
    finally:
        for reset in restore:
            reset()
        with _limit.turn:
            _limit.blocks -= 1
            if not _limit.blocks:
                for reset in _limit.restore:
                    reset()
            _limit.turn.notify_all()


def _is_common(library: Any) -> bool:
    """Return True if a library has one limit for all threads of the process."""
    return bool(library.internal_api == "openblas" and library.threading_layer != "openmp")


def _set_threads(libraries: list[Any], count: int) -> list[Callable[[], Any]]:
    """Set the limit of each library; return functions that restore the previous ones."""
    restore: list[Callable[[], Any]] = []
    for library in libraries:
        # The public setter silently ignores all but the first thread that ever called it.
        put = getattr(library, "_real_set_num_threads", library.set_num_threads)
        restore.append(partial(put, library.num_threads))
        put(count)
    return restore


class PeakMemory:
    """Peak resident memory of the process.

    On Linux it is the peak since this object was created, elsewhere since the process started.
    """

    def __init__(self) -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak
            self.since = "job"
        except OSError:
            self.since = "process"

    def environment(self) -> dict[str, dict[str, int | str]]:
        """Return the peak in bytes as an entry of a record's environment."""
        if self.since == "job":
            status = Path("/proc/self/status").read_text()
            peak = 1024 * int(status.partition("VmHWM:")[2].split()[0])
        else:
            unit = 1 if sys.platform == "darwin" else 1024
            peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {MEMORY: {"peak_rss": peak, "since": self.since}}

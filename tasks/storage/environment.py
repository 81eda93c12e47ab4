"""What a process computes with: packages, the kernels that they chose for its processor."""

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
import scipy.linalg  # brings a BLAS of its own, which is to be seen too
import sklearn
from threadpoolctl import ThreadpoolController, threadpool_info

from fkd.methods import method

_PACKAGES = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn}


def environment(fitted: str | None = None) -> dict[str, Any]:
    """Return versions of packages, BLAS libraries with their kernels, numpy's vector instructions.

    Parameters
    ----------
    fitted
        A method that has been fitted here. PyTorch is named where that method needs it, and never
        imported for the purpose.
    """
    found: dict[str, Any] = {name: package.__version__ for name, package in _PACKAGES.items()}
    found["simd"] = _numpy_simd()
    found["blas"] = _blas()
    torch = sys.modules.get("torch") if fitted and _needs_torch(fitted) else None
    if torch is not None:
        found["torch"] = {
            "version": torch.__version__,
            "capability": torch.backends.cpu.get_cpu_capability(),
        }
    return found


def kernels(environment: Mapping[str, Any]) -> str:
    """Return the kernels that an environment names as a few words, none where it names none."""
    blas = {f"{b['library']} {b['architecture']}" for b in environment.get("blas", ())}
    simd = [f"numpy {environment['simd']}"] if "simd" in environment else []
    return ", ".join([*sorted(blas), *simd])


def own_kernels() -> str:
    """Return the kernels of this process."""
    return kernels(environment())


def mixture(workers: Mapping[str, int], stored: Collection[str]) -> str | None:
    """Return one sentence on kernels that are not all the same, None where they are.

    Parameters
    ----------
    workers
        How many workers compute with which kernels.
    stored
        Kernels that stored fits name; those of older fits, which name none, are empty.
    """
    older = {name for name in stored if name} - set(workers)
    if len(older | set(workers)) < 2:
        return None
    here = "; ".join(f"{count} with {name}" for name, count in sorted(workers.items()))
    there = "; ".join(sorted(older))
    parts = [f"workers: {here}"] * bool(here) + [f"stored fits: {there}"] * bool(there)
    return (
        f"processors are mixed ({', '.join(parts)}): numbers may differ in their last digits "
        "between these machines; OPENBLAS_CORETYPE and NPY_DISABLE_CPU_FEATURES, set alike for "
        "all workers, make them equal (docs/sweeps.md)"
    )


def _blas() -> list[dict[str, Any]]:
    """Return each BLAS library in this process once: version, kernel, threads."""
    found = {
        (str(b["internal_api"]), b["version"], b.get("architecture"), b["num_threads"])
        for b in threadpool_info()
        if b["user_api"] == "blas"
    }
    names = ("library", "version", "architecture", "threads")
    return [dict(zip(names, values, strict=True)) for values in sorted(found, key=str)]


def _numpy_simd() -> str:
    """Return the widest vector instructions that numpy found on this processor."""
    told: Any = np.show_config(mode="dicts")
    found = told.get("SIMD Extensions", {})
    return " ".join([*found.get("baseline", ()), *found.get("found", ())][-1:])


def _needs_torch(name: str) -> bool:
    """Return whether a method takes PyTorch from its extra."""
    extra = method(name).extra
    return extra is not None and "torch" in extra.packages


def memory_per_worker(workers: int | None) -> float:
    """Return the bytes that each of so many workers has on this machine, one per core if None."""
    return psutil.virtual_memory().total / (workers or os.cpu_count() or 1)


@dataclass
class _Agreement:
    """What the blocks that now run have agreed on."""

    turn: Condition = field(default_factory=Condition)
    count: int = 0
    blocks: int = 0
    restore: list[Callable[[], Any]] = field(default_factory=list)


_agreed = _Agreement()


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Let BLAS use so many threads; blocks that ask for another number wait for their turn.

    OpenBLAS has one limit for the whole process. Set and put back by each of several threads, it
    would change in the middle of another one's sums, whose last bits would then depend on luck.
    """
    libraries = ThreadpoolController().lib_controllers
    common = [library for library in libraries if _is_common(library)]
    own = [library for library in libraries if not _is_common(library)]
    with _agreed.turn:
        _agreed.turn.wait_for(lambda: not _agreed.blocks or _agreed.count == count)
        if not _agreed.blocks:
            _agreed.count, _agreed.restore = count, _limit(common, count)
        _agreed.blocks += 1
    restore = _limit(own, count)
    try:
        yield
    finally:
        _call(restore)
        with _agreed.turn:
            _agreed.blocks -= 1
            if not _agreed.blocks:
                _call(_agreed.restore)
            _agreed.turn.notify_all()


def _is_common(library: Any) -> bool:
    """Return whether a library has one limit for all threads of the process."""
    return bool(library.internal_api == "openblas" and library.threading_layer != "openmp")


def _limit(libraries: list[Any], count: int) -> list[Callable[[], Any]]:
    """Set the limit of each library; return what puts the former ones back."""
    restore: list[Callable[[], Any]] = []
    for library in libraries:
        # The public setter obeys only the first thread that ever asked, and tells nobody.
        put = getattr(library, "_real_set_num_threads", library.set_num_threads)
        restore.append(partial(put, library.num_threads))
        put(count)
    return restore


def _call(functions: list[Callable[[], Any]]) -> None:
    """Call each function."""
    for function in functions:
        function()


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

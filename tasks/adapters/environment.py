"""What a process computes with: packages, the kernels that they chose for its processor."""

import os
import sys
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import psutil
import scipy.linalg  # brings a BLAS of its own, which is to be seen too
import sklearn
from threadpoolctl import threadpool_info

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

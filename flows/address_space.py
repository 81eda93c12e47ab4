"""The limit on a process's address space, looked at before anything heavy is loaded."""

import os
import resource

from configs.errors import UserError

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

"""The number of BLAS threads within a block of code, the same for all threads of a process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Condition
from typing import Any

from threadpoolctl import ThreadpoolController


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

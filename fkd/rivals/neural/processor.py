"""The state of the processor in which networks are trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock = Lock()
_inside: list[int] = []  # the thread count to go back to, once per block that is open


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block on one thread, so that a seed decides every bit.

    The count belongs to the process: where threads train side by side, blocks overlap, so the last
    one that ends restores it.
    """
    with _lock:
        _inside.append(_inside[0] if _inside else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                torch.set_num_threads(before)


@contextmanager
def denormals_are_zero() -> Iterator[None]:
    """Run the block with numbers below the normal range taken as zero, on this thread alone.

    Weight decay shrinks the weights of idle units without end. From some hundred epochs on they
    are denormal, which the processor handles ten times slower than any other number.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)

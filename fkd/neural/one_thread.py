"""A single PyTorch thread, so that a seed decides every bit."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock = Lock()
_inside: list[int] = []  # the thread count to go back to, once per block that is open


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block on one thread; the last block that ends restores the count.

    The count belongs to the process: blocks may overlap where threads train side by side.
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

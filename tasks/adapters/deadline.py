"""Work that is given up after some seconds, whatever it is doing."""

import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


class DeadlineError(OSError):
    """The work was not done in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no whole answer within {seconds:g} s")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what the work returns, raise what it raises, or `DeadlineError`.

    A timeout of a socket counts from byte to byte, so that a server which sends one byte at a time
    is never given up by it. Here the work has a thread of its own, which nobody waits for any
    longer once the time is over; it ends with its connection, or with the process.
    """
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
    context = copy_context()

    def run() -> None:
        try:
            answers.put((context.run(work), None))
        except BaseException as error:  # raised again where it is waited for
            answers.put((None, error))

    threading.Thread(target=run, name="fkd-deadline", daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise DeadlineError(seconds) from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]

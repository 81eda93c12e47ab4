"""Blocks of rows that write down who computes them; workers import this."""

import os
import signal
from pathlib import Path

from tasks.kernels import streaming as leaves

_summed = leaves._summed


def counted_leaf(leaf):
    """Return what a block returns; a line per computation, of which one may kill its process."""
    leaves._summed = _written_down
    return leaves.sum_leaf(leaf)


def _written_down(leaf, *rows):
    folder = Path(os.environ["COUNTS"])
    with (folder / "computed").open("a") as file:
        file.write(f"{leaf.cell}.{leaf.position} {os.getpid()}\n")
    mine = [line for line in lines(folder) if line[1] == str(os.getpid())]
    if os.environ.get("DIES") and len(mine) == 3 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _summed(leaf, *rows)


def lines(folder):
    """Block with process, in the order of their beginning."""
    return [tuple(line.split()) for line in (folder / "computed").read_text().splitlines()]

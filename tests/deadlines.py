"""How long a test waits for a process: the longer the busier the machine is."""

import os


def patient(seconds: float) -> float:
    """Seconds on an idle machine, as many times more as processes wait for each core."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))

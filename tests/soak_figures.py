"""What the long fault tests counted, one line per case in `benchmarks/results/soak.json`."""

import json
import os
import time
from fcntl import LOCK_EX, flock
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results" / "soak.json"


def keep(fault: str, case: str, **figures: object) -> None:
    """Keep the figures of a case that passed, in place of those of its last time."""
    row = {
        "fault": fault,
        "case": case,
        **figures,
        "day": time.strftime("%Y-%m-%d"),
        "load": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
    }
    with RESULTS.open("a+") as file:
        flock(file, LOCK_EX)  # two soaks at once lose no line
        file.seek(0)
        rows = {(old["fault"], old["case"]): old for old in json.loads(file.read() or "[]")}
        rows[fault, case] = row
        lines = ",\n".join(json.dumps(rows[key]) for key in sorted(rows, key=_order))
        file.truncate(0)
        file.write(f"[\n{lines}\n]\n")


def _order(key: tuple[str, str]) -> tuple[int, str]:
    """Return the place of a case: F2 before F13."""
    return int(key[0][1:]), key[1]

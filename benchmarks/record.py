"""What a benchmark leaves behind: rows, goals, the machine they were taken on."""

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from benchmarks.calibration import Calibration

RESULTS = Path(__file__).parent / "results"
UNSTEADY = RESULTS / "unsteady"  # taken on a machine that had other things to do; not kept in git


@dataclass(frozen=True)
class Goal:
    """A number with the limit that it must keep."""

    name: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Whether the limit is kept."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True)
class Record:
    """Result of one benchmark: a table, the goals it decides, remarks on how it was taken."""

    rows: list[dict[str, Any]]
    goals: list[Goal] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    timed: bool = True  # whether its numbers are times, which a busy machine spoils


def write(name: str, record: Record, calibration: Calibration, folder: Path) -> Path:
    """Return the JSON file in that folder which the record was written to."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    content = {
        "name": name,
        "machine": machine(),
        "steadiness": calibration.plain(),
        "rows": record.rows,
        "goals": [{**asdict(goal), "reached": goal.reached} for goal in record.goals],
        "remarks": record.remarks,
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    blas = [info for info in threadpool_info() if info["user_api"] == "blas"]
    packages = ("numpy", "scipy", "scikit-learn", "fkd")
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "blas": sorted({f"{b['internal_api']} {b['version']} x{b['num_threads']}" for b in blas}),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def _cpu() -> str:
    """Return the processor's name as Linux tells it, else as Python does."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as an aligned text table."""
    columns = list(rows[0])
    cells = [columns, *[[_text(row[column]) for column in columns] for row in rows]]
    widths = [max(len(row[j]) for row in cells) for j in range(len(columns))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )


def _text(value: Any) -> str:
    """Return a cell: four digits of a float, anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)

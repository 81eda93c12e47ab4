"""Support vector machines on fair features of any number of rows, many at a time."""

from fkd.core.machines.batched_solver import solve_machines
from fkd.core.machines.machine import Machine, MachineOutcome, Solution
from fkd.core.machines.row_source import RowBlock, Source

__all__ = ["Machine", "MachineOutcome", "RowBlock", "Solution", "Source", "solve_machines"]

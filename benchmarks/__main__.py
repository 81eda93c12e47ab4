"""Run benchmarks by name, all of them without one."""

import importlib
import sys
from pathlib import Path

from benchmarks.record import table, write


def available() -> list[str]:
    """Return the names of all benchmarks: the files beside this one with a function ``run``."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [file.stem for file in files if "\ndef run()" in file.read_text()]


def main(names: list[str]) -> int:
    """Return 0 if every goal was reached, 1 if not, 2 for an unknown name."""
    known = available()
    if unknown := set(names) - set(known):
        print(f"benchmarks are {', '.join(known)}; there is no {', '.join(sorted(unknown))}")
        return 2
    missed = 0
    for name in names or known:
        record = importlib.import_module(f"benchmarks.{name}").run()
        path = write(name, record)
        print(f"\n{name}  ->  {path.name}\n{table(record.rows)}")
        for remark in record.remarks:
            print(f"  ({remark})")
        for goal in record.goals:
            sign = ">=" if goal.at_least else "<="
            verdict = "reached" if goal.reached else "MISSED"
            print(f"  {verdict}: {goal.name} = {goal.value:.4g} (goal {sign} {goal.limit:g})")
            missed += not goal.reached
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

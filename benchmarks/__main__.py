"""Run benchmarks by name, all of them without one."""

import importlib
import sys

from benchmarks.record import table, write

NAMES = ("exact_path", "accuracy", "memory")


def main(names: list[str]) -> int:
    """Return 0 if every goal was reached, 1 if not, 2 for an unknown name."""
    if unknown := set(names) - set(NAMES):
        print(f"benchmarks are {', '.join(NAMES)}; there is no {', '.join(sorted(unknown))}")
        return 2
    missed = 0
    for name in names or NAMES:
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

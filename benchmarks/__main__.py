"""Run benchmarks by name, all of them without one; `--force` keeps figures of a busy machine."""

import importlib
import sys
from pathlib import Path

from benchmarks.calibration import LIMIT, Calibration, between, fresh
from benchmarks.record import RESULTS, UNSTEADY, Record, table, write


def available() -> list[str]:
    """Return the names of all benchmarks: the files beside this one with a function ``run``."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [file.stem for file in files if "\ndef run()" in file.read_text()]


def main(names: list[str]) -> int:
    """Return 0 if every goal was reached on a steady machine, 1 if not, 2 for an unknown name."""
    known = available()
    forced = "--force" in names
    names = [name for name in names if name != "--force"]
    if unknown := set(names) - set(known):
        print(f"benchmarks are {', '.join(known)}; there is no {', '.join(sorted(unknown))}")
        return 2
    missed = 0
    for name in names or known:
        calibration = fresh()
        between()
        record = importlib.import_module(f"benchmarks.{name}").run()
        between()
        kept = forced or not record.timed or calibration.variation <= LIMIT
        path = write(name, record, calibration, RESULTS if kept else UNSTEADY)
        print(f"\n{name}  ->  {path.relative_to(RESULTS)}\n{table(record.rows)}")
        print(f"  {_steadiness(record, calibration)}")
        if not kept:
            print(f"  REFUSED: wait until the machine is idle, or keep it by `{name} --force`")
            missed += 1
        for remark in record.remarks:
            print(f"  ({remark})")
        for goal in record.goals:
            sign = ">=" if goal.at_least else "<="
            verdict = "reached" if goal.reached else "MISSED"
            print(f"  {verdict}: {goal.name} = {goal.value:.4g} (goal {sign} {goal.limit:g})")
            missed += not goal.reached
    return int(missed > 0)


def _steadiness(record: Record, calibration: Calibration) -> str:
    """Return how steady the machine was, as a sentence."""
    rule = f"at most {LIMIT:.0%}" if record.timed else "any, no figure here is a time"
    return (
        f"the same product, {len(calibration.wall)} times between the measurements, took up to "
        f"{calibration.variation:.0%} longer than undisturbed ({rule})"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Mutation tests of the modules that decide numbers.

`python -m tools.mutation sample` lets mutmut mutate `fkd/core` and `fkd/measures`, draws mutants
with a fixed seed and runs the library's tests that execute the mutated function.
`python -m tools.mutation semantic` applies the faults of `semantic_mutants.yaml` one at a time.
Both work in a copy of the committed tree and print one line per surviving mutant.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import yaml

from tools.wheels.library_tests import files_needed, library_tests

ROOT = Path(__file__).resolve().parent.parent
SEMANTIC = Path(__file__).with_name("semantic_mutants.yaml")
SEED, SIZE = 2026, 300
MUTATED = ("fkd/core/*", "fkd/measures/*")
PYTEST = ["-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow and not stack and not needs"]


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every semantic mutant is killed; a sample only reports its score."""
    parser = argparse.ArgumentParser(prog="tools.mutation", description=__doc__)
    parser.add_argument("kind", choices=["sample", "semantic"])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        folder = Path(name)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=-1, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        if asked.kind == "semantic":
            return _semantic(folder)
        return _sample(folder, asked.seed, asked.size, asked.jobs)


def _semantic(folder: Path) -> int:
    """Apply each semantic mutant and run its tests."""
    survivors = 0
    for mutant in yaml.safe_load(SEMANTIC.read_text()):
        path = folder / mutant["file"]
        text = path.read_text()
        if text.count(mutant["replace"]) != 1:
            raise SystemExit(f"{mutant['name']}: `replace` must occur once in {mutant['file']}")
        path.write_text(text.replace(mutant["replace"], mutant["by"]))
        tests = [str(next((folder / "tests").rglob(name))) for name in mutant["tests"]]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        killed = subprocess.run(command, cwd=folder, env=_environment(), stdout=-1).returncode == 1
        path.write_text(text)
        survivors += not killed
        print(f"{'killed  ' if killed else 'SURVIVED'}  {mutant['name']}", flush=True)
    return int(survivors > 0)


def _sample(folder: Path, seed: int, size: int, jobs: int) -> int:
    """Run mutmut on a random sample of its mutants and print the score."""
    tests = folder / "tests"
    chosen = [f"tests/{path.relative_to(tests)}" for path in library_tests(tests)]
    kept = set(files_needed(tests))
    for path in tests.rglob("test_*.py"):
        if path not in kept:
            path.unlink()
    # numba cannot compile a function that mutmut has wrapped.
    (tests / "numba.py").write_text("raise ImportError('hidden from mutation tests')\n")
    project = (folder / "pyproject.toml").read_text()
    run = ("run", "--max-children", str(jobs))
    _configure(folder, project, chosen[:1], [])
    # Writes the wrapped functions.
    _mutmut(folder, *run, "fkd.measures.gedi.*", may_fail=True)
    unsuitable = _failing_when_wrapped(folder / "mutants", chosen)
    print(f"{len(unsuitable)} tests left out, which fail on wrapped functions:", *unsuitable)
    _configure(folder, project, chosen, unsuitable)
    names = _results(folder)
    drawn = sorted(random.Random(seed).sample(sorted(names), min(size, len(names))))
    _mutmut(folder, *run, *drawn)
    found = _results(folder)
    counts = Counter(found[name] for name in drawn)
    for name in drawn:
        if found[name] not in ("killed", "timeout"):
            print(f"{found[name]:10} {name}")
    killed = counts["killed"] + counts["timeout"]
    print(f"{killed} of {len(drawn)} killed, of {len(names)} mutants, seed {seed}: {dict(counts)}")
    return 0


def _configure(folder: Path, project: str, tests: list[str], unsuitable: list[str]) -> None:
    """Write mutmut's settings into the copy's pyproject.toml."""
    selection = [*tests, *(f"--deselect={name}" for name in unsuitable)]
    settings = (
        "\n[tool.mutmut]\n"
        f"source_paths = ['fkd']\nonly_mutate = {list(MUTATED)}\n"
        "also_copy = ['tasks', 'flows', 'configs', 'docs', 'tools']\n"
        f"pytest_add_cli_args = {PYTEST}\n"
        f"pytest_add_cli_args_test_selection = {json.dumps(selection)}\n"
    )
    (folder / "pyproject.toml").write_text(project + settings)


def _failing_when_wrapped(folder: Path, tests: list[str]) -> list[str]:
    """Return the tests of signatures, calls or places of warnings, which wrapping changes."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *PYTEST[2:]]
    done = subprocess.run(
        [*command, *tests], cwd=folder, env=_environment(), capture_output=True, text=True
    )
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.M)


def _results(folder: Path) -> dict[str, str]:
    """Return the state of every mutant by name."""
    listed = _mutmut(folder, "results", "--all", "true")
    return dict(re.findall(r"^\s*(\S+__mutmut_\d+): (.+)$", listed, re.M))


def _mutmut(folder: Path, *arguments: str, may_fail: bool = False) -> str:
    """Run mutmut in the copy and return its output."""
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True)
    if done.returncode and not may_fail:
        raise SystemExit(
            f"mutmut {arguments[0]} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
    return done.stdout


def _environment() -> dict[str, str]:
    """Return the environment of the tests, with one BLAS thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

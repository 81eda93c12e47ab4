"""Which test files run which functions, how long they take."""

import hashlib
import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from mutants.tree import Copy

_TRACING = Path(__file__).parent / "tracing"
_STACK = "pytestmark = pytest.mark.stack"
_LONGEST = 900.0  # seconds that one test file may take while it is watched


@dataclass(frozen=True)
class Seen:
    """What one test file does while nothing is wrong with the code."""

    seconds: float
    passed: bool
    runs: tuple[str, ...]  # path:name of functions that its tests run
    imports: tuple[str, ...]  # of those that only run while it is read in
    read: dict[str, str]  # digests of the files of all these, of itself and of its helpers


def digest_of(path: Path) -> str:
    """Return the digest of a file, of nothing where it is gone."""
    return hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()[:16]


def helpers(root: Path) -> list[str]:
    """Return the files of tests/ that are no tests themselves."""
    files = sorted((root / "tests").iterdir())
    return [f"tests/{f.name}" for f in files if f.is_file() and not f.name.startswith("test_")]


def files_of_tests(root: Path) -> tuple[list[str], list[str]]:
    """Return the test files, those that start whole stacks of processes apart."""
    files = sorted((root / "tests").glob("test_*.py"))
    apart = [f for f in files if _STACK in f.read_text().splitlines()]
    quick = [f for f in files if f not in apart]
    return [f"tests/{f.name}" for f in quick], [f"tests/{f.name}" for f in apart]


class SeenMap:
    """What was seen of every test file; looked at again where a file that it ran has changed."""

    def __init__(self, root: Path, store: Path) -> None:
        self.root, self._store = root, store
        self._known: dict[str, Seen] = {}
        if store.is_file():
            plain = json.loads(store.read_text())
            self._known = {test: Seen(**entry) for test, entry in plain.items()}

    def update(self, copies: Iterable[Copy], *, tests: Iterable[str], stale: bool = False) -> None:
        """Look at those of the test files that are new or changed; `stale` lets changed code be."""
        there = {test: seen for test, seen in self._known.items() if (self.root / test).is_file()}
        self._known = there
        missing = [test for test in tests if not self._is_fresh(test, stale)]
        free: SimpleQueue[Copy] = SimpleQueue()
        for copy in (copies := list(copies)):
            free.put(copy)

        def look(test: str) -> None:
            copy = free.get()
            try:
                seen = _look(test, copy)
            finally:
                free.put(copy)
            self._known[test] = seen
            left = sum(name not in self._known for name in missing)
            fault = "" if seen.passed else "  does not pass, so it kills nothing"
            print(f"looked at {test} ({seen.seconds:.0f} s, {left} to go){fault}", flush=True)
            self._save()

        for test in missing:
            self._known.pop(test, None)
        with ThreadPoolExecutor(len(copies)) as pool:
            list(pool.map(look, missing))

    def tests_of(self, place: str) -> list[str]:
        """Return the test files that run ``path:name``: its own first, then the quick ones."""
        own = f"tests/test_{Path(place.partition(':')[0]).stem}.py"
        running = [t for t, seen in self._known.items() if seen.passed and place in seen.runs]
        if not running:
            running = [t for t, s in self._known.items() if s.passed and place in s.imports]
        return sorted(running, key=lambda test: (test != own, self._known[test].seconds))

    def seconds(self, test: str) -> float:
        """Return how long a test file takes when all is well."""
        return self._known[test].seconds if test in self._known else _LONGEST / 3

    def failing(self) -> list[str]:
        """Return the test files that do not pass on the code as it is."""
        return [test for test, seen in self._known.items() if not seen.passed]

    def _is_fresh(self, test: str, stale: bool) -> bool:
        seen = self._known.get(test)
        if seen is None or not seen.passed:
            return False
        return all(
            digest_of(self.root / path) == told
            for path, told in seen.read.items()
            if not stale or path == test
        )

    def _save(self) -> None:
        self._store.parent.mkdir(parents=True, exist_ok=True)
        plain = {test: asdict(seen) for test, seen in sorted(self._known.items())}
        part = self._store.with_suffix(".part")
        part.write_text(json.dumps(plain))
        part.replace(self._store)


def _look(test: str, copy: Copy) -> Seen:
    """Run one test file, watched."""
    notes = copy.root.parent / "seen.txt"
    notes.unlink(missing_ok=True)
    begun = time.monotonic()
    done = copy.run(
        [test],
        seconds=_LONGEST,
        options=["-p", "sitecustomize"],
        environment={
            "PYTHONPATH": f"{copy.root}:{_TRACING}",
            "MUTANTS_SEEN": str(notes),
            "MUTANTS_ROOT": str(copy.root),
        },
    )
    seconds = time.monotonic() - begun
    lines = {tuple(line.split("\t")) for line in notes.read_text().splitlines()}
    runs = {place for phase, place in lines if phase == "test"}
    imports = {place for phase, place in lines if phase == "import"} - runs
    files = {place.partition(":")[0] for place in runs | imports} | {test, "tests/conftest.py"}
    # 5: every test of the file is a slow one.
    return Seen(
        seconds,
        done.code in (0, 5),
        tuple(sorted(p for p in runs if not p.startswith("tests/"))),
        tuple(sorted(p for p in imports if not p.startswith("tests/"))),
        {path: digest_of(copy.root / path) for path in sorted(files)},
    )

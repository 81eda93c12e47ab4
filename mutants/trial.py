"""One mutant against the tests that should notice it."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mutants.mutant import Mutant
from mutants.seen import SeenMap, digest_of
from mutants.tree import Copy

# Seconds of tests per mutant: what many files run is killed by the first of them, or hardly at all.
_ENOUGH = 90.0
# Seconds that a mutant gets beyond three times what its tests take when all is well.
_MORE = 60.0
_SUMMARY = re.compile(r"^(?:FAILED|ERROR) (tests/\S+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """Whether a mutant was noticed."""

    killed: bool
    by: str  # the first test that failed, "" where none did
    seconds: float
    tests: dict[str, str]  # files that were run, by their digest

    @property
    def killer(self) -> str:
        """The test file that noticed."""
        return self.by.partition("::")[0].partition(" ")[0]


def chosen_tests(mutant: Mutant, seen: SeenMap) -> list[str]:
    """Return the test files to run: those declared, else the quickest that run the function."""
    if mutant.named:
        return list(mutant.tests)
    chosen: list[str] = []
    for test in seen.tests_of(f"{mutant.function.path}:{mutant.function.name}"):
        if chosen and sum(map(seen.seconds, [*chosen, test])) > _ENOUGH:
            break
        chosen.append(test)
    return chosen


def try_mutant(mutant: Mutant, copy: Copy, seen: SeenMap) -> Verdict:
    """Return whether a mutant survives its tests."""
    tests = chosen_tests(mutant, seen)
    digests = {test: digest_of(copy.root / test) for test in tests}
    if not tests:
        return Verdict(False, "", 0.0, {})
    begun = time.monotonic()
    limit = _MORE + 3 * sum(map(seen.seconds, tests))
    with copy.mutated(mutant):
        done = copy.run(tests, seconds=limit, options=["-x"])
    seconds = time.monotonic() - begun
    if done.code == 5:
        raise RuntimeError(f"{mutant.title}: {', '.join(tests)} hold no test that is not slow")
    if done.code == 0:
        return Verdict(False, "", seconds, digests)
    found = _SUMMARY.search(done.output)
    by = found[1] if found else f"{tests[0]} (time)" if done.code is None else f"{tests[0]} (end)"
    return Verdict(True, by, seconds, digests)


class Verdicts:
    """What is known of mutants, one file for each, so that a broken run goes on where it was."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder, self._root = folder, root

    def read(self, mutant: Mutant, tests: Sequence[str]) -> Verdict | None:
        """Return the verdict, if the tests that led to it are still the same."""
        path = self._path(mutant)
        if not path.is_file():
            return None
        verdict = Verdict(**json.loads(path.read_text()))
        if verdict.killed:
            same = verdict.killer in tests
            wanted = [verdict.killer]
        else:
            same = sorted(verdict.tests) == sorted(tests)
            wanted = list(verdict.tests)
        now = all(digest_of(self._root / t) == verdict.tests.get(t) for t in wanted)
        return verdict if same and now else None

    def write(self, mutant: Mutant, verdict: Verdict) -> None:
        """Keep a verdict."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path(mutant).write_text(json.dumps(asdict(verdict)))

    def _path(self, mutant: Mutant) -> Path:
        return self._folder / f"{mutant.digest[:32]}.json"

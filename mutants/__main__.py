"""Try every mutant, or those whose title or function holds a word that is given."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from mutants.anchors import AnchorError, Index
from mutants.declared import equivalents, named_mutants
from mutants.draw import draw
from mutants.mutant import Mutant
from mutants.page import WANTED, Tried, score, write_page
from mutants.seen import SeenMap, files_of_tests
from mutants.tree import Copy
from mutants.trial import Verdict, Verdicts, chosen_tests, try_mutant

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(__file__).parent / "cache"
SEED = 2026
DRAWN = 66


def main(arguments: Sequence[str]) -> int:
    """Return 0 if all of the named and enough of the drawn ones are killed, 1 if not."""
    asked = _parser().parse_args(arguments)
    index = Index(ROOT)
    try:
        named = named_mutants(index, ROOT)
        drawn, equivalent = draw(
            index, seed=asked.seed, count=asked.drawn, known=equivalents(index)
        )
    except AnchorError as error:
        print(error, file=sys.stderr)
        return 2
    wanted = [m for m in [*named, *drawn] if _matches(m, asked.words)]
    if asked.list:
        for mutant in wanted:
            print(_line(mutant))
        return 0
    verdicts = _tried(wanted, asked)
    tried = [(m, v) for m, v in zip(wanted, verdicts, strict=True)]
    return _told(tried, equivalent, asked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only mutants whose title or function has one")
    parser.add_argument("--list", action="store_true", help="name them, try none")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--seed", type=int, default=SEED, help="of the draw")
    parser.add_argument("--drawn", type=int, default=DRAWN, help="how many are drawn")
    parser.add_argument("--stacks", action="store_true", help="ask the tests of `make stack` too")
    parser.add_argument("--stale", action="store_true", help="look only at changed tests again")
    return parser


def _matches(mutant: Mutant, words: Sequence[str]) -> bool:
    text = f"{mutant.title} {mutant.function.anchor}".lower()
    return not words or any(word.lower() in text for word in words)


def _tried(mutants: Sequence[Mutant], asked: argparse.Namespace) -> list[Verdict]:
    """Return the verdict on each mutant, so many at a time; known ones are read."""
    begun, kept = time.monotonic(), Verdicts(CACHE / "verdicts", ROOT)
    seen = SeenMap(ROOT, CACHE / "seen.json")
    with _copies(asked.jobs) as copies:
        drawn = [mutant for mutant in mutants if not mutant.named]
        quick, stacks = files_of_tests(ROOT)
        if drawn:
            seen.update(copies, tests=quick, stale=asked.stale)
        # Whole stacks take minutes. Left out, what only they would notice counts as survivor.
        if asked.stacks and any(not chosen_tests(mutant, seen) for mutant in drawn):
            seen.update(copies, tests=stacks, stale=asked.stale)
        free: SimpleQueue[Copy] = SimpleQueue()
        for copy in copies:
            free.put(copy)
        done = 0

        def one(mutant: Mutant) -> Verdict:
            nonlocal done
            verdict = kept.read(mutant, chosen_tests(mutant, seen))
            if verdict is None:
                copy = free.get()
                try:
                    verdict = try_mutant(mutant, copy, seen)
                finally:
                    free.put(copy)
                kept.write(mutant, verdict)
            done += 1
            word = f"killed by {verdict.by}" if verdict.killed else "SURVIVED"
            minutes = (time.monotonic() - begun) / 60
            print(
                f"{done:3d}/{len(mutants)} {minutes:4.1f} min  {word} ({verdict.seconds:.0f} s)  "
                f"{_line(mutant)}",
                flush=True,
            )
            return verdict

        with ThreadPoolExecutor(asked.jobs) as pool:
            return list(pool.map(one, mutants))


@contextmanager
def _copies(count: int) -> Iterator[list[Copy]]:
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        yield [Copy(ROOT, Path(folder) / str(i)) for i in range(count)]


def _line(mutant: Mutant) -> str:
    short = [" ".join(text.split())[:60] for text in (mutant.before, mutant.after)]
    return f"{mutant.function.anchor}: {short[0]} -> {short[1]}  ({mutant.title})"


def _told(
    tried: Sequence[Tried], equivalent: Sequence[tuple[Mutant, str]], asked: argparse.Namespace
) -> int:
    """Say how it went; write the page where everything was tried."""
    named = [(m, v) for m, v in tried if m.named]
    drawn = [(m, v) for m, v in tried if not m.named]
    if not asked.words and (asked.seed, asked.drawn) == (SEED, DRAWN):
        write_page(ROOT / "docs" / "mutants.md", named, drawn, equivalent, seed=asked.seed)
    print(f"named: {score(named):.0%} of {len(named)} killed (wanted: all)")
    print(f"drawn: {score(drawn):.0%} of {len(drawn)} killed (wanted: {WANTED:.0%})")
    return int(score(named) < 1 or score(drawn) < WANTED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

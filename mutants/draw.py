"""A sample of changes that stays what it is while code around it is written."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from mutants.anchors import Function, Index
from mutants.changes import Change, changes, compiles
from mutants.declared import Equivalent
from mutants.mutant import Mutant

KINDS = ("operator", "comparison", "condition", "constant", "argument", "return")


def draw(
    index: Index, *, seed: int, count: int, known: Sequence[Equivalent] = ()
) -> tuple[list[Mutant], list[tuple[Mutant, str]]]:
    """Return so many mutants, with the equivalent ones that stood among them and why.

    Each change gets a number from its own text, its function's name and the seed; the least
    numbers are taken, as many of every kind, at most one per function. A function that moves to
    another file keeps its number, new code only puts itself between.
    """
    reasons = {(index.find(e.anchor).anchor, e.before, e.after): e.reason for e in known}
    numbered = sorted(_numbered(index, seed), key=lambda item: item[0])
    waiting = {kind: iter([c for c in numbered if c[2].kind == kind]) for kind in KINDS}
    mutants: list[Mutant] = []
    equivalent: list[tuple[Mutant, str]] = []
    taken: set[str] = set()
    for kind in islice(cycle(KINDS), count):
        for _, function, change in waiting[kind]:
            source = change.applied(function.source)
            if function.anchor in taken or not compiles(source):
                continue
            mutant = Mutant(change.kind, function, change.before, change.after, source)
            reason = reasons.get((function.anchor, change.before, change.after))
            if reason is None:
                taken.add(function.anchor)
                mutants.append(mutant)
                break
            equivalent.append((mutant, reason))
    return mutants, equivalent


def _numbered(index: Index, seed: int) -> Iterator[tuple[str, Function, Change]]:
    for function in index.functions:
        seen: Counter[tuple[str, str]] = Counter()
        for change in changes(function):
            pair = change.before, change.after
            text = "\0".join((str(seed), function.name, *pair, str(seen[pair])))
            seen[pair] += 1
            yield hashlib.sha256(text.encode()).hexdigest(), function, change

"""A mutant: one change of one function."""

import hashlib
from dataclasses import dataclass

from mutants.anchors import Function


@dataclass(frozen=True)
class Mutant:
    """What is changed, where, under which name."""

    title: str  # what is wrong with it, or the kind of the change
    function: Function
    before: str
    after: str
    source: str  # of the whole file, changed
    tests: tuple[str, ...] = ()  # files that must notice; else those that run the function

    @property
    def named(self) -> bool:
        """Whether it was declared, not drawn."""
        return bool(self.tests)

    @property
    def digest(self) -> str:
        """What the file reads with the change made, wherever it lies."""
        return hashlib.sha256(self.source.encode()).hexdigest()

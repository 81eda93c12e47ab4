"""Where the functions of the tree stand."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOMS = ("fkd", "configs", "tasks", "flows")
Definition = ast.FunctionDef | ast.AsyncFunctionDef


class AnchorError(Exception):
    """A mutant names code that is not there, or not once."""


@dataclass(frozen=True)
class Function:
    """One function or method, those inside it included."""

    module: str
    name: str  # qualified within its module
    path: str  # of its file, from the root
    source: str  # of its whole file
    node: Definition = field(compare=False, repr=False)

    @property
    def anchor(self) -> str:
        """The name by which mutants know it."""
        return f"{self.module}:{self.name}"

    @cached_property
    def span(self) -> tuple[int, int]:
        """Where its text begins and ends within the file, decorators left out."""
        starts = line_starts(self.source)
        return offset(starts, self.source, self.node.lineno, self.node.col_offset), offset(
            starts, self.source, self.node.end_lineno or 0, self.node.end_col_offset or 0
        )

    @property
    def text(self) -> str:
        """Its own lines."""
        return self.source[slice(*self.span)]


def line_starts(source: str) -> list[int]:
    """Return the position of the first character of each line."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def offset(starts: list[int], source: str, line: int, column: int) -> int:
    """Return a position of the syntax tree, which counts bytes, as one of the text."""
    start = starts[line - 1]
    text = source[start : starts[line]] if line < len(starts) else source[start:]
    return start + len(text.encode()[:column].decode())


class Index:
    """Every function of the tree."""

    def __init__(self, root: Path) -> None:
        self.functions = [
            function
            for room in ROOMS
            for path in sorted((root / room).rglob("*.py"))
            for function in _functions(path.relative_to(root).as_posix(), path.read_text())
        ]
        self._by_anchor = {function.anchor: function for function in self.functions}

    def find(self, anchor: str, containing: str = "") -> Function:
        """Return the function of a name, wherever its file has been moved to.

        Parameters
        ----------
        anchor
            ``module:name``, as in ``fkd.core.linalg:ShiftedInverse.of``.
        containing
            Text that tells functions of one name apart where the module is no longer there.
        """
        if anchor in self._by_anchor:
            return self._by_anchor[anchor]
        name = anchor.partition(":")[2]
        found = [f for f in self.functions if f.name == name and containing in f.text]
        if len(found) != 1:
            places = ", ".join(f.anchor for f in found) or "none"
            raise AnchorError(
                f"{anchor} must be a function of the tree, or have been moved to one other "
                f"module; candidates: {places}. Follow it in mutants/*.yaml"
            )
        return found[0]


def _functions(path: str, source: str) -> Iterator[Function]:
    """Yield the functions of a file, methods by the name of their class."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for node in ast.parse(source).body:
        yield from _within(node, "", module, path, source)


def _within(node: ast.stmt, prefix: str, module: str, path: str, source: str) -> Iterator[Function]:
    if isinstance(node, Definition):
        yield Function(module, prefix + node.name, path, source, node)
    elif isinstance(node, ast.ClassDef):
        for child in node.body:
            yield from _within(child, f"{prefix}{node.name}.", module, path, source)

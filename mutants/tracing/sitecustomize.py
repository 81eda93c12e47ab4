"""Note which functions of the tree a test file runs, in all processes that it starts.

Python imports a module of this name at every start. Where MUTANTS_SEEN names a file, the modules of
the tree are compiled with one more statement per function, which writes the function's name there
when it is first run; at once, because many of the processes are killed. What is not of the tree
runs at its own speed. pytest knows this module as a plugin (PYTEST_DONT_REWRITE: it is read in
before pytest is).
"""

import ast
import builtins
import os
import sys
from importlib.machinery import FileFinder, SourceFileLoader
from types import CodeType
from typing import Any

_seen: set[str] = set()
_phase = "test"


class _NotingLoader(SourceFileLoader):
    """Compiles from the source every time: what it makes must not be kept beside it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        module = ast.parse(self.get_data(path))
        _insert_notes(module.body, os.path.relpath(path, os.environ["MUTANTS_ROOT"]), "")
        code: CodeType = compile(module, path, "exec", dont_inherit=True)
        return code


def _insert_notes(body: list[ast.stmt], path: str, prefix: str) -> None:
    """Let every function of these statements begin by saying that it runs."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            _insert_notes(node.body, path, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            note = ast.parse(f"__mutants_note__({f'{path}:{prefix}{node.name}'!r})").body[0]
            # After the docstring, and on the line of what follows it.
            first = int(ast.get_docstring(node, clean=False) is not None)
            place = node.body[min(first, len(node.body) - 1)]
            for inner in ast.walk(note):
                if isinstance(inner, ast.expr | ast.stmt):
                    ast.copy_location(inner, place)
            node.body.insert(first, note)


def _start(path: str, root: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(place: str) -> None:
        if place not in _seen:
            _seen.add(place)
            os.write(file, f"{_phase}\t{place}\n".encode())

    def finder(folder: str) -> Any:
        if not os.path.realpath(folder).startswith(root):
            raise ImportError(folder)
        return FileFinder(folder, (_NotingLoader, [".py"]))

    setattr(builtins, "__mutants_note__", note)  # noqa: B010 - a name that no type checker knows
    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()


def pytest_addoption() -> None:
    """Tell what runs while tests are read in from what they run; called before any is."""
    global _phase
    _phase = "import"


def pytest_runtest_logstart() -> None:
    """Begin the tests proper: what was seen before them counts anew."""
    global _phase
    if _phase != "test":
        _phase = "test"
        _seen.clear()


if "MUTANTS_SEEN" in os.environ:
    _start(os.environ["MUTANTS_SEEN"], os.environ["MUTANTS_ROOT"])

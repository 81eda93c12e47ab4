"""The test files that need the library alone.

A file is the library's if it imports ``fkd`` and neither it nor a sample that it imports speaks of
the pipeline: by an import, by a string that names one of its modules, by a fixture that only the
pipeline has, or by a path that leaves the folder of tests.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PIPELINE = frozenset({"tasks", "flows", "configs", "benchmarks", "tools"})
FIXTURES = "pipeline_fixtures.py"
_NAMES_A_MODULE = re.compile(rf"({'|'.join(sorted(PIPELINE))})\.[a-z]")
_LEAVES_THE_TESTS = re.compile(r"__file__\)\.(resolve\(\)\.)?(parents\[[1-9]|parent\.parent)")


def library_tests(tests: Path) -> list[Path]:
    """Return the library's test files in this folder and its subfolders, by path."""
    foreign = _fixtures(tests / FIXTURES)
    return [
        path
        for path in sorted(tests.rglob("test_*.py"))
        if "fkd" in _imports_of_all(path, tests) and not _speaks_of_pipeline(path, tests, foreign)
    ]


def files_needed(tests: Path) -> list[Path]:
    """Return the library's test files with all that they share."""
    chosen = library_tests(tests)
    samples = {sample for path in chosen for sample in _with_samples(path, tests)} - set(chosen)
    return [*chosen, *sorted(samples), tests / "conftest.py"]


def _speaks_of_pipeline(path: Path, tests: Path, foreign: frozenset[str]) -> bool:
    """Return whether a test file or a sample of it needs more than the library."""
    for file in _with_samples(path, tests):
        text = file.read_text()
        tree = ast.parse(text)
        if PIPELINE & set(_imports(tree)) or _LEAVES_THE_TESTS.search(text):
            return True
        if any(map(_NAMES_A_MODULE.match, _strings(tree))) or foreign & set(_asked_for(tree)):
            return True
    return False


def _strings(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _asked_for(tree: ast.Module) -> Iterator[str]:
    """Yield the fixtures that tests ask for, and other fixtures."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.decorator_list or "test_" in node.name):
            yield from (argument.arg for argument in node.args.args)


def _with_samples(path: Path, tests: Path) -> set[Path]:
    """Return a test file with the samples that it imports, beside it or in `tests`, and so on."""
    found, left = set[Path](), [path]
    while left:
        file = left.pop()
        found.add(file)
        for name in _imports(ast.parse(file.read_text())):
            samples = (folder / f"{name}.py" for folder in (path.parent, tests))
            sample = next((sample for sample in samples if sample.exists()), None)
            if sample is not None and sample not in found:
                left.append(sample)
    return found


def _imports_of_all(path: Path, tests: Path) -> set[str]:
    """Return what a test file and its samples import, by the first part of the names."""
    files = _with_samples(path, tests)
    return {name for file in files for name in _imports(ast.parse(file.read_text()))}


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports, at its top or later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


def _fixtures(path: Path) -> frozenset[str]:
    """Return the names of the fixtures that a file defines."""
    functions = (n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef))
    return frozenset(f.name for f in functions if f.decorator_list)

"""Copies of the tree, in which tests run and files may be changed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mutants.mutant import Mutant

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".fkd", ".*_cache", ".hypothesis", "__pycache__", "cache", "dist", "build"
)
_MARKS = "not slow and not slurm and not network"


@dataclass(frozen=True)
class Done:
    """How a run of tests ended."""

    code: int | None  # None: it took too long
    output: str


class Copy:
    """A copy of the tree, the first place where Python looks for its packages."""

    def __init__(self, root: Path, folder: Path) -> None:
        # Resolved: it is compared with the names that the interpreter gives its files.
        self.root, self.temporary = folder.resolve() / "tree", folder.resolve() / "tmp"
        shutil.copytree(root, self.root, ignore=_LEFT_OUT)

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Let one file read as the mutant does."""
        path = self.root / mutant.function.path
        _rewrite(path, mutant.source)
        try:
            yield
        finally:
            _rewrite(path, mutant.function.source)

    def run(
        self,
        tests: Sequence[str],
        *,
        seconds: float,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        """Return how these test files end, in this order; the rest of the tree is the copy's."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        given = {name: v for name, v in os.environ.items() if not name.startswith("FKD_")}
        given |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        given |= {"PYTHONPATH": str(self.root), "TMPDIR": str(self.temporary)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", _MARKS]
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [*command, *options, *tests],
                cwd=self.root,
                env=given | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code = _wait(process, seconds)
            output.seek(0)
            return Done(code, output.read().decode(errors="replace"))


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    """Return the exit code, None where time ran out; nothing of its session is left behind."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _rewrite(path: Path, source: str) -> None:
    """Write a file that Python must compile anew: within a second it could take it for the old."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
    path.write_text(source)

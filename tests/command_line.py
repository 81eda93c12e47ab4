"""A process that takes one `fkd` command after the other, importing what they need once."""

import json
import subprocess
import sys
from pathlib import Path

# Each command has its own terminal, a pair of files in memory.
SHELL = """
import contextlib, io, json, sys
from flows.cli import main

answers = sys.stdout
for line in sys.stdin:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(json.loads(line))
        except SystemExit as end:
            code = end.code
    texts = [file.flush() or file.buffer.getvalue().decode() for file in (out, err)]
    print(json.dumps([code, *texts]), file=answers, flush=True)
"""


class CommandLine:
    """A terminal in which `fkd` is called."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SHELL],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "CommandLine":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def fkd(self, *words: str) -> tuple[int, str, str]:
        """The exit code of a command, with what it wrote to the output and beside it."""
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return code, out, err

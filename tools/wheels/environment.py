"""An environment with nothing in it but what is put there."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PINNED = re.compile(r"^([A-Za-z0-9._-]+==\S+(?: ; [^\\]+)?) \\$", re.MULTILINE)


class WheelError(Exception):
    """A distribution that does not do what it must."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder of its own; commands run in another, empty one."""

    folder: Path
    constraints: Path

    @classmethod
    def empty(cls, folder: Path, lock: Path) -> "Environment":
        """Make an environment; what is put there has the versions of the lock."""
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        (folder / "empty").mkdir()
        constraints = folder / "constraints.txt"
        # Without hashes: beside them pip would take neither our wheel nor what is not locked.
        constraints.write_text("\n".join(_PINNED.findall(lock.read_text())))
        return cls(folder, constraints)

    def install(self, what: str, *options: str) -> None:
        """Install a wheel, with extras where they stand behind it, as a user does."""
        self.run(
            "python", "-m", "pip", "install", "-q", "-c", str(self.constraints), *options, what
        )

    def run(
        self, command: str, *arguments: str, code: int = 0, where: Path | None = None
    ) -> tuple[str, str]:
        """Return what a command prints and complains; it must end with the code."""
        done = subprocess.run(
            [str(self.folder / "venv" / "bin" / command), *arguments],
            cwd=where or self.folder / "empty",
            env=_clean(self.folder),
            capture_output=True,
            text=True,
        )
        if done.returncode != code:
            words = " ".join([command, *arguments])
            said = (done.stdout + done.stderr)[-4000:]
            raise WheelError(
                f"`{words}` must end with {code}, ended with {done.returncode}:\n{said}"
            )
        return done.stdout, done.stderr

    def has(self, command: str) -> bool:
        """Return whether the environment has a command."""
        return (self.folder / "venv" / "bin" / command).exists()

    def packages(self) -> set[str]:
        """Return the distributions that are installed, but pip."""
        listed, _ = self.run("python", "-m", "pip", "list", "--format=freeze")
        return {line.split("==")[0].split(" @")[0] for line in listed.split("\n") if line} - {
            "pip",
            "setuptools",
        }


def _clean(folder: Path) -> dict[str, str]:
    """Return the surroundings of a command, in which no other Python is heard of."""
    ours: Sequence[str] = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    kept = {k: v for k, v in os.environ.items() if k not in ours and not k.startswith("FKD_")}
    return kept | {
        "FKD_HOME": str(folder / "home"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }

"""Source archives with wheels of both distributions."""

import subprocess
import sys
import tarfile
from pathlib import Path

from tools.wheels.environment import WheelError

ROOT = Path(__file__).parents[2]
PROJECTS = {"fkd": ROOT, "fkd-core": ROOT / "tools" / "library"}


def build(name: str, folder: Path) -> Path:
    """Return the wheel of a distribution; its source archive yields the same one."""
    _hatch(PROJECTS[name], folder)
    stem = name.replace("-", "_")
    (wheel,) = folder.glob(f"{stem}-*.whl")
    (source,) = folder.glob(f"{stem}-*.tar.gz")
    again = folder / f"{stem}-again"
    with tarfile.open(source) as archive:
        archive.extractall(again, filter="data")
    (unpacked,) = again.iterdir()
    _hatch(unpacked, again, "-t", "wheel")
    if (again / wheel.name).read_bytes() != wheel.read_bytes():
        raise WheelError(f"{source.name} must yield {wheel.name} as the tree does, but does not")
    return wheel


def _hatch(project: Path, folder: Path, *options: str) -> None:
    """Build a project with the packages at hand: nothing is fetched."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *options]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    if done.returncode:
        raise WheelError(f"hatchling could not build {project.name}:\n{done.stderr[-2000:]}")

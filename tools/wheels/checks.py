"""What each distribution must do where it alone is installed."""

import shutil
from pathlib import Path

from tools.wheels.build import ROOT
from tools.wheels.environment import Environment, WheelError
from tools.wheels.library_tests import files_needed, library_tests

# Our three with what they bring, in the versions of the lock.
LIBRARY = {"fkd-core", "numpy", "scipy", "scikit-learn"}
LIBRARY |= {"joblib", "cloudpickle", "threadpoolctl", "narwhals"}
_IMPORT_ALL = """
import importlib, pkgutil, fkd
import fkd.baselines
names = [m.name for m in pkgutil.walk_packages(fkd.__path__, "fkd.", onerror=lambda name: None)]
names.remove("fkd.baselines.network_training")  # needs PyTorch
for name in names:
    importlib.import_module(name)
print(len(names))
"""
_WORDS = "pip uninstall --yes fkd fkd-core"


def check_library(wheel: Path, environment: Environment) -> list[str]:
    """Return what was seen of the library: alone, then under its tests."""
    environment.install(str(wheel))
    if extra := environment.packages() - LIBRARY:
        raise WheelError(f"fkd-core must bring scikit-learn and no more, brought {sorted(extra)}")
    if environment.has("fkd"):
        raise WheelError("fkd-core must have no command, has fkd")
    modules, _ = environment.run("python", "-W", "error", "-c", _IMPORT_ALL)
    place, _ = environment.run("python", "-c", "import fkd; print(fkd.__path__[0])")
    if not (Path(place.strip()) / "py.typed").exists():
        raise WheelError("fkd-core must say that it is typed; it has no py.typed")
    environment.run("python", "-c", "from fkd.datasets import load_crimes; load_crimes()")
    environment.install(f"{wheel}[test]")
    seen = [f"fkd-core: {modules.strip()} modules imported with numpy, scipy, scikit-learn alone"]
    return [*seen, f"fkd-core: {_run_tests(environment)}"]


def _run_tests(environment: Environment) -> str:
    """Return how the library's tests end, away from the tree they come from."""
    there = environment.folder / "checked"
    (there / "tests").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", there)  # pytest's settings stand there
    for path in files_needed(ROOT / "tests"):
        copy = there / path.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    marks = "not slow and not stack and not slurm and not network"
    options = ("-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", "-m", marks)
    told, _ = environment.run("python", "-m", "pytest", *options, where=there)
    files = len(library_tests(ROOT / "tests"))
    return f"{files} files of tests, {told.strip().splitlines()[-1].strip('= ')}"


def check_application(wheel: Path, environment: Environment) -> list[str]:
    """Return what was seen of the application's command, from an empty folder."""
    environment.install(str(wheel))
    environment.run("python", "-m", "pip", "check")
    told, _ = environment.run("fkd", "--help")
    if "reproduce" not in told:
        raise WheelError(f"`fkd --help` must list the commands, printed:\n{told}")
    version, _ = environment.run("fkd", "--version")
    planned, _ = environment.run("fkd", "run", "--dry-run")
    if "crimes" not in planned:
        raise WheelError(f"`fkd run --dry-run` must plan the embedded data, printed:\n{planned}")
    return [f"fkd: `fkd --help`, `fkd --version` ({version.strip()}), `fkd run --dry-run` answer"]


def check_refusal(library: Path, application: Path, environment: Environment) -> list[str]:
    """Return what was seen where both are installed, which pip allows."""
    environment.install(str(library), "--no-deps")
    pip, _ = environment.run("python", "-m", "pip", "check")
    _, said = environment.run("python", "-c", "import fkd.measures", code=1)
    told, complained = environment.run("fkd", "--version", code=2)
    shown = " ".join((told + complained).split())  # a terminal's lines may be broken
    for words in (" ".join(said.split()), shown):
        if _WORDS not in words:
            raise WheelError(f"two distributions must be refused with the cure, but: {words}")
    environment.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", "fkd", "fkd-core")
    environment.install(str(application), "--no-deps")
    environment.run("fkd", "--version")
    return [f"both: pip says {pip.strip()!r}; import and command refuse; the cure they name cures"]

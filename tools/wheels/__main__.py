"""Build both distributions, try each in an empty environment, then both in one."""

import sys
import tempfile
from pathlib import Path

from tools.wheels.build import ROOT, build
from tools.wheels.checks import check_application, check_library, check_refusal
from tools.wheels.environment import Environment, WheelError


def main() -> int:
    """Return 0 if both do what they must, 1 if not."""
    lock = ROOT / "requirements-dev.lock"
    with tempfile.TemporaryDirectory(prefix="fkd-wheels-") as name:
        folder = Path(name)
        try:
            library, application = (build(n, folder / "dist") for n in ("fkd-core", "fkd"))
            print(f"built {library.name} and {application.name}, alike from tree and archive")
            alone = Environment.empty(_made(folder / "library"), lock)
            _tell(check_library(library, alone))
            whole = Environment.empty(_made(folder / "application"), lock)
            _tell(check_application(application, whole))
            _tell(check_refusal(library, application, whole))
        except WheelError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def _made(folder: Path) -> Path:
    """Return a folder, made."""
    folder.mkdir()
    return folder


def _tell(lines: list[str]) -> None:
    """Print what was seen."""
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())

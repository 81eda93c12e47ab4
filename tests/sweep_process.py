"""The command line as a process of its own, to be killed, stopped or waited for."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml
from server_process import clean_environment, seeded
from tracking_server import warm_mlflow

TESTS = Path(__file__).parent
PATIENCE = 600.0  # seconds for a run; a busy machine needs many

# The command line with one of our own jobs in place of the real one.
WITH_JOB = """
import sys
import flows.fitting, sweep_jobs
flows.fitting.run_job = getattr(sweep_jobs, sys.argv.pop(1))
from flows.cli import main
main()
"""


class Fkd:
    """One `fkd` command in its own session."""

    def __init__(self, home: Path, *words: str, job: str | None = None, **environment: str) -> None:
        own = ["-c", WITH_JOB, job] if job else ["-m", "flows.cli"]
        # To a file: a pipe that nobody reads would stop the process once it is full.
        self.log = home.parent / f"fkd-{time.monotonic_ns()}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, *own, *words],
                env={**clean_environment(home), "PYTHONPATH": str(TESTS), **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        """What the terminal has shown so far."""
        return self.log.read_text()

    def wait(self) -> int:
        """The exit code, once the command has ended."""
        return self.process.wait(PATIENCE)

    def wait_for(self, happened) -> None:
        """Return once something has happened; the command must not end before."""
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def kill(self) -> None:
        """End the driver alone, as no process can prepare for."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def fkd(home: Path, *words: str, **options: str) -> tuple[int, str]:
    """The exit code of a command with what the terminal showed."""
    run = Fkd(home, *words, **options)
    code = run.wait()
    return code, run.said


def warm_home(home: Path, base: Path) -> Path:
    """A home whose databases have their tables, which takes most of a first run's time."""
    seeded(home, base)
    warm_mlflow(home / "mlflow", base)
    return home


def write_config(config, folder: Path) -> str:
    """The path of a configuration as YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{config.name}.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    return str(path)


def records(home: Path) -> dict[Path, int]:
    """The records in the store, each with the inode that it was first written to."""
    found = (home / "store").glob("??/*.record")
    return {path: path.stat().st_ino for path in found}

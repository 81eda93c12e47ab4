"""Processes that share a server, and checks of what remains after them."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock

from tasks.servers.shared_server import ServerKind, answers

PATIENCE = 120.0  # seconds; a busy machine takes many for what takes one on an idle one

HOLD = """
import sys
from tasks.servers.shared_server import ServerKind, server_lease

with server_lease(ServerKind.loads(sys.argv[1])) as lease:
    print(lease.wait().url, flush=True)
    sys.stdin.read()
"""

RUN = """
import sys
from tasks.servers.prefect import prefect_server
from tasks.storage.settings import read_settings

with prefect_server(read_settings()) as url:
    from prefect import flow, task

    @task
    def one(i):
        return i

    @flow
    def toy(bad=False):
        if bad:
            raise ValueError("a fault of the toy")
        return sum(one(i) for i in range(3))

    toy()
    try:
        toy(bad=True)
    except ValueError:
        pass
    print(url, flush=True)
    sys.stdin.read()
"""


class Holder:
    """A process that holds a share until `leave` or `kill`."""

    def __init__(self, script: str, *arguments: str, home: Path, **environment: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            env={**clean_environment(home), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Holder":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        self.process.wait()
        assert left_after(self.home, PATIENCE) == []

    def url(self) -> str:
        """Return the address of the server as soon as it is known."""
        return self.process.stdout.readline().strip()

    def leave(self) -> str:
        """End the process normally and return its output."""
        _, noise = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, noise
        return noise

    def kill(self) -> None:
        """Kill the process."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def clean_environment(home: Path) -> dict[str, str]:
    """Return the environment without configured servers, with HOME and FKD_HOME of the test."""
    ours = ("PREFECT_", "MLFLOW_", "FKD_", "DASK_", "AWS_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return {**kept, "FKD_HOME": str(home), "HOME": str(home.parent / "user")}


def light_kind(folder: Path, **changes: object) -> ServerKind:
    """Return a server that starts quickly."""
    arguments = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "{port}")
    fields = {"title": "light", "folder": folder, "arguments": arguments, "health": "/"}
    return ServerKind(**{**fields, **changes})


def light_arguments(before: str) -> tuple[str, ...]:
    """Return the arguments of the light server, with statements before its start."""
    serve = "http.server.test(http.server.SimpleHTTPRequestHandler, "
    serve += "port=int(sys.argv[1]), bind='127.0.0.1')"
    script = f"import http.server, pathlib, signal, sys, time\n{before}\n{serve}"
    return (sys.executable, "-c", script, "{port}")


def processes_of(home: Path) -> list[psutil.Process]:
    """Return the processes with this home in their environment or command line."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.environ().values(), *process.cmdline()]
            dead = process.status() == psutil.STATUS_ZOMBIE
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if not dead and process.pid != os.getpid() and any(str(home) in word for word in words):
            found.append(process)
    return found


def left_after(home: Path, seconds: float) -> list[str]:
    """Return the processes that still run after some seconds."""
    deadline = time.monotonic() + seconds
    while (left := _described(processes_of(home))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def kill_for_good(pid: int) -> None:
    """Kill a process and wait until it has ended."""
    os.kill(pid, signal.SIGKILL)
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


def _described(processes: list[psutil.Process]) -> list[str]:
    """Return descriptions of the processes that exist."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            found.append(f"{process.pid} {process.ppid()} {process.status()} {process.cmdline()}")
    return found


def listening(home: Path) -> set[str]:
    """Return the addresses on which the processes of a home listen."""
    return {
        connection.laddr.ip
        for process in processes_of(home)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }


@cache
def cold_start(base: Path) -> dict[str, Any]:
    """Return the results of two simultaneous runs in an empty FKD_HOME, once per session."""
    with _template(base) as folder:
        file = folder / "cold.json"
        if not file.exists():
            file.write_text(json.dumps(_cold_start(folder / "cold" / "home")))
        found = json.loads(file.read_text())
    return {**found, "home": Path(found["home"]), "interfaces": set(found["interfaces"])}


def _cold_start(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"home": str(home)}
    with Holder(RUN, home=home) as first, Holder(RUN, home=home) as second:
        found["urls"] = [first.url(), second.url()]
        found["servers"] = [p.pid for p in processes_of(home) if "start" in p.cmdline()]
        found["interfaces"] = sorted(listening(home))
        root = found["urls"][0].removesuffix("/api")
        found["page"], found["ui"] = read(root), read(f"{root}/ui-settings")
        found["noise"] = [first.leave()]
        found["between"] = answers(f"{root}/api/health", timeout=PATIENCE)
        found["noise"].append(second.leave())
        found["left"] = left_after(home, 0)
    return found


@contextmanager
def _template(base: Path) -> Iterator[Path]:
    """Yield the folder that all test processes of a session share, with a lock."""
    folder = base.parent if base.name.startswith("popen-") else base
    with FileLock(folder / "template.lock"):
        yield folder


def read(url: str) -> str:
    """Return the text of a page."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as page:
        return page.read().decode()


def seeded(home: Path, base: Path, *, mlflow: bool = False) -> Path:
    """Return a home with databases that have their tables. Creating them takes ten seconds each."""
    (home / "prefect").mkdir(parents=True)
    # By SQLite: other processes may have the database open.
    name = Path("prefect", "prefect.db")
    with (
        closing(sqlite3.connect(cold_start(base)["home"] / name)) as cold,
        closing(sqlite3.connect(home / name)) as copy,
    ):
        cold.backup(copy)
    if mlflow:
        # Imported late: most users of this module need no MLflow.
        from tracking_server import warm_mlflow

        with _template(base) as folder:
            warm_mlflow(home / "mlflow", folder)
    return home

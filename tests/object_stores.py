"""Two real S3 servers on loopback that differ: rclone's knows secrets, moto's knows conditions."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 120.0  # seconds; a busy machine needs many
KEY, SECRET = "STOREKEYID", "a-secret-of-the-tests"
BUCKET = "shared"


def variables(endpoint, secret=SECRET):
    """The variables by which a process reaches a server."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
    }


@contextmanager
def rclone_server(folder):
    """Yield the address of a server that keeps objects as files of a folder."""
    (folder / BUCKET).mkdir(parents=True)
    port = free_port()
    words = ["serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}"]
    rclone = shutil.which("rclone", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    with _process([rclone, *words, str(folder)], port) as address:
        yield address


@contextmanager
def moto_server():
    """Yield the address of a server that keeps objects in its memory."""
    port = free_port()
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _process(words, port) as address:
        asked = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
        urllib.request.urlopen(asked).close()
        yield address


@contextmanager
def _process(words, port):
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **silent) as process:
        try:
            wait_listening(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(_PATIENCE)


def wait_listening(port, process):
    """Return once a process listens on a port of loopback."""
    deadline = time.monotonic() + _PATIENCE
    while not _listens(port):
        assert process.poll() is None, f"{process.args[0]} ended"
        assert time.monotonic() < deadline, f"{process.args[0]} does not listen"
        time.sleep(0.1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

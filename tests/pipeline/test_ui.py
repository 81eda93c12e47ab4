import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from server_process import (
    HOLD,
    PATIENCE,
    Holder,
    clean_environment,
    left_after,
    light_arguments,
    light_kind,
    listening,
    processes_of,
    read,
    seeded,
)

from flows.status import dask_page
from tasks.servers.shared_server import read_record
from tasks.storage.settings import Settings

pytestmark = pytest.mark.stack

# A server that answers every request.
ANSWER = """
def do_GET(self):
    self.send_response(200)
    self.send_header("Content-Length", "4")
    self.end_headers()
    self.wfile.write(b"true")
http.server.SimpleHTTPRequestHandler.do_GET = do_GET
"""


@pytest.fixture
def pages(tmp_path, tmp_path_factory):
    """Yield a home and the process of `fkd ui`, which is closed by Ctrl-C."""
    home = seeded(tmp_path / "home", tmp_path_factory.getbasetemp(), mlflow=True)
    with _ui(home) as process:
        yield home, process
        _close(process)
    assert left_after(home, 0) == []


def _ui(home, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "ui"],
        env={**clean_environment(home), **environment},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _close(process):
    # As a terminal does it: to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "servers are stopped" in rest
    assert "Traceback" not in rest


def _address(process, title):
    for line in process.stderr:
        if found := re.search(rf"{title} +(.*)", line):
            return found[1].strip()
    pytest.fail(f"no line about {title}")


def test_all_pages_open_on_loopback_and_close_with_ctrl_c(pages):
    home, process = pages
    prefect, mlflow = _address(process, "Prefect"), _address(process, "MLflow")
    assert "is shown here during a run" in _address(process, "Dask")
    assert "<html" in read(prefect).lower()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        read(mlflow)
    record = read_record(home / "mlflow" / "server")
    login = base64.b64encode(f"{record['user']}:{record['password']}".encode()).decode()
    request = urllib.request.Request(mlflow, headers={"Authorization": f"Basic {login}"})
    assert "<html" in read(request).lower()
    assert listening(home) == {"127.0.0.1"}
    # The page of a run that starts now is printed too.
    settings = Settings(home, None, None, None)
    page = {"dashboard": "http://127.0.0.1:1/status", "pid": os.getpid()}
    (settings.home / "dask.json").write_text(json.dumps(page))
    assert _address(process, "Dask") == page["dashboard"]


def test_configured_servers_are_used(tmp_path):
    kind = light_kind(tmp_path / "theirs" / "light", arguments=light_arguments(ANSWER))
    with Holder(HOLD, kind.dumps(), home=tmp_path / "theirs") as theirs:
        url = theirs.url()
        home = tmp_path / "ours"
        with _ui(home, PREFECT_API_URL=f"{url}/api", MLFLOW_TRACKING_URI=url) as process:
            assert _address(process, "Prefect") == url
            assert _address(process, "MLflow") == url
            assert [p.pid for p in processes_of(home)] == [process.pid]
            _close(process)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": 4194304, "dashboard": "x"}'])
def test_a_finished_run_has_no_dask_page(tmp_path, content):
    (tmp_path / "dask.json").write_text(content)
    assert dask_page(tmp_path / "dask.json") is None


def test_the_dask_page_of_a_run_is_found(tmp_path):
    record = {"dashboard": "http://127.0.0.1:8787/status", "pid": os.getpid()}
    (tmp_path / "dask.json").write_text(json.dumps(record))
    assert dask_page(tmp_path / "dask.json") == record["dashboard"]
    assert dask_page(tmp_path / "absent.json") is None

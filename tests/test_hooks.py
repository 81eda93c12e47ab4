import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from configs.schema import HookConfig
from tasks.adapters.hooks import tell

MESSAGE = {"name": "crimes", "state": "success", "trials": 3}


@pytest.fixture
def address():
    """A web address on loopback that keeps what it is sent; /broken answers 500."""

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.server.heard.append((self.headers["content-type"], json.loads(body)))
            self.send_response(500 if self.path == "/broken" else 204)
            self.end_headers()

        def log_message(self, *_):
            """Keep the terminal quiet."""

    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        server.heard = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", server.heard
        server.shutdown()
        thread.join()


def _python(script):
    return HookConfig(command=(sys.executable, "-c", script), timeout=60)


def test_without_a_hook_nothing_happens():
    assert tell(HookConfig(), MESSAGE) == ()


def test_a_command_gets_the_message_on_its_standard_input(tmp_path):
    out = tmp_path / "heard.json"
    script = f"import pathlib, sys; pathlib.Path({str(out)!r}).write_text(sys.stdin.read())"
    assert tell(_python(script), MESSAGE) == ()
    assert json.loads(out.read_text()) == MESSAGE


def test_a_web_address_gets_the_message_as_json(address):
    url, heard = address
    assert tell(HookConfig(webhook=url), MESSAGE) == ()
    assert heard == [("application/json", MESSAGE)]


def test_faults_of_hooks_are_told_not_raised(address):
    url, _ = address
    hook = HookConfig(command=("no-such-program",), webhook=f"{url}/broken")
    command, web = tell(hook, MESSAGE)
    assert "no-such-program" in command
    assert "500" in web


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import sys; sys.exit('the mail did not go')", "exit code 1 (the mail did not go)"),
        ("import sys; sys.exit(7)", "exit code 7 (no message)"),
    ],
)
def test_the_last_words_of_a_command_are_told(script, says):
    (problem,) = tell(_python(script), MESSAGE)
    assert says in problem


def test_a_command_that_hangs_is_given_up():
    hook = HookConfig(command=(sys.executable, "-c", "import time; time.sleep(600)"), timeout=0.5)
    (problem,) = tell(hook, MESSAGE)
    assert "timed out" in problem


def test_nobody_at_the_address_is_told(free_port):
    (problem,) = tell(HookConfig(webhook=f"http://127.0.0.1:{free_port}"), MESSAGE)
    assert str(free_port) in problem

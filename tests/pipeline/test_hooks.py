import errno
import json
import re
import socket
import sys
import threading
import traceback
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from configs.errors import UserError
from configs.load import load_config
from configs.run import HookConfig, HooksConfig, RunConfig, check_schedule_overrides
from flows.outcome import failure_hooks
from tasks.servers.hooks import call_hook, check_hooks

MESSAGE = {"name": "crimes", "state": "success", "trials": 3}


@pytest.fixture
def address():
    """Yield an address that records its requests, and the requests. /broken answers 500."""

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.server.requests.append((self.headers["content-type"], json.loads(body)))
            self.send_response(500 if self.path.startswith("/broken") else 204)
            self.end_headers()

        def log_message(self, *_):
            """Keep the terminal quiet."""

    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        server.requests = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", server.requests
        server.shutdown()
        thread.join()


@pytest.fixture
def trickling_address():
    """Yield an address whose answer never ends, one byte at a time."""
    stop = threading.Event()

    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            while not stop.wait(0.05):
                connection.send(b"H")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener])
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        stop.set()
        thread.join()


def _python(script):
    return HookConfig(command=(sys.executable, "-c", script), timeout=60)


def test_without_a_hook_nothing_happens():
    assert call_hook(HookConfig(), MESSAGE) == ()


def test_a_command_gets_the_message_on_its_standard_input(tmp_path):
    out = tmp_path / "requests.json"
    script = f"import pathlib, sys; pathlib.Path({str(out)!r}).write_text(sys.stdin.read())"
    assert call_hook(_python(script), MESSAGE) == ()
    assert json.loads(out.read_text()) == MESSAGE


def test_a_web_address_gets_the_message_as_json(address):
    url, requests = address
    assert call_hook(HookConfig(webhook=url), MESSAGE) == ()
    assert requests == [("application/json", MESSAGE)]


def test_failures_of_hooks_are_returned(address):
    url, _ = address
    hook = HookConfig(command=("no-such-program",), webhook=f"{url}/broken")
    command, web = call_hook(hook, MESSAGE)
    assert "no-such-program" in command
    assert "500" in web


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; sys.exit('the mail did not go')", "exit code 1 (the mail did not go)"),
        ("import sys; sys.exit(7)", "exit code 7 (no message)"),
    ],
)
def test_the_last_line_of_a_failed_command_is_returned(script, message):
    (problem,) = call_hook(_python(script), MESSAGE)
    assert message in problem


def test_a_hanging_command_times_out():
    hook = HookConfig(command=(sys.executable, "-c", "import time; time.sleep(600)"), timeout=0.5)
    (problem,) = call_hook(hook, MESSAGE)
    assert "timed out" in problem


def test_an_unreachable_address_is_a_failure(free_port):
    (problem,) = call_hook(HookConfig(webhook=f"http://127.0.0.1:{free_port}"), MESSAGE)
    assert str(free_port) in problem


TOKEN = "T0KEN-of-the-path"


def test_an_address_is_masked_when_it_is_written(address):
    url, requests = address
    hook = HookConfig(webhook=f"{url}/{TOKEN}?key={TOKEN}", command=("curl", f"{url}/{TOKEN}"))
    for written in (repr(hook), str(hook.model_dump()), hook.model_dump_json()):
        assert TOKEN not in written
    assert hook.model_dump()["webhook"] == f"{url}/***"
    assert hook.model_dump()["command"] == ["curl", f"{url}/***"]
    assert call_hook(hook.model_copy(update={"command": ()}), MESSAGE) == ()
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (
            "https://user:pass@hooks.example.org:8443/a/b?c=d#e",
            "https://hooks.example.org:8443/***",
        ),
        ("https://us:er@pass@example.org/a", "https://example.org/***"),
        ("https://user:pa/ss@example.org/a", "https://***"),
        ("HTTPS://example.org", "HTTPS://example.org/***"),
        ("http://[::1]:80/a", "http://[::1]:80/***"),
        ("env:HOOK", "env:HOOK"),
        ("file:~/hook", "file:~/hook"),
    ],
)
def test_only_the_host_of_an_address_is_written(given, written):
    hook = HookConfig(webhook=given)
    assert hook.model_dump()["webhook"] == written
    assert HookConfig(**hook.model_dump()).model_dump() == hook.model_dump()


@pytest.mark.parametrize("kind", ["env", "file"])
def test_a_secret_may_be_in_a_variable_or_a_file(kind, address, tmp_path, monkeypatch):
    url, requests = address
    monkeypatch.setenv("HOOK", f"{url}/{TOKEN}")
    (tmp_path / "hook").write_text(f"{url}/{TOKEN}\n")
    given = "env:HOOK" if kind == "env" else f"file:{tmp_path / 'hook'}"
    out = tmp_path / "words"
    script = f"import pathlib, sys; pathlib.Path({str(out)!r}).write_text(sys.argv[1])"
    hook = HookConfig(command=(sys.executable, "-c", script, given), webhook=given, timeout=60)
    check_hooks(HooksConfig(on_failure=hook))
    assert call_hook(hook, MESSAGE) == ()
    assert requests == [("application/json", MESSAGE)]
    assert out.read_text() == f"{url}/{TOKEN}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("env:NOT_THERE", "variable NOT_THERE is not set"),
        ("file:/not/there", "the file /not/there cannot be read"),
        ("env:EMPTY", "empty"),
        ("https://hooks.example.org/***", "env:NAME or file:PATH"),
    ],
)
def test_an_unreadable_secret_is_refused(given, message, monkeypatch):
    monkeypatch.setenv("EMPTY", " ")
    hook = HookConfig(webhook=given)
    with pytest.raises(UserError, match=rf"hooks\.on_failure\.webhook: .*{re.escape(message)}"):
        check_hooks(HooksConfig(on_failure=hook))
    (problem,) = call_hook(hook, MESSAGE)
    assert message in problem


def test_a_masked_address_is_not_called(address):
    url, requests = address
    read_back = HookConfig(**HookConfig(webhook=f"{url}/{TOKEN}").model_dump())
    (problem,) = call_hook(read_back, MESSAGE)
    assert "masked" in problem
    assert requests == []


@pytest.mark.parametrize(
    "hook",
    [
        {"webhook": "{url}/broken/" + TOKEN},
        {"webhook": "http://127.0.0.1:1/" + TOKEN},
        {"webhook": "http://127.0.0.1:99999/" + TOKEN},
        {"webhook": "http://[bad/" + TOKEN},
        {"command": ("no-such-program", TOKEN)},
        {"command": (sys.executable, "-c", "import time; time.sleep(9)", "{url}/" + TOKEN)},
        {"command": (sys.executable, "-c", "import sys; sys.exit(sys.argv[1])", "{url}/" + TOKEN)},
        {"command": (sys.executable, "-c", "import sys; sys.exit(sys.argv[1])", "env:HOOK_WORD")},
    ],
)
def test_failures_do_not_contain_secrets(hook, address, monkeypatch):
    url, _ = address
    monkeypatch.setenv("HOOK_WORD", TOKEN)
    fill = {
        key: value.replace("{url}", url)
        if isinstance(value, str)
        else tuple(word.replace("{url}", url) for word in value)
        for key, value in hook.items()
    }
    (problem,) = call_hook(HookConfig(**fill, timeout=1.5), MESSAGE)
    assert "failed: " in problem
    assert TOKEN not in problem


def test_an_endless_answer_times_out(trickling_address):
    (problem,) = call_hook(HookConfig(webhook=trickling_address, timeout=0.7), MESSAGE)
    assert "no whole answer within 0.7 s" in problem


def test_messages_hold_no_credentials(address):
    url, requests = address
    failure = {"problem": "postgresql://us:hidden@db/x and http://us:hidden@h:1/api are silent"}
    assert call_hook(HookConfig(webhook=url), failure) == ()
    assert requests[0][1] == {"problem": "postgresql://db/x and http://h:1/api are silent"}


@pytest.mark.parametrize(
    "hooks",
    [
        f"{{on_failure: {{webhook: 'htps://example.org/{TOKEN}'}}}}",
        f"{{on_failure: 'https://example.org/{TOKEN}'}}",
        f"{{on_failure: {{webhook: ['https://example.org/{TOKEN}']}}}}",
        f"{{on_failure: {{webhook: 'https://example.org/{TOKEN}', tmeout: 3}}}}",
        f"{{on_failure: {{command: 'curl https://example.org/{TOKEN}'}}}}",
        f"[https://example.org/{TOKEN}",
    ],
)
def test_a_fault_of_the_configuration_does_not_repeat_the_secret(hooks, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(f"methods: [dummy]\nhooks: {hooks}\n")
    with pytest.raises(UserError) as caught:
        load_config(file)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


def test_a_schedule_refuses_addresses_in_overrides():
    check_schedule_overrides(["hooks.on_failure.webhook=env:HOOK", "folds.k=3"])
    with pytest.raises(UserError, match=r"hooks\.on_failure\.webhook") as caught:
        check_schedule_overrides([f"hooks.on_failure.webhook=https://example.org/{TOKEN}"])
    assert TOKEN not in str(caught.value)


def _config(**hooks):
    return RunConfig(methods=["dummy"], hooks=HooksConfig(**hooks))


@pytest.mark.parametrize(
    ("error", "state", "problem"),
    [
        (UserError("the mirror is away."), "failure", "the mirror is away."),
        (ZeroDivisionError("a slip"), "failure", "fkd failed with ZeroDivisionError: a slip."),
        (OSError(errno.ENOSPC, "No space left on device"), "failure", "No space left"),
        (KeyboardInterrupt(), "stopped", "stopped by a signal"),
    ],
)
def test_hooks_of_failure_are_called_for_every_kind_of_end(error, state, problem, address):
    url, requests = address
    config = _config(on_failure=HookConfig(webhook=url), on_success=HookConfig(webhook=url))
    with pytest.raises(type(error)), failure_hooks([config]):
        raise error
    ((_, message),) = requests
    assert message["name"] == "run"
    assert message["state"] == state
    assert problem in message["problem"]


def test_a_literal_webhook_is_a_warning(address, capsys):
    url, _ = address
    with failure_hooks([_config(on_failure=HookConfig(webhook=f"{url}/{TOKEN}"))]):
        pass
    printed = capsys.readouterr().err
    assert "hooks.on_failure.webhook" in printed
    assert "env:NAME or file:PATH" in printed
    assert TOKEN not in printed

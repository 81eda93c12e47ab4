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
from configs.hooks import HookConfig, HooksConfig, refuse_kept_addresses
from configs.load import load_config
from configs.run import RunConfig
from flows.outcome import failure_hooks
from tasks.servers.hooks import check_hooks, tell

MESSAGE = {"name": "crimes", "state": "success", "trials": 3}


@pytest.fixture
def address():
    """A web address on loopback that keeps what it is sent; /broken answers 500."""

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            self.server.heard.append((self.headers["content-type"], json.loads(body)))
            self.send_response(500 if self.path.startswith("/broken") else 204)
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


@pytest.fixture
def trickling_address():
    """A web address whose answer never ends, one byte at a time."""
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


TOKEN = "T0KEN-of-the-path"


def test_an_address_is_called_as_given_but_written_as_its_host_only(address):
    url, heard = address
    hook = HookConfig(webhook=f"{url}/{TOKEN}?key={TOKEN}", command=("curl", f"{url}/{TOKEN}"))
    for written in (repr(hook), str(hook.model_dump()), hook.model_dump_json()):
        assert TOKEN not in written
    assert hook.model_dump()["webhook"] == f"{url}/***"
    assert hook.model_dump()["command"] == ["curl", f"{url}/***"]
    assert tell(hook.model_copy(update={"command": ()}), MESSAGE) == ()
    assert len(heard) == 1


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
def test_no_part_of_an_address_but_its_host_is_written(given, written):
    hook = HookConfig(webhook=given)
    assert hook.model_dump()["webhook"] == written
    assert HookConfig(**hook.model_dump()).model_dump() == hook.model_dump()


@pytest.mark.parametrize("kind", ["env", "file"])
def test_the_secret_may_stand_in_a_variable_or_a_file(kind, address, tmp_path, monkeypatch):
    url, heard = address
    monkeypatch.setenv("HOOK", f"{url}/{TOKEN}")
    (tmp_path / "hook").write_text(f"{url}/{TOKEN}\n")
    given = "env:HOOK" if kind == "env" else f"file:{tmp_path / 'hook'}"
    out = tmp_path / "words"
    script = f"import pathlib, sys; pathlib.Path({str(out)!r}).write_text(sys.argv[1])"
    hook = HookConfig(command=(sys.executable, "-c", script, given), webhook=given, timeout=60)
    check_hooks(HooksConfig(on_failure=hook))
    assert tell(hook, MESSAGE) == ()
    assert heard == [("application/json", MESSAGE)]
    assert out.read_text() == f"{url}/{TOKEN}"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("env:NOT_THERE", "variable NOT_THERE is not set"),
        ("file:/not/there", "the file /not/there cannot be read"),
        ("env:EMPTY", "empty"),
        ("https://hooks.example.org/***", "give it again as env:NAME or file:PATH"),
    ],
)
def test_what_cannot_be_called_is_refused_before_any_work(given, says, monkeypatch):
    monkeypatch.setenv("EMPTY", " ")
    hook = HookConfig(webhook=given)
    with pytest.raises(UserError, match=rf"hooks\.on_failure\.webhook: .*{re.escape(says)}"):
        check_hooks(HooksConfig(on_failure=hook))
    (problem,) = tell(hook, MESSAGE)
    assert says in problem


def test_an_address_read_back_from_a_written_configuration_is_never_called(address):
    url, heard = address
    read_back = HookConfig(**HookConfig(webhook=f"{url}/{TOKEN}").model_dump())
    (problem,) = tell(read_back, MESSAGE)
    assert "when a configuration is written out" in problem
    assert heard == []


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
def test_no_fault_of_a_hook_tells_its_secret(hook, address, monkeypatch):
    url, _ = address
    monkeypatch.setenv("HOOK_WORD", TOKEN)
    fill = {
        key: value.replace("{url}", url)
        if isinstance(value, str)
        else tuple(word.replace("{url}", url) for word in value)
        for key, value in hook.items()
    }
    (problem,) = tell(HookConfig(**fill, timeout=1.5), MESSAGE)
    assert "failed: " in problem
    assert TOKEN not in problem


def test_an_answer_byte_by_byte_is_given_up(trickling_address):
    (problem,) = tell(HookConfig(webhook=trickling_address, timeout=0.7), MESSAGE)
    assert "no whole answer within 0.7 s" in problem


def test_messages_hold_no_credentials(address):
    url, heard = address
    told = {"problem": "postgresql://us:hidden@db/x and http://us:hidden@h:1/api are silent"}
    assert tell(HookConfig(webhook=url), told) == ()
    assert heard[0][1] == {"problem": "postgresql://db/x and http://h:1/api are silent"}


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


def test_a_schedule_keeps_no_address_in_its_parameters():
    refuse_kept_addresses(["hooks.on_failure.webhook=env:HOOK", "folds.k=3"])
    with pytest.raises(UserError, match="kept in Prefect's database") as caught:
        refuse_kept_addresses([f"hooks.on_failure.webhook=https://example.org/{TOKEN}"])
    assert TOKEN not in str(caught.value)


def _config(**hooks):
    return RunConfig(methods=["dummy"], hooks=HooksConfig(**hooks))


@pytest.mark.parametrize(
    ("error", "state", "says"),
    [
        (UserError("the mirror is away."), "failure", "the mirror is away."),
        (ZeroDivisionError("a slip"), "failure", "fkd failed with ZeroDivisionError: a slip."),
        (OSError(errno.ENOSPC, "No space left on device"), "failure", "No space left"),
        (KeyboardInterrupt(), "stopped", "stopped by a signal"),
    ],
)
def test_whatever_ends_a_run_is_told_to_the_hooks_of_failure(error, state, says, address):
    url, heard = address
    config = _config(on_failure=HookConfig(webhook=url), on_success=HookConfig(webhook=url))
    with pytest.raises(type(error)), failure_hooks([config]):
        raise error
    ((_, message),) = heard
    assert message["name"] == "run"
    assert message["state"] == state
    assert says in message["problem"]


def test_a_literal_webhook_gets_an_advice(address, capsys):
    url, _ = address
    with failure_hooks([_config(on_failure=HookConfig(webhook=f"{url}/{TOKEN}"))]):
        pass
    said = capsys.readouterr().err
    assert "hooks.on_failure.webhook" in said
    assert "env:NAME or file:PATH" in said
    assert TOKEN not in said

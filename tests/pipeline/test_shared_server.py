"""A server that processes share: leases, the keeper, the password, kills."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
from server_process import (
    HOLD,
    PATIENCE,
    Holder,
    kill_for_good,
    left_after,
    light_arguments,
    light_kind,
    listening,
    processes_of,
)

from configs.errors import UserError
from tasks.servers.shared_server import ServerKind, answers, free_port, read_record, server_lease

pytestmark = pytest.mark.stack


def _hold(home):
    return Holder(HOLD, light_kind(home / "light").dumps(), home=home)


def _keeper_and_server(home):
    server = json.loads((home / "light" / "server.json").read_text())["pid"]
    (keeper,) = [p.pid for p in processes_of(home) if "tasks.servers.shared_server" in p.cmdline()]
    return keeper, server


def test_two_processes_share_a_server_that_outlives_the_first(tmp_path):
    with _hold(tmp_path) as first, _hold(tmp_path) as second:
        assert first.url() == (url := second.url())
        first.leave()
        assert answers(url, timeout=PATIENCE)
        second.leave()
        assert left_after(tmp_path, 0) == []


def test_the_last_process_removes_the_record(tmp_path):
    with server_lease(light_kind(tmp_path)) as lease:
        assert lease.wait().url == read_record(tmp_path)["url"]
    assert read_record(tmp_path) == {}


def test_a_server_starts_in_the_background(tmp_path):
    with server_lease(light_kind(tmp_path)) as lease:
        lease.start()
        assert answers(lease.wait().url, timeout=PATIENCE)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"url": "http://127.0.0.1:9"}'])
def test_a_stale_record_is_ignored(tmp_path, content):
    (tmp_path / "server.json").write_text(content)
    with server_lease(light_kind(tmp_path)) as lease:
        assert answers(lease.wait().url, timeout=PATIENCE)


def test_the_record_of_another_server_is_ignored(tmp_path):
    other = tmp_path / "other"
    with server_lease(light_kind(other)) as theirs:
        (tmp_path / "ours").mkdir()
        (tmp_path / "ours" / "server.json").write_text(
            json.dumps({"url": theirs.wait().url, "password": "x"})
        )
        with server_lease(light_kind(tmp_path / "ours")) as ours:
            assert ours.wait().url != theirs.wait().url


def test_a_server_on_another_machine_is_an_error(tmp_path):
    with _hold(tmp_path) as holder:
        holder.url()
        record = tmp_path / "light" / "server.json"
        record.write_text(record.read_text().replace(socket.gethostname(), "elsewhere"))
        with (
            pytest.raises(UserError, match="runs on elsewhere"),
            server_lease(light_kind(tmp_path / "light")) as lease,
        ):
            lease.wait()


def test_a_killed_holder_leaves_no_server(tmp_path):
    with _hold(tmp_path) as holder:
        holder.url()
        holder.kill()
        assert left_after(tmp_path, PATIENCE) == []


def test_a_crashed_server_restarts_at_its_address(tmp_path):
    with _hold(tmp_path) as holder:
        url = holder.url()
        os.kill(_keeper_and_server(tmp_path)[1], signal.SIGKILL)
        with server_lease(light_kind(tmp_path / "light")) as lease:
            assert lease.wait().url == url


def test_a_killed_keeper_ends_its_server_and_is_replaced(tmp_path):
    with _hold(tmp_path) as holder:
        holder.url()
        keeper, server = _keeper_and_server(tmp_path)
        kill_for_good(keeper)
        with server_lease(light_kind(tmp_path / "light")) as lease:
            assert answers(lease.wait().url, timeout=PATIENCE)
            assert server not in {p.pid for p in processes_of(tmp_path)}


def test_a_process_that_arrives_during_the_stop_gets_a_new_server(tmp_path):
    slow = "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit(0)))"
    kind = light_kind(tmp_path / "light", arguments=light_arguments(slow))
    with Holder(HOLD, kind.dumps(), home=tmp_path) as first:
        first.url()
        server = _keeper_and_server(tmp_path)[1]
        first.kill()
        time.sleep(0.5)
        with Holder(HOLD, kind.dumps(), home=tmp_path) as second:
            assert answers(second.url(), timeout=PATIENCE)
            assert _keeper_and_server(tmp_path)[1] != server


def test_the_error_of_a_failed_start_quotes_the_log(tmp_path):
    kind = light_kind(
        tmp_path, arguments=(sys.executable, "-c", "raise SystemExit('no such disk')")
    )
    with (
        pytest.raises(UserError, match=r"light server did not start: .*no such disk.*server\.log"),
        server_lease(kind) as lease,
    ):
        lease.wait()


def test_a_folder_named_tasks_in_the_working_directory_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").write_text("raise RuntimeError('not ours')")
    monkeypatch.chdir(tmp_path)
    with server_lease(light_kind(tmp_path / "light")) as lease:
        assert answers(lease.wait().url, timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_processes_do_not_stop_the_server_of_another(tmp_path, seed):
    moments = random.Random(seed)
    with _hold(tmp_path) as witness:
        url = witness.url()
        for _ in range(8):
            with Holder(HOLD, light_kind(tmp_path / "light").dumps(), home=tmp_path / "x") as one:
                time.sleep(moments.uniform(0.0, 0.6))
                one.kill()
            assert answers(url, timeout=PATIENCE)
        witness.leave()
        assert left_after(tmp_path, 0) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_holder_killed_at_any_moment_of_the_start_leaves_nothing(tmp_path, seed):
    with _hold(tmp_path) as holder:
        time.sleep(random.Random(seed).uniform(0.0, 1.5))
        holder.kill()
        assert left_after(tmp_path, PATIENCE) == []
    with _hold(tmp_path) as after:
        assert answers(after.url(), timeout=PATIENCE)


def _run_keeper(kind):
    kind.folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, "-m", "tasks.servers.shared_server", kind.dumps()])


def test_a_keeper_without_leases_ends_at_once(tmp_path):
    assert _run_keeper(light_kind(tmp_path)).wait(PATIENCE) == 0
    assert not (tmp_path / "server.json").exists()


def test_each_start_has_a_new_password_in_a_private_file(tmp_path):
    passwords = set()
    for _ in range(2):
        with Holder(HOLD, light_kind(tmp_path / "light").dumps(), home=tmp_path) as holder:
            holder.url()
            record = tmp_path / "light" / "server.json"
            assert record.stat().st_mode & 0o777 == 0o600
            password = read_record(record.parent)["password"]
            assert len(password) >= 20
            for process in processes_of(tmp_path):
                assert password not in " ".join(process.cmdline())
            passwords.add(password)
            holder.leave()
    assert len(passwords) == 2


def test_port_and_password_are_in_the_environment_of_the_server(tmp_path):
    show = "pathlib.Path('seen').write_text(os.environ['SECRET'] + ' ' + os.environ['PORT'])"
    kind = light_kind(
        tmp_path / "light",
        arguments=light_arguments(f"import os; {show}"),
        environment={"SECRET": "fkd:{password}", "PORT": "{port}"},
    )
    with Holder(HOLD, kind.dumps(), home=tmp_path) as holder:
        port = holder.url().rpartition(":")[2]
        password = read_record(kind.folder)["password"]
        assert (kind.folder / "seen").read_text() == f"fkd:{password} {port}"


def test_files_of_the_last_start_are_removed(tmp_path):
    kind = light_kind(tmp_path / "light", fresh=("users.db",))
    kind.folder.mkdir()
    (kind.folder / "users.db").touch()
    with server_lease(kind) as lease:
        lease.wait()
        assert not (kind.folder / "users.db").exists()


def test_a_second_keeper_leaves_the_first_alone(tmp_path):
    folder = tmp_path / "light"
    with Holder(HOLD, light_kind(folder).dumps(), home=tmp_path) as holder:
        url = holder.url()
        assert _run_keeper(light_kind(folder)).wait(PATIENCE) == 0
        assert answers(url, timeout=PATIENCE)


def test_a_taken_port_is_replaced(tmp_path):
    kind = light_kind(
        tmp_path / "light",
        arguments=light_arguments(
            "marker = pathlib.Path('tried')\n"
            "if not marker.exists():\n"
            "    marker.touch()\n"
            "    sys.exit('port already in use')"
        ),
    )
    with Holder(HOLD, kind.dumps(), home=tmp_path) as holder:
        assert answers(holder.url(), timeout=PATIENCE)


def test_a_server_listens_on_loopback_only(tmp_path):
    with Holder(HOLD, light_kind(tmp_path / "light").dumps(), home=tmp_path) as holder:
        holder.url()
        assert listening(tmp_path) == {"127.0.0.1"}


def test_a_pinned_server_gets_all_cores_once_it_is_ready(tmp_path):
    kind = light_kind(tmp_path / "light", pinned=True)
    with Holder(HOLD, kind.dumps(), home=tmp_path) as holder:
        holder.url()
        pid = json.loads((tmp_path / "light" / "server.json").read_text())["pid"]
        assert psutil.Process(pid).cpu_affinity() == psutil.Process().cpu_affinity()


def test_a_terminated_keeper_stops_its_server(tmp_path):
    kind = light_kind(tmp_path / "light")
    with Holder(HOLD, kind.dumps(), home=tmp_path) as holder:
        holder.url()
        keeper, server = map(psutil.Process, _keeper_and_server(tmp_path))
        keeper.send_signal(signal.SIGTERM)
        gone, _ = psutil.wait_procs([server], timeout=PATIENCE)
        assert gone == [server]
    assert left_after(tmp_path, PATIENCE) == []


def test_a_server_that_ignores_sigterm_is_killed(tmp_path):
    deaf = light_arguments("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    kind = light_kind(tmp_path / "light", arguments=deaf)
    with Holder(HOLD, kind.dumps(), home=tmp_path) as holder:
        holder.url()
        holder.leave()
        assert left_after(tmp_path, 0) == []


def test_a_declaration_survives_json(tmp_path):
    kind = light_kind(tmp_path, arguments=["a"], environment={"A": "{port}"}, fresh=["a"])
    assert ServerKind.loads(kind.dumps()) == kind


def test_a_free_port_can_be_bound_on_loopback():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free_port()))


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "nonsense", "http://"])
def test_an_unused_address_does_not_answer(url):
    assert not answers(url)


def test_health_requests_use_no_proxy(tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Holder(HOLD, light_kind(tmp_path / "light").dumps(), home=tmp_path) as holder:
        assert answers(holder.url(), timeout=PATIENCE)

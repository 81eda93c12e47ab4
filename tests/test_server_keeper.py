import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from server_process import (
    HOLD,
    PATIENCE,
    Holder,
    left_after,
    light_arguments,
    light_kind,
    listening,
)

from tasks.servers.keeper import SHARED, answers, keep, locked, open_lock

pytestmark = pytest.mark.stack


def _keep(kind):
    with open_lock(kind.folder / "keeper") as keeper, open_lock(kind.folder / "lease") as lease:
        return keep(kind, keeper, lease)


def test_a_keeper_without_anybody_to_serve_ends_at_once(tmp_path):
    assert _keep(light_kind(tmp_path)) == 0
    assert not (tmp_path / "server.json").exists()


def test_a_second_keeper_leaves_the_first_alone(tmp_path):
    folder = tmp_path / "light"
    with Holder(HOLD, light_kind(folder).dumps(), home=tmp_path) as holder:
        url = holder.url()
        assert _keep(light_kind(folder)) == 0
        assert answers(url, timeout=PATIENCE)


def test_a_server_that_never_starts_is_given_up(tmp_path):
    kind = light_kind(tmp_path, arguments=(sys.executable, "-c", "raise SystemExit(3)"))
    with locked(tmp_path / "lease", SHARED):
        assert _keep(kind) == 1


def test_a_port_taken_in_the_last_moment_does_not_matter(tmp_path):
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


def test_a_pinned_server_gets_all_cores_back_once_it_serves(tmp_path):
    kind = light_kind(tmp_path / "light", pinned=True)
    with Holder(HOLD, kind.dumps(), home=tmp_path) as holder:
        holder.url()
        pid = json.loads((tmp_path / "light" / "server.json").read_text())["pid"]
        assert psutil.Process(pid).cpu_affinity() == psutil.Process().cpu_affinity()


def test_a_keeper_that_is_asked_to_end_takes_its_server_along(tmp_path):
    kind = light_kind(tmp_path / "light")
    kind.folder.mkdir()
    with locked(kind.folder / "lease", SHARED):
        keeper = subprocess.Popen([sys.executable, "-m", "tasks.servers.keeper", kind.dumps()])
        while not (kind.folder / "server.json").exists():
            assert keeper.poll() is None
        os.kill(keeper.pid, signal.SIGTERM)
        assert keeper.wait(PATIENCE) == 0
    assert left_after(tmp_path, PATIENCE) == []


def test_a_server_deaf_to_polite_signals_is_stopped_all_the_same(tmp_path):
    deaf = light_arguments("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    kind = light_kind(tmp_path / "light", arguments=deaf)
    with Holder(HOLD, kind.dumps(), home=tmp_path) as holder:
        holder.url()
        holder.leave()
        assert left_after(tmp_path, 0) == []

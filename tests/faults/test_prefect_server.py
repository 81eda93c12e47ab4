import base64
import os
import random
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from server_process import (
    HOLD,
    PATIENCE,
    RUN,
    Holder,
    clean_environment,
    cold_start,
    left_after,
    light_arguments,
    light_kind,
    processes_of,
    seeded,
)
from soak_figures import keep

from configs.errors import UserError
from tasks.servers.servers import prefect_kind, prefect_server
from tasks.servers.shared_server import answers, read_record
from tasks.storage.settings import Settings

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    return cold_start(tmp_path_factory.getbasetemp())


@pytest.fixture
def home(tmp_path, tmp_path_factory):
    return seeded(tmp_path / "home", tmp_path_factory.getbasetemp())


def _rows(home, query):
    with sqlite3.connect(home / "prefect" / "prefect.db") as database:
        rows = database.execute(query).fetchall()
    database.close()
    return rows


def test_two_runs_on_a_fresh_home_share_one_server(fresh):
    assert len(set(fresh["urls"])) == 1
    assert len(fresh["servers"]) == 1


def test_the_server_stops_with_the_last_run(fresh):
    assert fresh["between"]
    assert fresh["left"] == []


def test_the_server_listens_on_loopback_only(fresh):
    assert fresh["interfaces"] == {"127.0.0.1"}


def test_the_pages_of_the_server_use_its_api(fresh):
    assert "<html" in fresh["page"].lower()
    assert fresh["urls"][0] in fresh["ui"]


def test_runs_write_nothing_to_the_terminal_even_if_a_flow_fails(fresh):
    assert fresh["noise"] == ["", ""]


def test_all_states_and_logs_are_recorded_before_the_server_stops(fresh):
    flows = _rows(fresh["home"], "select state_type, count(*) from flow_run group by 1")
    tasks = _rows(fresh["home"], "select state_type, count(*) from task_run group by 1")
    assert sorted(flows) == [("COMPLETED", 2), ("FAILED", 2)]
    assert tasks == [("COMPLETED", 6)]
    query = "select count(*) from log where message like '%a fault of the toy%'"
    assert _rows(fresh["home"], query)[0][0] >= 2


def test_nothing_is_written_to_the_users_home(fresh):
    assert not (fresh["home"].parent / "user").exists()


def test_the_api_needs_the_password(home):
    with Holder(RUN, home=home) as run:
        api = run.url()
        password = read_record(home / "prefect")["password"]
        for credentials, status in ((None, 401), ("fkd:wrong", 401), (f"fkd:{password}", 200)):
            request = urllib.request.Request(
                f"{api}/flow_runs/filter",
                data=b"{}",
                headers={"Content-Type": "application/json", **_basic(credentials)},
            )
            assert _status(request) == status
        run.leave()


def _basic(credentials):
    if credentials is None:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}


def _status(request):
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_killed_run_leaves_no_server(home):
    with Holder(RUN, home=home) as run:
        assert answers(f"{run.url()}/health", timeout=PATIENCE)
        run.kill()
        assert left_after(home, PATIENCE) == []


_BEATS = """
from prefect.settings import get_current_settings
from tasks.servers.servers import prefect_server
from tasks.storage.settings import read_settings
with prefect_server(read_settings()):
    print(get_current_settings().flows.heartbeat_frequency)
"""


@pytest.mark.parametrize(
    ("named", "beats"),
    [
        ({}, "None"),
        ({"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "45"}, "45"),
        ({"PREFECT_RUNNER_HEARTBEAT_FREQUENCY": "46"}, "46"),
    ],
)
def test_heartbeats_are_off_unless_the_user_sets_them(home, named, beats):
    done = subprocess.run(
        [sys.executable, "-c", _BEATS],
        env={**clean_environment(home), **named},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout.strip() == beats, done.stderr


def test_an_unreachable_configured_server_is_an_error(settings):
    named = replace(settings, prefect_api_url="http://127.0.0.1:9/api")
    with (
        pytest.raises(UserError, match=r"http://127.0.0.1:9/api does not answer.*unset"),
        prefect_server(named),
    ):
        pytest.fail("connected to nothing")
    assert "PREFECT_API_URL" not in os.environ


def test_a_configured_server_that_refuses_credentials_is_an_error(tmp_path, settings):
    closed = """
def do_GET(self):
    self.send_response(200 if self.path.endswith("/health") else 401)
    self.send_header("Content-Length", "4")
    self.end_headers()
    self.wfile.write(b"true")
http.server.SimpleHTTPRequestHandler.do_GET = do_GET
"""
    arguments = light_arguments(closed)
    kind = light_kind(tmp_path / "closed" / "light", arguments=arguments, health="/health")
    with Holder(HOLD, kind.dumps(), home=tmp_path / "closed") as theirs:
        named = replace(settings, prefect_api_url=f"{theirs.url()}/api")
        with (
            pytest.raises(UserError, match=r"\(401\).*PREFECT_API_AUTH_STRING"),
            prefect_server(named),
        ):
            pytest.fail("admitted without credentials")


def test_a_server_of_a_profile_is_used(tmp_path):
    profiles = tmp_path / "user" / ".prefect" / "profiles.toml"
    profiles.parent.mkdir(parents=True)
    profiles.write_text(
        'active = "team"\n[profiles.team]\nPREFECT_API_URL = "http://127.0.0.1:9/team/api"\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env=clean_environment(tmp_path / "home"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "http://127.0.0.1:9/team/api does not answer" in done.stderr
    assert processes_of(tmp_path) == []


def test_a_read_only_home_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match="FKD_HOME"),
        prefect_server(Settings(tmp_path / "file" / "home", None, None, None)),
    ):
        pytest.fail("a folder inside a file")


def test_a_configured_database_is_used(settings, monkeypatch):
    name = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
    assert str(settings.prefect) in prefect_kind(settings).environment[name]
    monkeypatch.setenv(name, "postgresql+asyncpg://x")
    assert name not in prefect_kind(settings).environment


@pytest.mark.slow
def test_eight_runs_at_once_share_one_server_without_an_error(home):
    before = _rows(home, "select count(*) from flow_run")[0][0]
    runs = [Holder(RUN, home=home) for _ in range(8)]
    try:
        assert len({run.url() for run in runs}) == 1
        assert {run.leave() for run in runs} == {""}
    finally:
        for run in runs:
            with run:
                pass
    recorded = _rows(home, "select count(*) from flow_run")[0][0] - before
    assert recorded == 16
    keep("F8", "eight runs on one Prefect server", runs=len(runs), flows=16, recorded=recorded)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_run_killed_at_any_moment_leaves_no_process(home, seed):
    with Holder(RUN, home=home) as run:
        time.sleep(random.Random(seed).uniform(0.0, 15.0))
        run.kill()
        killed = time.monotonic()
        assert left_after(home, PATIENCE) == []
        seconds = round(time.monotonic() - killed, 1)
    with Holder(RUN, home=home) as after:
        assert answers(f"{after.url()}/health", timeout=PATIENCE)
    keep("F2", f"flow killed, {seed + 1:02}", kills=1, seconds_until_no_process=seconds)

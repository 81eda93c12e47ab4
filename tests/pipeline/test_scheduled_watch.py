"""`fkd watch --every` as a user starts it: its deployment, and a look that crosses a limit."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from flow_stages import run_stages
from mlflow.tracking import MlflowClient
from prefect_api import (
    PATIENCE,
    api_of,
    ask,
    deployment,
    ended_run,
    lines_with,
    runs_of,
    wait_until,
)
from server_process import clean_environment, left_after, seeded
from watch_sample import write_month, write_wages

from configs.load import load_config
from flows.cli import main
from tasks.storage.settings import Settings
from tasks.track.client import tracking_uri

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

QUICK_SERVER = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "1",
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "1",
    "PREFECT_RUNNER_POLL_FREQUENCY": "1",
}


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A folder with a home whose champion serves, and a month that it does not fit."""
    # Made elsewhere: helpers of this process that begin meanwhile are no leftovers of the office.
    made, folder = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("office")
    source = write_wages(made)
    home = seeded(made / "home", tmp_path_factory.getbasetemp(), mlflow=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FKD_HOME", str(home))
        for name in ("FKD_DATA_MIRROR", "PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
            patched.delenv(name, raising=False)
        run_stages(load_config(source))
    shutil.copytree(home, folder / "home")
    write_month(folder / "few.csv", n=60, seed=40, drift=400.0)
    return folder


def test_a_scheduled_look_that_crosses_is_a_failed_run_and_changes_nothing(office):
    home, terminal = office / "home", office / "terminal.txt"
    words = ("watch", "wages", "--data", "few.csv", "--every", "5")
    with terminal.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *words],
            cwd=office,
            env={**clean_environment(home), **QUICK_SERVER},
            stderr=written,
            start_new_session=True,
        )

    def alive():
        return process.poll() is None

    def said(words):
        return wait_until(
            lambda: next((x for x in terminal.read_text().splitlines() if words in x), None), alive
        )

    try:
        said("scheduled-watch/wages is served by")
        api = api_of(home)
        made = deployment(api, "scheduled-watch/wages")
        assert made["parameters"]["data"] == [str(office / "few.csv")]
        assert made["parameters"]["refit"] is False
        (rhythm,) = made["schedules"]
        assert (rhythm["active"], rhythm["schedule"]["interval"]) == (True, 5.0)

        def begun():
            runs = runs_of(api, made["id"])
            return [r["id"] for r in runs if r["state_type"] in ("RUNNING", "COMPLETED", "FAILED")]

        run = wait_until(begun, alive)[0]
        ask(f"{api}/deployments/{made['id']}/pause_deployment")
        told = ended_run(api, run, alive)
        assert told["state_type"] == "FAILED"
        assert "few.csv crossed the band of wages" in said(f"run {told['name']}")
        lines_with(api, run, "few.csv: crossed", alive)
        uri = tracking_uri(Settings(home))
        client = MlflowClient(uri, uri)
        assert int(client.get_model_version_by_alias("wages", "champion").version) == 1
        assert len(client.search_model_versions("name='wages'")) == 1
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert left_after(office, PATIENCE) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("wagse", "--data", "few.csv", "--every", "5"), "wagse"),
        (("wages", "--data", "colour=red", "--every", "5"), "colour"),
        (("wages", "--data", "few.csv", "--cron", "at noon"), "--cron must be a cron expression"),
    ],
)
def test_wrong_arguments_are_reported_before_a_server_starts(
    office, monkeypatch, capsys, words, sentence
):
    monkeypatch.chdir(office)
    monkeypatch.setenv("FKD_HOME", str(office / "home"))
    monkeypatch.setattr("flows.run.prefect_server", _no_server)
    with pytest.raises(SystemExit) as end:
        main(["watch", *words])
    assert end.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def _no_server(settings):
    raise AssertionError("a server was started")

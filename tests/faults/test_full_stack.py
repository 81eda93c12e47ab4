"""Sweeps through the services of deploy/compose/compose.yaml, started as processes."""

import base64
import json
import os
import time
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from compose_processes import LOOPBACK, PORTS, Compose
from deadlines import patient
from prometheus_client.parser import text_string_to_metric_families
from server_process import left_after
from sweep_process import fkd, warm_home, write_config
from sweep_sample import same_numbers, sweep_config, undisturbed
from tracking_server import recorded_trials

from configs.errors import UserError
from configs.run import ClusterConfig
from tasks.cluster.cluster import connect
from tasks.select.study import open_study
from tasks.storage.settings import Settings
from tasks.track.registry import fetch_bundle

pytestmark = [pytest.mark.fullstack, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """Start all services. Afterwards none is left, and no secret is in any file."""
    compose = Compose(tmp_path_factory.mktemp("stack") / "compose")
    try:
        compose.up()
        for name in ("prefect", "mlflow", "scheduler", "flows"):
            compose.wait_healthy(name)
        yield compose
    finally:
        slow = compose.down()
        assert left_after(compose.folder, patient(30)) == []
    assert slow == [], "these services ignore their stop signal"
    assert _leaks(compose) == []
    written = [p for s in compose.services.values() for p in s.read_only.rglob("*")]
    assert written == [], "a container cannot write there"


@pytest.fixture
def there(stack, monkeypatch):
    """The settings of a process that uses the stack, which this process becomes."""
    variables = stack.variables("flows")
    for name in os.environ:
        if name.startswith(("FKD_", "AWS_", "MLFLOW_", "PREFECT_", "DASK_")):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        if name.startswith(("AWS_", "MLFLOW_TRACKING_")):
            monkeypatch.setenv(name, value)
    return Settings(
        Path(variables["FKD_HOME"]),
        mlflow_tracking_uri=variables["MLFLOW_TRACKING_URI"],
        shared=variables["FKD_STORE"],
    )


def _secrets(compose):
    """Return every secret, also in the form of a basic-auth header."""
    made = {path.name: path.read_bytes() for path in (compose.folder / "secrets").iterdir()}
    login = b"admin:" + made["mlflow_password"]
    names = ("database_password", "store_key", "store_secret", "mlflow_key", "mlflow_password")
    logins = [base64.b64encode(word) for word in (login, made["prefect_auth"])]
    key = made["tls_key"].splitlines()[1]
    return [*(made[name] for name in names), made["prefect_auth"].split(b":")[1], *logins, key]


def _contents(path):
    """Yield the bytes of a file, then those of its members if it is an archive."""
    yield path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())


def _leaks(compose):
    """Return the files that contain a secret, apart from the secrets themselves."""
    secrets, found = _secrets(compose), []
    for folder in (compose.folder, compose.database):
        for path in folder.rglob("*"):
            if path.is_file() and "secrets" not in path.parts:
                try:
                    if any(secret in text for text in _contents(path) for secret in secrets):
                        found.append(str(path))
                except FileNotFoundError:
                    continue  # a server has just removed it
    return found


def _asked(stack, name, path, login=None):
    """Return status and text of an answer to a client inside the network of the containers."""
    headers = {"Host": f"{name}:{PORTS[name]}"}
    if login:
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    url = f"http://{LOOPBACK}:{stack.services[name].port}/{path}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=60) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def _wait_for_records(stack, process, more_than):
    """Return once the store has more records than a number."""
    deadline = time.monotonic() + patient(300)
    while _records(stack) <= more_than:
        assert process.poll() is None, "the sweep ended before a record came"
        assert time.monotonic() < deadline, "no record came"
        time.sleep(0.05)


def _records(stack):
    return sum(1 for _ in stack.services["store"].paths["/data"].rglob("*.record"))


def _ended(process):
    """Return exit code and output of a command."""
    return process.wait(patient(900)), process.log.read_text()


def _home_config(stack, config):
    """Write a configuration to the volume of FKD_HOME. Return its path inside a container."""
    write_config(config, stack.services["flows"].paths["/fkd"])
    return f"/fkd/{config.name}.yaml"


def test_servers_refuse_strangers_and_listen_on_loopback_alone(stack, there):
    listening = {
        c.laddr.ip for p in stack.tree() for c in p.net_connections("inet") if c.status == "LISTEN"
    }
    assert listening == {LOOPBACK}
    search, metrics = "api/2.0/mlflow/experiments/search?max_results=1", "api/metrics"
    variables = stack.variables("flows")
    admin = f"admin:{variables['MLFLOW_TRACKING_PASSWORD']}"
    assert _asked(stack, "mlflow", search)[0] == 401
    assert _asked(stack, "mlflow", search, "admin:another")[0] == 401
    assert _asked(stack, "mlflow", search, admin)[0] == 200
    for path in ("api/admin/version", metrics):
        assert _asked(stack, "prefect", path)[0] == 401
        status, text = _asked(stack, "prefect", path, variables["PREFECT_API_AUTH_STRING"])
        assert status == 200
    families = text_string_to_metric_families(text)
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    assert samples["process_cpu_seconds_total"] > 0
    assert _asked(stack, "store", "fkd")[0] in (400, 401, 403)
    plain = ClusterConfig(address=f"tcp://{LOOPBACK}:{stack.services['scheduler'].port}")
    with pytest.raises(UserError, match="takes encrypted connections only"), connect(plain, there):
        pass


def test_a_deployment_with_a_killed_worker_gives_the_bits_of_a_laptop(
    stack, there, tmp_path, tmp_path_factory
):
    config = sweep_config(name="whole", gammas=4, alphas=2, lengths=3, landmarks=200)
    deploy = ("--no-prompt", "deploy", "--prefect-file", "/opt/fkd/deploy/prefect.yaml")
    code, said = _ended(stack.run("flows", "prefect", *deploy, "--name", "default"))
    assert code == 0, said
    source = stack.services["flows"].translated(_home_config(stack, config))
    flow = ("deployment", "run", "scheduled-experiment/default", "--watch", "--params")
    run = stack.run("flows", "prefect", *flow, json.dumps({"source": source}))
    _wait_for_records(stack, run, 0)
    stack.kill("worker-1")
    stack.start("worker")
    code, said = _ended(run)
    assert (code, "COMPLETED" in said.upper()) == (0, True), (
        said + stack.processes["flows-1"].log.read_text()
    )
    assert not (there.home / "store").exists()  # records are in the object store

    local = warm_home(tmp_path / "local", tmp_path_factory.getbasetemp())
    code, said = fkd(local, "run", write_config(config, tmp_path))
    assert code == 0, said
    study = open_study(config, there)
    assert Counter(recorded_trials(there, "whole")) == {t.key: 1 for t in study.trials}
    assert same_numbers(study, open_study(config, Settings(local)))
    bundles = [fetch_bundle(s, "models:/whole@champion").bundle() for s in (there, Settings(local))]
    columns = list(bundles[0].input_columns)
    rows = pd.DataFrame(np.random.default_rng(0).random((7, len(columns))), columns=columns)
    assert bundles[0].predict(rows).tolist() == bundles[1].predict(rows).tolist()


@pytest.mark.parametrize("victim", ["mlflow", "prefect", "store"])
def test_a_killed_server_loses_no_trial_and_records_none_twice(stack, there, tmp_path, victim):
    seed = 1 + ["mlflow", "prefect", "store"].index(victim)
    config = sweep_config(f"seed={seed}", name=victim, gammas=4, landmarks=200)
    path, before = _home_config(stack, config), _records(stack)
    run = stack.run("sweep", "run", path)
    _wait_for_records(stack, run, before)
    stack.kill(f"{victim}-1")
    time.sleep(3)
    stack.start(victim)
    code, said = _ended(run)
    if victim != "store":
        stack.wait_healthy(victim)
    if code != 0:
        # The command names the fault in a sentence, and the same command completes the sweep.
        assert (code, "Traceback" in said) == (2, False), said
        code, said = _ended(stack.run("sweep", "run", path))
        assert code == 0, said
    study = open_study(config, there)
    assert Counter(recorded_trials(there, victim)) == {t.key: 1 for t in study.trials}
    assert same_numbers(study, undisturbed(config, tmp_path / "local"))


def test_status_shows_the_servers_and_no_secret_is_in_a_file_or_command_line(stack):
    code, said = _ended(stack.run("sweep", "status"))
    assert (code, said.count("serves")) == (0, 2), said
    assert _leaks(stack) == []
    secrets = [secret.decode() for secret in _secrets(stack)]
    lines = [" ".join(process.cmdline()) for process in stack.tree()]
    assert not [line for line in lines if any(secret in line for secret in secrets)]

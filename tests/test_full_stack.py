"""Everything that `fkd up` starts, used by a sweep of a deployment, then gone without a trace."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from server_process import clean_environment, left_after
from sweep_process import fkd, warm_home, write_config
from sweep_sample import same_numbers, sweep_config
from tracking_server import recorded_trials

from configs.errors import UserError
from configs.schema import ClusterConfig
from tasks.adapters.cluster import connect
from tasks.adapters.model_files import fetch_bundle
from tasks.adapters.servers.server_kind import answers, free_port
from tasks.adapters.servers.shared_server import read_record
from tasks.adapters.settings import Settings
from tasks.adapters.stack.parts import NAMES, check_parts
from tasks.study.opening import open_study

pytestmark = [pytest.mark.fullstack, pytest.mark.timeout(2400)]

ROOT = Path(__file__).parent.parent
PATIENCE = 900.0  # seconds; a busy machine needs many


@pytest.fixture(autouse=True, scope="module")
def _machine():
    try:
        check_parts()
    except UserError as error:
        pytest.skip(str(error))


@contextmanager
def _up(home):
    """A stack of a home with the variables of a shell that uses it; down afterwards."""
    try:
        code, said = fkd(home, "up")
        assert code == 0, said
        yield _environment(home)
    finally:
        fkd(home, "down")
        assert left_after(home, PATIENCE) == []


def _environment(home):
    """What a shell has after `eval "$(fkd up --export)"`."""
    script = f'eval "$({sys.executable} -m flows.cli up --export)" && exec env -0'
    told = subprocess.run(
        ["sh", "-c", script], env=clean_environment(home), stdout=subprocess.PIPE, check=True
    )
    return dict(pair.split("=", 1) for pair in told.stdout.decode().split("\0") if pair)


def _secrets(home):
    """Every secret of a stack, as it is written."""
    folder = home / "stack" / "secrets"
    names = ("database", "mlflow", "mlflow-sessions", "prefect", "s3")
    found = [(folder / name).read_bytes() for name in names]
    logins = [base64.b64encode(b"fkd:" + word) for word in found]
    return [*found, *logins, (folder / "dask.key").read_bytes().splitlines()[1]]


def _contents(path):
    """The bytes of a file, then those of its members where it is an archive."""
    yield path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())


def _leaks(folder, secrets):
    """Files below a folder in which a secret stands, but for the secrets themselves."""
    found = []
    for path in Path(folder).rglob("*"):
        if path.is_file() and "secrets" not in path.parts:
            try:
                if any(secret in text for text in _contents(path) for secret in secrets):
                    found.append(str(path))
            except FileNotFoundError:
                continue  # a server has just removed it
    return found


def _command_lines():
    return [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]


def _processes(home):
    """The holder of a stack with all that came of it."""
    holder = psutil.Process(int((home / "stack" / "holder.pid").read_text()))
    return [holder, *holder.children(recursive=True)]


def _status(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        return opener.open(url, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code


def _scraped(url, login):
    """The samples on a page for Prometheus, read with a password as it does."""
    header = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=header), timeout=60) as page:
        families = text_string_to_metric_families(page.read().decode())
        return {sample.name: sample.value for family in families for sample in family.samples}


def _prefect(environment, *words, **options):
    """A command of Prefect's own, in a shell that uses the stack."""
    command = [sys.executable, "-m", "prefect", *words]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True, **options
    )


@contextmanager
def _process(environment, *words):
    """A process of that shell, ended as Ctrl-C ends it."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        env=environment,
        cwd=environment["HOME"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _kill_a_worker(home):
    """Kill the process in which a Dask worker computes; return its pid."""
    nanny = psutil.Process(read_record(home / "stack" / "worker-1")["pid"])
    (worker,) = [p for p in nanny.children() if "spawn_main" in " ".join(p.cmdline())]
    worker.kill()
    return worker.pid


def _wait(happened, alive):
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert alive(), "the process that was to do it has ended"
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def _swept_by_a_deployment(environment, home, config):
    """Run a configuration by a Prefect worker; a Dask worker is killed once a record is there."""
    _prefect(environment, "work-pool", "create", "fkd", "--type", "process")
    file = ("--prefect-file", "deploy/prefect.yaml", "--name", "default")
    _prefect(environment, "--no-prompt", "deploy", *file)
    given = json.dumps({"source": config})
    flow = ("deployment", "run", "scheduled-experiment/default", "--params", given, "--watch")
    with (
        _process(environment, "prefect", "worker", "start", "--pool", "fkd"),
        _process(environment, "prefect", *flow) as run,
    ):
        data = home / "stack" / "s3" / "data"
        _wait(lambda: any(data.rglob("*.record")), lambda: run.poll() is None)
        _kill_a_worker(home)
        said, _ = run.communicate(timeout=PATIENCE)
    assert (run.returncode, "COMPLETED" in said.upper()) == (0, True), said


def _served(environment, model, rows):
    """What a model answers over HTTP."""
    port = free_port()
    words = ("-m", model, "--env-manager", "local", "-h", "127.0.0.1", "-p", str(port))
    # MLflow calls uvicorn by its bare name.
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    with _process({**environment, "PATH": path}, "mlflow", "models", "serve", *words) as server:
        url = f"http://127.0.0.1:{port}"
        _wait(lambda: answers(f"{url}/ping"), lambda: server.poll() is None)
        split = {"columns": list(rows), "data": rows.to_numpy().tolist()}
        body = json.dumps({"dataframe_split": split})
        request = urllib.request.Request(
            f"{url}/invocations", body.encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["predictions"]


def _rows(bundle):
    """Rows that a model takes."""
    columns = list(bundle.input_columns)
    values = np.random.default_rng(0).random((7, len(columns)))
    return pd.DataFrame(values, columns=columns)


def _looked_at_from_outside(home, environment, secrets):
    """Who has no password is sent away from what listens on loopback alone (F14)."""
    ours = _processes(home)
    listening = [
        c.laddr.ip for p in ours for c in p.net_connections("inet") if c.status == "LISTEN"
    ]
    assert len(listening) >= len(NAMES)
    assert set(listening) == {"127.0.0.1"}
    search = "api/2.0/mlflow/experiments/search?max_results=1"
    asked = {
        f"{environment['MLFLOW_TRACKING_URI']}/{search}": 401,
        f"{environment['PREFECT_API_URL']}/admin/version": 401,
        f"{environment['PREFECT_API_URL']}/metrics": 401,
    }
    assert {url: _status(url) for url in asked} == asked
    assert _status(f"{environment['AWS_ENDPOINT_URL']}/fkd") in (400, 401, 403)
    metrics = f"{environment['PREFECT_API_URL']}/metrics"
    found = _scraped(metrics, environment["PREFECT_API_AUTH_STRING"])
    assert found["process_cpu_seconds_total"] > 0
    plain = ClusterConfig(address=environment["DASK_SCHEDULER_ADDRESS"].replace("tls", "tcp"))
    with (
        pytest.raises(UserError, match="takes encrypted connections only"),
        connect(plain, Settings(home)),
    ):
        pass
    # A second `up` says what runs, and nothing else.
    code, said = fkd(home, "up")
    assert (code, said.count(" runs")) == (0, len(NAMES)), said
    assert {p.pid for p in ours} == {p.pid for p in _processes(home)} | {p.pid for p in ours}
    assert not [secret for secret in secrets if secret.decode() in said]
    lines = _command_lines()
    assert not [line for line in lines if any(s.decode() in line for s in secrets)]


def test_a_sweep_of_a_deployment_with_a_killed_worker_gives_the_bits_of_a_laptop(
    tmp_path, tmp_path_factory, monkeypatch
):
    home, local = tmp_path / "home", tmp_path / "local"
    config = sweep_config(name="whole", gammas=4, alphas=2, lengths=3, landmarks=200)
    path = write_config(config, tmp_path)
    code, said = fkd(warm_home(local, tmp_path_factory.getbasetemp()), "run", path)
    assert code == 0, said
    with _up(home) as environment:
        secrets = _secrets(home)
        _looked_at_from_outside(home, environment, secrets)
        _swept_by_a_deployment(environment, home, path)
        assert not (home / "store").exists()  # all of it lies in the object store

        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        there = Settings(
            home,
            mlflow_tracking_uri=environment["MLFLOW_TRACKING_URI"],
            shared=environment["FKD_STORE"],
        )
        study = open_study(config, there)
        assert Counter(recorded_trials(there, "whole")) == {t.key: 1 for t in study.trials}

        assert same_numbers(study, open_study(config, Settings(local)))

        bundle = fetch_bundle(Settings(local), "models:/whole@champion").bundle()
        rows = _rows(bundle)
        answered = _served(environment, "models:/whole@champion", rows)
        assert answered == bundle.predict(rows).tolist()

        code, said = fkd(home, "status", **environment)
        assert (code, said.count("serves") >= len(NAMES)) == (0, True), said
        assert _leaks(tmp_path, secrets) == []
        assert not [line for line in _command_lines() if any(s.decode() in line for s in secrets)]
    assert _leaks(tmp_path, secrets) == []
    assert not (home / "stack" / "secrets").exists()


def _all_serve(home):
    code, said = fkd(home, "status")
    return code == 0 and said.count("serves") == len(NAMES)


def test_what_is_killed_comes_back_and_a_killed_holder_takes_all_along(tmp_path):
    home = tmp_path / "home"
    with _up(home):
        records = {name: read_record(home / "stack" / name) for name in NAMES}
        servers = [psutil.Process(record["pid"]) for record in records.values()]
        keepers = [server.parent() for server in servers]
        for victims in (servers, keepers):
            for process in victims:
                process.kill()
            psutil.wait_procs(victims, PATIENCE)
            _wait(lambda: _all_serve(home), lambda: True)
            again = {name: read_record(home / "stack" / name) for name in NAMES}
            assert {n: r["url"] for n, r in again.items()} == {
                n: r["url"] for n, r in records.items()
            }
        holder, *others = _processes(home)
        holder.kill()
        _, left = psutil.wait_procs(others, 60)
        assert left == []
        assert left_after(home, PATIENCE) == []
    assert not (home / "stack" / "secrets").exists()


def test_a_server_that_cannot_start_ends_the_others(tmp_path):
    home = tmp_path / "home"
    (home / "stack" / "scheduler").mkdir(parents=True)
    (home / "stack" / "scheduler" / "server.json").mkdir()  # its keeper cannot begin
    code, said = fkd(home, "up")
    assert (code, "Dask scheduler" in said) == (2, True), said
    assert left_after(home, PATIENCE) == []
    assert not (home / "stack" / "secrets").exists()

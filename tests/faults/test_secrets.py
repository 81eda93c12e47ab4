"""Secrets are planted in every place that takes one, then looked for in all that is written."""

import base64
import json
import os
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from dask_process import THREADS
from deadlines import patient
from server_process import clean_environment, left_after, seeded
from tracking_server import mlflow_server, warm_mlflow

from tasks.data.census import write_synthetic_census

pytestmark = pytest.mark.stack

# One for each place, so that a finding says where it came from.
PLACES = ("mlflow", "mirror", "prefect", "webhook", "file", "command", "variable")
SECRETS = {place: f"pl4nted-{place}-s3cret" for place in PLACES}
CENSUS_FILE = "census/2017/1-Year/csv_pwy.zip"


class Listener(BaseHTTPRequestHandler):
    """Keeps what hooks are sent."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.heard.append((self.path, body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Keep the terminal quiet."""


class Mirror(SimpleHTTPRequestHandler):
    """A folder of files; whatever name and password come with a request are taken."""

    def log_message(self, *_):
        """Keep the terminal quiet."""


class Served(ThreadingHTTPServer):
    """A web server of the test's own, with what it heard."""

    def __enter__(self):
        self.heard = []
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def _config(hooks):
    return {
        "name": "planted",
        "data": {"problem": "acs_income", "states": ["WY"], "year": [2017]},
        "folds": {"k": 2},
        "select": {"minimise": "mae", "inner_folds": 2},
        "methods": [{"name": "krr", "approximation": {"kind": "nystroem", "landmarks": 9}}],
        "cluster": THREADS,
        "gate": {"gdp": 1e-9},  # broken by any model but a constant
        "hooks": {"on_failure": hooks},
    }


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """What was written, said and sent by a run that ends badly and by one that cannot begin."""
    base = tmp_path_factory.mktemp("planted")
    home = seeded(base / "state" / "home", tmp_path_factory.getbasetemp())
    (base / "tmp").mkdir()
    write_to = base / "mirror" / CENSUS_FILE
    write_to.parent.mkdir(parents=True)
    write_synthetic_census(write_to, state="WY", year=2017, rows=300, seed=0)
    database = warm_mlflow(base / "mlflow", tmp_path_factory.getbasetemp())
    with (
        Served(("127.0.0.1", 0), Listener) as hooks,
        Served(("127.0.0.1", 0), partial(Mirror, directory=str(base / "mirror"))) as mirror,
        mlflow_server(f"sqlite:///{database}", base / "mlflow") as mlflow,
    ):
        mlflow.start()
        listener = f"http://127.0.0.1:{hooks.server_port}"
        (base / "hook").write_text(f"{listener}/{SECRETS['file']}\n")
        environment = {
            **clean_environment(home),
            "TMPDIR": str(base / "tmp"),
            "OMP_NUM_THREADS": "1",
            "FKD_STORE": str(base / "shared"),
            "MLFLOW_TRACKING_URI": f"http://us:{SECRETS['mlflow']}@127.0.0.1:{mlflow.port}",
            "FKD_DATA_MIRROR": f"http://us:{SECRETS['mirror']}@127.0.0.1:{mirror.server_port}",
            "PREFECT_API_AUTH_STRING": f"us:{SECRETS['prefect']}",
            "HOOK": SECRETS["variable"],
        }
        told = base / "told-to-the-command.json"
        keep = f"import pathlib, sys; pathlib.Path({str(told)!r}).write_text(sys.stdin.read())"
        words = [f"{listener}/{SECRETS['command']}", "env:HOOK"]
        literal = {
            "webhook": f"{listener}/{SECRETS['webhook']}?token={SECRETS['webhook']}",
            "command": [sys.executable, "-c", keep, *words],
        }
        bad = _run(base / "bad.yaml", literal, environment)
        nobody = f"http://us:{SECRETS['prefect']}@127.0.0.1:1/api"
        by_file = {"webhook": f"file:{base / 'hook'}"}
        none = _run(base / "none.yaml", by_file, {**environment, "PREFECT_API_URL": nobody})
        again = _run(home / "experiments" / "planted" / "config.yaml", None, environment)
        assert left_after(home, 30) == []
    return {
        "base": base,
        "home": home,
        "runs": {"bad": bad, "none": none, "again": again},
        "heard": hooks.heard,
        "command": told,
    }


def _run(file, hooks, environment):
    """One `fkd run`; the given file is written unless it is one that a run has written."""
    if hooks is not None:
        file.write_text(yaml.safe_dump(_config(hooks)))
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", "run", str(file)],
        env=environment,
        capture_output=True,
        timeout=patient(600),
    )


def _found(content):
    """The places whose secrets stand in some bytes, as they are or as a request carries them."""
    return [
        place
        for place, secret in SECRETS.items()
        if secret.encode() in content or base64.b64encode(f"us:{secret}".encode()) in content
    ]


def _contents(path):
    """The bytes of a file, then those of its members where it is an archive."""
    yield path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield from (archive.read(name) for name in archive.namelist())


def _leaks(folder):
    """Every file below a folder in which a secret stands, with its place."""
    return {
        str(path.relative_to(folder)): found
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and (found := [f for c in _contents(path) for f in _found(c)])
    }


def test_the_runs_ended_as_they_should(planted):
    runs = planted["runs"]
    assert runs["bad"].returncode == 3, runs["bad"].stderr
    assert b"breaks the gate" in runs["bad"].stderr
    assert runs["none"].returncode == 2, runs["none"].stderr
    assert b"does not answer" in runs["none"].stderr
    for run in runs.values():
        assert b"Traceback" not in run.stderr


def test_every_secret_was_used(planted):
    paths = [path for path, _ in planted["heard"]]
    webhook = SECRETS["webhook"]
    assert paths == [f"/{webhook}?token={webhook}", f"/{SECRETS['file']}"]
    assert planted["command"].exists()
    assert (planted["home"] / "downloads" / "names" / f"{CENSUS_FILE}.json").exists()
    assert list((planted["base"] / "mlflow" / "artifacts").rglob("report.html"))


def test_no_secret_is_in_the_home(planted):
    assert _leaks(planted["home"]) == {}


def test_no_secret_is_in_what_homes_share(planted):
    assert list((planted["base"] / "shared" / "runs").glob("*/report.html"))
    assert list((planted["base"] / "shared" / "runs").glob("*/config.yaml"))
    assert _leaks(planted["base"] / "shared") == {}


def test_no_secret_is_in_the_temporary_folder(planted):
    assert _leaks(planted["base"] / "tmp") == {}


def test_no_secret_is_sent_to_mlflow(planted):
    assert _leaks(planted["base"] / "mlflow") == {}


@pytest.mark.parametrize("run", ["bad", "none", "again"])
def test_no_secret_is_on_the_terminal(planted, run):
    done = planted["runs"][run]
    assert _found(done.stdout + done.stderr) == []


def test_no_secret_is_in_what_hooks_hear(planted):
    for _, body in planted["heard"]:
        assert json.loads(body)["state"] == "failure"
        assert _found(body) == []
    assert _found(planted["command"].read_bytes()) == []


def test_a_configuration_with_masked_hooks_is_not_run(planted):
    done = planted["runs"]["again"]
    assert done.returncode == 2
    assert b"env:NAME or file:PATH" in done.stderr


def test_the_search_would_find_a_secret(planted, tmp_path):
    """The check bites: in a text, in an archive, in the header of a request."""
    (tmp_path / "text").write_text(f"http://us:{SECRETS['mlflow']}@host")
    with zipfile.ZipFile(tmp_path / "archive", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("member", SECRETS["mirror"] * 50)
    (tmp_path / "header").write_bytes(base64.b64encode(f"us:{SECRETS['prefect']}".encode()))
    found = {name: set(places) for name, places in _leaks(tmp_path).items()}
    assert found == {"text": {"mlflow"}, "archive": {"mirror"}, "header": {"prefect"}}


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
def test_the_home_is_its_owners_alone(planted):
    assert (planted["home"] / "prefect" / "server.log").stat().st_mode & 0o077 == 0

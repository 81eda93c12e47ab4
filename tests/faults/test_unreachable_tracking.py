"""Addresses, private authorities, servers that never end their answer."""

import http.server
import ssl
import subprocess
import threading
from dataclasses import replace

import pytest
from trickling_server import trickling_server

from configs.errors import UserError
from tasks.storage.settings import Settings, credentials, scrubbed, without_credentials
from tasks.track import client as reachable
from tasks.track.client import (
    DeadlineError,
    TrackingRefusedError,
    TrackingUnreachableError,
    check_answers,
    share_trust,
    within,
)
from tasks.track.runs import Tracking

CA_VARIABLES = (
    "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "MLFLOW_TRACKING_INSECURE_TLS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
)


@pytest.mark.parametrize(
    ("address", "shown", "secrets"),
    [
        ("http://ann:pw@h:5000/x", "http://h:5000/x", {"ann", "pw"}),
        ("http://ann@h", "http://h", {"ann"}),
        ("http://ann:p@w@h/", "http://h/", {"ann", "p@w"}),
        ("http://ann:p/w@h/x", "http://h/x", {"ann", "p/w"}),
        ("http://ann:p?w#@h/x", "http://h/x", {"ann", "p?w#"}),
        ("postgresql+psycopg2://ann:p%40w@h/db", "postgresql+psycopg2://h/db", {"p@w", "p%40w"}),
        ("postgresql://h/db?user=ann&password=pw&sslmode=require", None, {"ann", "pw"}),
        ("http://h/x?token=pw&page=1", "http://h/x?page=1", {"pw"}),
        ("http://h:5000/a@b", "http://h:5000/a@b", set()),
        ("http://[::1]:5000/a@b", "http://[::1]:5000/a@b", set()),
        ("sqlite:////home/ann@work/mlflow.db", "sqlite:////home/ann@work/mlflow.db", set()),
        ("databricks", "databricks", set()),
    ],
)
def test_an_address_is_shown_without_what_is_secret(address, shown, secrets):
    assert without_credentials(address) == (shown or "postgresql://h/db?sslmode=require")
    assert secrets <= credentials(address)


def test_what_others_say_is_told_without_secrets():
    said = 'API request to http://ann:pw@h/api failed: no user "ann", password pw, announced'
    told = scrubbed(said, "http://ann:pw@h")
    assert told == 'API request to http://h/api failed: no user "***", password ***, announced'


def test_work_that_does_not_end_is_given_up():
    never = threading.Event()
    with pytest.raises(DeadlineError, match=r"within 0\.05 s"):
        within(0.05, never.wait)
    assert within(60.0, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        within(60.0, lambda: 1 // 0)
    never.set()


@pytest.mark.timeout(120)
def test_an_answer_byte_by_byte_counts_as_none(monkeypatch):
    monkeypatch.setattr(reachable, "ANSWER_SECONDS", 1.0)
    with (
        trickling_server(lives=False) as address,
        pytest.raises(TrackingUnreachableError, match="no whole answer within 1 s"),
    ):
        check_answers(address)


@pytest.mark.timeout(120)
def test_a_client_that_gets_its_answer_byte_by_byte_gives_up(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with (
        trickling_server(lives=True) as address,
        pytest.raises(TrackingUnreachableError, match="no whole answer within 2 s"),
    ):
        Tracking(Settings(tmp_path / "home", mlflow_tracking_uri=address), "quick")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate for loopback that no authority of the system has signed, with its key."""
    folder = tmp_path_factory.mktemp("authority")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", folder / "key.pem", "-out", folder / "ca.pem"),
        ],
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def private_server(authority):
    """An https server with that certificate."""

    class Healthy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "ca.pem", authority / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def _no_authorities(monkeypatch):
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_no_authorities")
@pytest.mark.parametrize(
    "variable", ["MLFLOW_TRACKING_SERVER_CERT_PATH", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"]
)
def test_a_private_authority_is_trusted_where_it_is_named(
    private_server, authority, variable, monkeypatch
):
    with pytest.raises(TrackingUnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
        check_answers(private_server)
    monkeypatch.setenv(variable, str(authority / "ca.pem"))
    check_answers(private_server)


@pytest.mark.usefixtures("_no_authorities")
def test_a_server_may_be_trusted_unseen(private_server, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_INSECURE_TLS", "true")
    check_answers(private_server)


@pytest.mark.usefixtures("_no_authorities")
def test_openssls_own_variable_reaches_mlflows_client_too(authority, monkeypatch):
    import os

    monkeypatch.setenv("SSL_CERT_FILE", str(authority / "ca.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "")
    share_trust()
    assert os.environ["REQUESTS_CA_BUNDLE"] == str(authority / "ca.pem")


@pytest.mark.usefixtures("_no_authorities")
def test_a_missing_bundle_is_named(private_server, tmp_path, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    with pytest.raises(UserError, match=r"REQUESTS_CA_BUNDLE must name .*none\.pem"):
        check_answers(private_server)


@pytest.mark.parametrize(
    ("status", "words"), [(401, "refused the login"), (403, "allow this user")]
)
def test_a_server_that_refuses_us_is_not_taken_for_a_silent_one(status, words, settings):
    class Guard(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/health" else status)
            self.end_headers()
            self.wfile.write(b"no")
            asked.append(self.path)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guard) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_port}"
        try:
            guarded = replace(settings, mlflow_tracking_uri=f"http://us:word@{place}")
            with pytest.raises(TrackingRefusedError, match=words) as told:
                Tracking(guarded, "any")
        finally:
            server.shutdown()
    assert f"MLflow at http://{place} " in str(told.value)
    assert "MLFLOW_TRACKING_PASSWORD" in str(told.value)
    assert "word" not in str(told.value).replace("PASSWORD", "")
    # Another try would have no other password.
    assert len([path for path in asked if path != "/health"]) == 1

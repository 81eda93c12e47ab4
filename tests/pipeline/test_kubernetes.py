"""Kubernetes as a run meets it where something is missing: no cluster, no operator, no quota left.

No API server can be started here: a small one answers as Kubernetes documents it.
"""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from configs.errors import UserError
from configs.load import load_config
from tasks.cluster import kubernetes as kubernetes_pods
from tasks.cluster.kubernetes import kubernetes_cluster

CONFIG = "cluster={kind: kubernetes, adapt: {maximum: 2}, kubernetes: {image: fkd}}"


@contextmanager
def _api(folder, monkeypatch, create):
    """An API server that answers a creation so; the methods and paths that it was asked."""
    asked, kept = [], {}

    class Api(BaseHTTPRequestHandler):
        def _answer(self):
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            asked.append((self.command, self.path.partition("?")[0]))
            status, told = 200, {"major": "1", "minor": "31", "gitVersion": "v1.31.0", **body}
            if self.command == "POST":
                status, told = create(body)
                kept[body["metadata"]["name"], body["kind"].lower() + "s"] = told
            elif "/namespaces/" in self.path:
                _, kind, name = self.path.partition("?")[0].rsplit("/", 2)
                told = kept[name, kind]
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        _kubeconfig(folder, monkeypatch, address)
        yield asked
        server.shutdown()
        thread.join()


def _kubeconfig(folder, monkeypatch, address):
    told = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": address}}],
        "users": [{"name": "me", "user": {"token": "a-token"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(told))
    monkeypatch.setenv("KUBECONFIG", str(path))


def _config(folder):
    # One namespace a test: the client keeps a connection for each in a process.
    name = "fkd-" + hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    return load_config("default", [CONFIG, f"cluster.kubernetes.namespace={name}"]).cluster


def _status(code, reason, message):
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def test_no_kubeconfig_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"no cluster to talk to .*set KUBECONFIG"):
        kubernetes_cluster(_config(tmp_path)).__enter__()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (_status(404, "NotFound", "the server could not find the requested resource"), "operator"),
        (_status(403, "Forbidden", "exceeded quota: fkd"), r"exceeded quota: fkd.*describe quota"),
        (_status(422, "Invalid", "spec is wrong"), "kubectl describe daskclusters"),
    ],
    ids=["no operator", "quota", "refused"],
)
def test_what_kubernetes_refuses_is_one_sentence(tmp_path, monkeypatch, answer, sentence):
    with _api(tmp_path, monkeypatch, lambda body: answer) as asked:
        with pytest.raises(UserError, match=rf"did not take the DaskCluster in .*{sentence}"):
            kubernetes_cluster(_config(tmp_path)).__enter__()
        posted = [path for method, path in asked if method == "POST"]
        # It may ask again by fresh credentials where it was forbidden.
        assert {path.rpartition("/")[2] for path in posted} == {"daskclusters"}
        assert not any(method == "DELETE" for method, _ in asked)


def test_an_operator_that_never_comes_is_waited_for_so_long(tmp_path, monkeypatch):
    monkeypatch.setattr(kubernetes_pods, "_READY_SECONDS", 0.5)
    monkeypatch.setattr(kubernetes_pods, "_POLL_SECONDS", 0.1)
    with _api(tmp_path, monkeypatch, lambda body: (201, body)) as asked:
        with pytest.raises(UserError, match=r"no Dask operator has taken up .* within 0\.5 s"):
            kubernetes_cluster(_config(tmp_path)).__enter__()
        # Nothing is left behind: both resources are deleted again.
        deleted = [path.split("/")[-2] for method, path in asked if method == "DELETE"]
        assert deleted == ["daskautoscalers", "daskclusters"]

"""Questions to a Prefect server, as its own pages ask them."""

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tasks.servers.shared_server import read_record

# Seconds; a busy machine takes minutes for what takes seconds on an idle one.
PATIENCE = 600.0


def api_of(home: Path) -> str:
    """The address of the server of a home, with its password."""
    record = read_record(home / "prefect")
    return record["url"].replace("//", f"//{record['user']}:{record['password']}@") + "/api"


def server_variables(home: Path) -> dict[str, str]:
    """The variables by which Prefect reaches the server of a home."""
    record = read_record(home / "prefect")
    login = f"{record['user']}:{record['password']}"
    return {"PREFECT_API_URL": f"{record['url']}/api", "PREFECT_API_AUTH_STRING": login}


def ask(url: str, method: str = "POST", **body: object) -> Any:
    """The answer to a request; None to one without an answer."""
    parts, headers = urlsplit(url), {"Content-Type": "application/json"}
    if parts.username:
        login = f"{parts.username}:{parts.password}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
    request = urllib.request.Request(
        parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(),
        data=None if method == "GET" else json.dumps(body).encode(),
        headers=headers,
        method=method,
    )
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            # A busy server whose database is locked has done nothing, and says so by this.
            if error.code != 503 or time.monotonic() > deadline:
                raise
            time.sleep(1.0)
        else:
            return json.loads(text) if text else None


def deployment(api: str, name: str) -> dict[str, Any]:
    """A deployment by the names of flow and deployment."""
    return ask(f"{api}/deployments/name/{name}", "GET")


def runs_of(api: str, deployment_id: str) -> list[dict[str, Any]]:
    """The runs of a deployment."""
    return ask(f"{api}/flow_runs/filter", deployments={"id": {"any_": [deployment_id]}})


def start_run(api: str, deployment_id: str, **body: object) -> str:
    """The id of a run that begins now."""
    return ask(f"{api}/deployments/{deployment_id}/create_flow_run", **body)["id"]


def wait_until(found: Callable[[], Any], alive: Callable[[], bool]) -> Any:
    """What was looked for, once it is there; those who make it must live meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := found()):
        assert alive(), "the process that was to do it has ended"
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)
    return answer


def ended_run(api: str, run: str, alive: Callable[[], bool]) -> dict[str, Any]:
    """A run once it has come to its end."""

    def found() -> dict[str, Any] | None:
        told = ask(f"{api}/flow_runs/{run}", "GET")
        final = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        return told if told["state_type"] in final else None

    return wait_until(found, alive)


def lines_of(api: str, run: str) -> list[str]:
    """What Prefect's log of a run holds."""
    found = ask(f"{api}/logs/filter", logs={"flow_run_id": {"any_": [run]}}, limit=200)
    return [line["message"] for line in found]


def lines_with(api: str, run: str, words: str, alive: Callable[[], bool]) -> list[str]:
    """The lines of a run's log with these words, which may come seconds after its end."""
    return wait_until(lambda: [line for line in lines_of(api, run) if words in line], alive)


def artifacts_of(api: str, run: str) -> dict[str, Any]:
    """The artifacts of a run by key."""
    found = ask(f"{api}/artifacts/filter", artifacts={"flow_run_id": {"any_": [run]}})
    return {artifact["key"]: artifact for artifact in found}

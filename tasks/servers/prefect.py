"""The Prefect server of a run: the configured one, or one that is started and shared.

The environment variables and settings of Prefect must be in force before it is first imported, so
this module imports it late.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from configs.errors import UserError
from tasks.servers.shared_server import LOOPBACK, USER, Lease, ServerKind, server_lease
from tasks.storage.settings import Settings, ensure_writable, scrubbed, without_credentials

_CONSOLE = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
_CONSOLE_LEVEL = "WARNING"
_LEVEL = "PREFECT_LOGGING_LEVEL"  # of Prefect's logs. If it is set, the user wants to see them.
_NO_TRACKING = {"DO_NOT_TRACK": "true", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
_FLUSH_SECONDS = 10.0  # for the last log lines of a run


class PrefectRefusedError(UserError):
    """The Prefect server refuses the credentials."""


@contextmanager
def prefect_server(settings: Settings) -> Iterator[str]:
    """Yield the API address of a Prefect server to which this process is connected.

    A server is started under FKD_HOME if none is configured. It stops with the last process that
    uses it.
    """
    with upcoming_prefect_server(settings) as connect:
        yield connect()


@contextmanager
def upcoming_prefect_server(settings: Settings) -> Iterator[Callable[[], str]]:
    """Yield a function that waits for the server, connects to it and returns its API address.

    The server starts in the background meanwhile.
    """
    ensure_writable(settings.home)
    with ExitStack() as stack:
        stack.enter_context(client_environment(settings))
        named = settings.prefect_api_url
        if named is None:
            from prefect.settings import Settings as PrefectSettings

            named = PrefectSettings().api.url  # of a profile or a file
        if named is not None:
            url = named
            yield lambda: _connect_named(url, stack)
            return
        lease = stack.enter_context(server_lease(prefect_kind(settings)))
        lease.start()
        yield lambda: _connect_own(lease, stack)


def prefect_kind(settings: Settings) -> ServerKind:
    """Return how a server is started on loopback, with its state under FKD_HOME."""
    folder = settings.prefect
    # All services run, so that runs, schedules and pages share the server. They use 1 % of a core.
    command = (sys.executable, "-P", "-m", "prefect", "server", "start")
    return ServerKind(
        title="Prefect",
        folder=folder,
        arguments=(*command, "--host", LOOPBACK, "--port", "{port}"),
        health="/api/health",
        environment={
            "PREFECT_SERVER_API_HOST": LOOPBACK,
            "PREFECT_SERVER_API_PORT": "{port}",
            "PREFECT_SERVER_API_AUTH_STRING": f"{USER}:{{password}}",
            **_unless_set(
                {
                    **_NO_TRACKING,
                    "PREFECT_HOME": str(folder),
                    "PREFECT_SERVER_DATABASE_CONNECTION_URL": (
                        f"sqlite+aiosqlite:///{folder / 'prefect.db'}"
                    ),
                    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
                    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
                }
            ),
        },
        pinned=True,
    )


def _connect_own(lease: Lease, stack: ExitStack) -> str:
    """Wait for the shared server and connect to it."""
    from prefect.settings import (
        PREFECT_API_AUTH_STRING,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        get_current_settings,
    )

    server = lease.wait()
    url, login = f"{server.url}/api", f"{USER}:{server.password}"
    # A proxy cannot reach the loopback of this machine.
    no_proxy = ",".join(filter(None, [os.environ.get("NO_PROXY"), LOOPBACK]))
    variables = {"NO_PROXY": no_proxy, "no_proxy": no_proxy, "PREFECT_API_AUTH_STRING": login}
    updates: dict[Any, Any] = {PREFECT_API_AUTH_STRING: login}
    if "heartbeat_frequency" not in get_current_settings().flows.model_fields_set:
        # The end of a run would wait for the thread of the heartbeats up to a second.
        updates[PREFECT_FLOWS_HEARTBEAT_FREQUENCY] = None
    _connect(url, stack, variables, updates)
    from prefect.events.worker import EventsWorker

    # Before the server stops, send the queued logs and events. One registry has all queues.
    stack.callback(EventsWorker.drain_all, timeout=_FLUSH_SECONDS)
    return url


def _connect_named(url: str, stack: ExitStack) -> str:
    """Connect to the configured server. Raise UserError if it does not answer."""
    _connect(url, stack, {}, {})
    import httpx
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        failure = client.api_healthcheck()
        if failure is not None:
            cause = scrubbed(str(failure), url)
            raise UserError(
                "PREFECT_API_URL must be the address of a running Prefect server, but "
                f"{without_credentials(url)} does not answer ({cause}). Start the server, correct "
                "the address (it ends in /api), or unset it, also in the Prefect profile: fkd "
                "starts a server then."
            )
        try:
            client.api_version()
        except httpx.HTTPStatusError as error:
            # Other codes are ignored: not every server has this route.
            if error.response.status_code in (401, 403):
                raise PrefectRefusedError(
                    f"The Prefect server at {without_credentials(url)} refuses the "
                    f"credentials ({error.response.status_code}). Set "
                    "PREFECT_API_AUTH_STRING=user:password, or PREFECT_API_KEY for Prefect Cloud."
                ) from error
    return url


def _connect(
    url: str, stack: ExitStack, variables: Mapping[str, str], updates: Mapping[Any, Any]
) -> None:
    """Connect this process and its children to an API address, until the stack is closed.

    The logs of runs go to the server only, unless the user has set their level.
    """
    from prefect.settings import PREFECT_API_URL, temporary_settings

    stack.enter_context(set_variables({"PREFECT_API_URL": url, **variables}))
    stack.enter_context(temporary_settings({PREFECT_API_URL: url, **updates}))
    if _LEVEL not in os.environ:
        for name in ("prefect.flow_runs", "prefect.task_runs"):
            runs = logging.getLogger(name)
            stack.callback(setattr, runs, "propagate", runs.propagate)
            runs.propagate = False


@contextmanager
def client_environment(settings: Settings) -> Iterator[None]:
    """Set Prefect's defaults for quiet logs and a state under FKD_HOME.

    Variables that the user has set win.
    """
    settings.prefect.mkdir(parents=True, exist_ok=True)
    defaults = {**_NO_TRACKING, "PREFECT_HOME": str(settings.prefect)}
    profiles = Path.home() / ".prefect" / "profiles.toml"
    # The profiles of the user may name a server.
    if "PREFECT_HOME" not in os.environ and profiles.exists():
        defaults["PREFECT_PROFILES_PATH"] = str(profiles)
    if _LEVEL not in os.environ:
        defaults[_CONSOLE] = _CONSOLE_LEVEL
        # Prefect would print every event that it sends again.
        defaults["PREFECT_LOGGING_INTERNAL_LEVEL"] = "CRITICAL"
    with set_variables(_unless_set(defaults)):
        yield


@contextmanager
def quiet_children() -> Iterator[None]:
    """Send tracebacks of runs in child processes to the server only."""
    is_default = os.environ.get(_CONSOLE) == _CONSOLE_LEVEL
    with set_variables({_CONSOLE: "CRITICAL"} if is_default else {}):
        yield


@contextmanager
def set_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _unless_set(defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the user has not set."""
    return {name: value for name, value in defaults.items() if name not in os.environ}

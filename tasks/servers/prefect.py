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
from typing import TYPE_CHECKING

from configs.errors import UserError
from tasks.servers.shared_server import LOOPBACK, USER, Lease, ServerKind, server_lease
from tasks.storage.settings import Settings, ensure_writable, scrubbed, without_credentials

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_CONSOLE = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
_CONSOLE_LEVEL = "WARNING"
_SERVER_AUTH = "PREFECT_SERVER_API_AUTH_STRING"
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
        named = named_api(settings)
        if named is not None:
            yield lambda: _connect_named(named, stack)
            return
        lease = stack.enter_context(server_lease(prefect_kind(settings)))
        lease.begin()
        yield lambda: _connect_own(lease, stack)


def named_api(settings: Settings) -> str | None:
    """Return the API address of the environment, a profile or a file, None without one."""
    if settings.prefect_api_url is not None:
        return settings.prefect_api_url
    from prefect.settings import Settings as PrefectSettings

    return PrefectSettings().api.url


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
            _SERVER_AUTH: f"{USER}:{{password}}",
            **unless_set(
                {
                    **no_tracking(),
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


@contextmanager
def _connected(url: str, credentials: str | None = None) -> Iterator[None]:
    """Connect this process and its children to an API address."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    variables, updates = {"PREFECT_API_URL": url}, {PREFECT_API_URL: url}
    if credentials is not None:
        variables["PREFECT_API_AUTH_STRING"] = credentials
        updates[PREFECT_API_AUTH_STRING] = credentials
    with (
        set_variables(variables),
        temporary_settings(updates),
        _quiet_run_logs(),
    ):
        yield


@contextmanager
def _without_heartbeats() -> Iterator[None]:
    """Send no heartbeats: the end of a run would wait for their thread up to a second."""
    from prefect.settings import (
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        get_current_settings,
        temporary_settings,
    )

    named = "heartbeat_frequency" in get_current_settings().flows.model_fields_set
    with temporary_settings({} if named else {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield


@contextmanager
def _quiet_run_logs() -> Iterator[None]:
    """Send the logs of runs to the server only, unless the user has set their level."""
    names = () if user_wants_logs() else ("prefect.flow_runs", "prefect.task_runs")
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.propagate = False
    try:
        yield
    finally:
        for logger, value in zip(loggers, before, strict=True):
            logger.propagate = value


def _connect_own(lease: Lease, stack: ExitStack) -> str:
    """Wait for the shared server and connect to it."""
    server = lease.wait()
    # A proxy cannot reach the loopback of this machine.
    no_proxy = ",".join(filter(None, [os.environ.get("NO_PROXY"), LOOPBACK]))
    stack.enter_context(set_variables({"NO_PROXY": no_proxy, "no_proxy": no_proxy}))
    stack.enter_context(_without_heartbeats())
    stack.enter_context(_connected(f"{server.url}/api", f"{USER}:{server.password}"))
    stack.callback(_flush)  # before the server stops
    return f"{server.url}/api"


def _flush() -> None:
    """Send the queued logs and events of this process."""
    from prefect.events.worker import EventsWorker

    # Drains the queues of logs too: all such services are in one registry.
    EventsWorker.drain_all(timeout=_FLUSH_SECONDS)


def _connect_named(url: str, stack: ExitStack) -> str:
    """Connect to the configured server. Raise UserError if it does not answer."""
    stack.enter_context(_connected(url))
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
        _check_admitted(client, url)
    return url


def _check_admitted(client: "SyncPrefectClient", url: str) -> None:
    """Raise PrefectRefusedError if the server refuses requests."""
    import httpx

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


@contextmanager
def client_environment(settings: Settings) -> Iterator[None]:
    """Set Prefect's defaults for quiet logs and a state under FKD_HOME.

    Variables that the user has set win.
    """
    settings.prefect.mkdir(parents=True, exist_ok=True)
    with set_variables(_client_defaults(settings)):
        yield


def _client_defaults(settings: Settings) -> dict[str, str]:
    """Return the variables of a client that the user has not set."""
    defaults = {**no_tracking(), "PREFECT_HOME": str(settings.prefect)}
    profiles = Path.home() / ".prefect" / "profiles.toml"
    # The profiles of the user may name a server.
    if "PREFECT_HOME" not in os.environ and profiles.exists():
        defaults["PREFECT_PROFILES_PATH"] = str(profiles)
    if not user_wants_logs():
        defaults[_CONSOLE] = _CONSOLE_LEVEL
        # Prefect would print every event that it sends again.
        defaults["PREFECT_LOGGING_INTERNAL_LEVEL"] = "CRITICAL"
    return unless_set(defaults)


@contextmanager
def quiet_children() -> Iterator[None]:
    """Send tracebacks of runs in child processes to the server only."""
    ours = os.environ.get(_CONSOLE) == _CONSOLE_LEVEL
    with set_variables({_CONSOLE: "CRITICAL"} if ours else {}):
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


def unless_set(defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the user has not set."""
    return {name: value for name, value in defaults.items() if name not in os.environ}


def no_tracking() -> dict[str, str]:
    """Return the variables that switch off Prefect's telemetry."""
    return {"DO_NOT_TRACK": "true", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}


def user_wants_logs() -> bool:
    """Return whether the user has set the level of Prefect's logs."""
    return "PREFECT_LOGGING_LEVEL" in os.environ

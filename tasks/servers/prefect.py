"""The Prefect server of a run: the one that the user has named, or one of our own."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import httpx

from configs.errors import UserError
from tasks.servers.keeper import LOOPBACK, ServerKind
from tasks.servers.prefect_environment import (
    client_environment,
    no_tracking,
    set_variables,
    unless_set,
    user_wants_logs,
)
from tasks.servers.shared_server import Lease, server_lease
from tasks.storage.addresses import scrubbed, without_credentials
from tasks.storage.settings import Settings, ensure_writable

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_FLUSH = 10.0  # seconds for the last log lines of a run to reach the server


class PrefectRefusedError(UserError):
    """The Prefect server answers, but does not admit us."""


@contextmanager
def prefect_server(settings: Settings) -> Iterator[str]:
    """Yield the API address of a Prefect server to which this process is connected.

    Parameters
    ----------
    settings : where our own server keeps its state, unless the user has named one.
    """
    with upcoming_prefect_server(settings) as connect:
        yield connect()


@contextmanager
def upcoming_prefect_server(settings: Settings) -> Iterator[Callable[[], str]]:
    """Yield a function that waits for the server, connects to it, returns its API address.

    The server starts in the background, so that a caller can prepare other things meanwhile.
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
    """Return the API address that the user has named by environment, profile or file, if any."""
    if settings.prefect_api_url is not None:
        return settings.prefect_api_url
    # Imported late: it takes a second and reads the environment.
    from prefect.settings import Settings as PrefectSettings

    return PrefectSettings().api.url


def prefect_kind(settings: Settings) -> ServerKind:
    """Return how our own server is started: on loopback, all its state under FKD_HOME."""
    folder = settings.prefect
    # All services run, so that runs, schedules and pages can share the server;
    # idle they cost 1 % of a core.
    command = (sys.executable, "-P", "-m", "prefect", "server", "start")
    return ServerKind(
        title="Prefect",
        folder=folder,
        arguments=(*command, "--host", LOOPBACK, "--port", "{port}"),
        health="/api/health",
        environment={
            "PREFECT_SERVER_API_HOST": LOOPBACK,
            "PREFECT_SERVER_API_PORT": "{port}",
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
def _connected(url: str) -> Iterator[None]:
    """Direct this process, with the processes it starts, to the API address."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with (
        set_variables({"PREFECT_API_URL": url}),
        temporary_settings({PREFECT_API_URL: url}),
        _quiet_run_logs(),
    ):
        yield


@contextmanager
def _without_heartbeats() -> Iterator[None]:
    """Send no signs of life to a server of ours, where nobody waits for them.

    Prefect sends them from a thread that a run's end would wait for, up to a second.
    """
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
    """Keep the logs of runs, with their tracebacks, to the server unless the user wants them."""
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
    """Wait for our own server; what is still to be sent is sent before it goes."""
    root = lease.url()
    host = root.removeprefix("http://").rpartition(":")[0]
    # A proxy for the outside world cannot reach this machine's loopback.
    beyond_proxy = ",".join(filter(None, [os.environ.get("NO_PROXY"), host]))
    stack.enter_context(set_variables({"NO_PROXY": beyond_proxy, "no_proxy": beyond_proxy}))
    stack.enter_context(_without_heartbeats())
    stack.enter_context(_connected(f"{root}/api"))
    stack.callback(_flush)
    return f"{root}/api"


def _flush() -> None:
    """Send the queued logs with the queued events of this process."""
    from prefect.events.worker import EventsWorker

    # The queues of logs are among these: all such services share one register.
    EventsWorker.drain_all(timeout=_FLUSH)


def _connect_named(url: str, stack: ExitStack) -> str:
    """Connect to the server that the user has named, or say that it does not answer."""
    stack.enter_context(_connected(url))
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        failure = client.api_healthcheck()
        if failure is not None:
            cause = scrubbed(str(failure), url)
            raise UserError(
                "PREFECT_API_URL must be the address of a running Prefect server, but "
                f"{without_credentials(url)} does not answer ({cause}); start it, correct the "
                "address (it ends in /api), or unset it everywhere, profile included, to let fkd "
                "run its own."
            )
        _check_admitted(client, url)
    return url


def _check_admitted(client: "SyncPrefectClient", url: str) -> None:
    """Refuse a server that answers everybody's health check but not our requests."""
    try:
        client.api_version()
    except httpx.HTTPStatusError as error:
        # Other codes are left to the run: not every server tells its version.
        if error.response.status_code in (401, 403):
            raise PrefectRefusedError(
                f"The Prefect server at {without_credentials(url)} does not admit us "
                f"({error.response.status_code}); set PREFECT_API_AUTH_STRING=user:password, or "
                "PREFECT_API_KEY for Prefect Cloud."
            ) from error

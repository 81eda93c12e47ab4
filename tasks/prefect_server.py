"""The Prefect server of a run: the one that the user has named, or one of our own."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from configs.errors import UserError
from tasks.server_keeper import LOOPBACK, ServerKind
from tasks.settings import Settings, ensure_writable
from tasks.shared_server import Lease, server_lease

_CONSOLE = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
_CONSOLE_LEVEL = "WARNING"
_FLUSH = 10.0  # seconds for the last log lines of a run to reach the server


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
            **_unless_set(
                {
                    **_no_tracking(),
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
def client_environment(settings: Settings) -> Iterator[None]:
    """Keep Prefect quiet, its state under FKD_HOME; what the user has set wins.

    In force before Prefect is first imported, which creates its home folder at that moment.
    """
    settings.prefect.mkdir(parents=True, exist_ok=True)
    with _environment(_client_defaults(settings)):
        yield


def _client_defaults(settings: Settings) -> dict[str, str]:
    """Return the variables of a client that the user has not decided."""
    defaults = {**_no_tracking(), "PREFECT_HOME": str(settings.prefect)}
    profiles = Path.home() / ".prefect" / "profiles.toml"
    # Our PREFECT_HOME must not hide the user's profiles, which may name a server.
    if "PREFECT_HOME" not in os.environ and profiles.exists():
        defaults["PREFECT_PROFILES_PATH"] = str(profiles)
    if not _user_wants_logs():
        defaults[_CONSOLE] = _CONSOLE_LEVEL
    return _unless_set(defaults)


def _no_tracking() -> dict[str, str]:
    """Return the variables that keep Prefect from calling home."""
    return {"DO_NOT_TRACK": "true", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}


def _unless_set(defaults: Mapping[str, str]) -> dict[str, str]:
    """Return those defaults that the user has not decided."""
    return {name: value for name, value in defaults.items() if name not in os.environ}


def _user_wants_logs() -> bool:
    """Return whether the user has chosen what Prefect writes to the terminal."""
    return "PREFECT_LOGGING_LEVEL" in os.environ


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, for our child processes too; put the old ones back."""
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


@contextmanager
def _connected(url: str) -> Iterator[None]:
    """Direct this process, with the processes it starts, to the API address."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with (
        _environment({"PREFECT_API_URL": url}),
        temporary_settings({PREFECT_API_URL: url}),
        _quiet_run_logs(),
    ):
        yield


@contextmanager
def quiet_children() -> Iterator[None]:
    """Keep the tracebacks of runs in processes of their own to the server, too."""
    ours = os.environ.get(_CONSOLE) == _CONSOLE_LEVEL
    with _environment({_CONSOLE: "CRITICAL"} if ours else {}):
        yield


@contextmanager
def _quiet_run_logs() -> Iterator[None]:
    """Keep the logs of runs, with their tracebacks, to the server unless the user wants them."""
    names = () if _user_wants_logs() else ("prefect.flow_runs", "prefect.task_runs")
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
    stack.enter_context(_environment({"NO_PROXY": beyond_proxy, "no_proxy": beyond_proxy}))
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
        raise UserError(
            f"PREFECT_API_URL must be the address of a running Prefect server, but {url} does not "
            f"answer ({failure}); start it, correct the address (it ends in /api), or unset "
            "it everywhere, profile included, to let fkd run its own."
        )
    return url

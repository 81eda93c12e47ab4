"""The environment variables under which Prefect is used."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tasks.storage.settings import Settings

_CONSOLE = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
_CONSOLE_LEVEL = "WARNING"


@contextmanager
def client_environment(settings: Settings) -> Iterator[None]:
    """Keep Prefect quiet, its state under FKD_HOME; what the user has set wins.

    In force before Prefect is first imported, which creates its home folder at that moment.
    """
    settings.prefect.mkdir(parents=True, exist_ok=True)
    with set_variables(_client_defaults(settings)):
        yield


def _client_defaults(settings: Settings) -> dict[str, str]:
    """Return the variables of a client that the user has not decided."""
    defaults = {**no_tracking(), "PREFECT_HOME": str(settings.prefect)}
    profiles = Path.home() / ".prefect" / "profiles.toml"
    # Our PREFECT_HOME must not hide the user's profiles, which may name a server.
    if "PREFECT_HOME" not in os.environ and profiles.exists():
        defaults["PREFECT_PROFILES_PATH"] = str(profiles)
    if not user_wants_logs():
        defaults[_CONSOLE] = _CONSOLE_LEVEL
        # Every event that must be sent again would be printed whole.
        defaults["PREFECT_LOGGING_INTERNAL_LEVEL"] = "CRITICAL"
    return unless_set(defaults)


@contextmanager
def quiet_children() -> Iterator[None]:
    """Keep the tracebacks of runs in processes of their own to the server, too."""
    ours = os.environ.get(_CONSOLE) == _CONSOLE_LEVEL
    with set_variables({_CONSOLE: "CRITICAL"} if ours else {}):
        yield


@contextmanager
def set_variables(values: Mapping[str, str]) -> Iterator[None]:
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


def unless_set(defaults: Mapping[str, str]) -> dict[str, str]:
    """Return those defaults that the user has not decided."""
    return {name: value for name, value in defaults.items() if name not in os.environ}


def no_tracking() -> dict[str, str]:
    """Return the variables that keep Prefect from calling home."""
    return {"DO_NOT_TRACK": "true", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}


def user_wants_logs() -> bool:
    """Return whether the user has chosen what Prefect writes to the terminal."""
    return "PREFECT_LOGGING_LEVEL" in os.environ

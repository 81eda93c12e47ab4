"""Settings from environment variables, which no other module reads."""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from configs.errors import UserError
from tasks.storage.files import full_disk_error

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_VARIABLES = {"--log-format": "FKD_LOG_FORMAT", "--log-level": "FKD_LOG_LEVEL"}


@dataclass(frozen=True)
class LogForm:
    """Format and lowest level of log lines."""

    format: str
    level: str


@dataclass(frozen=True)
class Settings:
    """Folders of FKD_HOME, the store, and the servers that the user has configured.

    A pickled object has the location of the store and no other address, since an address may
    contain a password. On a worker, `home` is the worker's own FKD_HOME, or the driver's if that
    contains the store.
    """

    home: Path
    mirror: str | None = None
    prefect_api_url: str | None = None
    mlflow_tracking_uri: str | None = None
    mlflow_registry_uri: str | None = None  # of registered models, if not that of the runs
    shared: str | None = None  # FKD_STORE as an absolute path or address; None: FKD_HOME/store
    dask_scheduler_address: str | None = None

    def for_workers(self) -> "Settings":
        """Return the settings without addresses of servers."""
        return Settings(self.home, shared=self.shared)

    def __reduce__(self) -> tuple[Any, ...]:
        return _on_worker, (self.home if self.shared is None else None, self.shared)

    @property
    def store(self) -> str:
        """The store that processes share: a folder or an address."""
        return str(self.home / "store") if self.shared is None else self.shared

    @property
    def downloads(self) -> Path:
        """Downloaded files, by checksum."""
        return self.home / "downloads"

    @property
    def features(self) -> Path:
        """Cached features of rows, by key. Each machine has its own."""
        return self.home / "features"

    @property
    def experiments(self) -> Path:
        """Results, figures and reports, by experiment name."""
        return self.home / "experiments"

    @property
    def mlflow(self) -> Path:
        """The default MLflow database with its artifacts."""
        return self.home / "mlflow"

    @property
    def prefect(self) -> Path:
        """The default Prefect database and the logs of its server."""
        return self.home / "prefect"


def read_settings() -> Settings:
    """Return the settings of the environment variables, read at each call."""
    return Settings(
        home=Path(os.environ.get("FKD_HOME") or ".fkd").expanduser().absolute(),
        mirror=os.environ.get("FKD_DATA_MIRROR") or None,
        prefect_api_url=os.environ.get("PREFECT_API_URL") or None,
        mlflow_tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or None,
        mlflow_registry_uri=os.environ.get("MLFLOW_REGISTRY_URI") or None,
        shared=_store_address(os.environ.get("FKD_STORE") or None),
        dask_scheduler_address=os.environ.get("DASK_SCHEDULER_ADDRESS") or None,
    )


def read_log_form(options: Mapping[str, str] | None = None, *, strict: bool = True) -> LogForm:
    """Return the form of log lines, from options of the command line or environment variables.

    Parameters
    ----------
    options
        Values of --log-format and --log-level, if given.
    strict
        Refuse unknown values. Otherwise the default is used for them.
    """
    found = []
    for option, default, choices in (
        ("--log-format", "text", ("text", "json")),
        ("--log-level", "info", LOG_LEVELS),
    ):
        given = (options or {}).get(option)
        value = os.environ.get(LOG_VARIABLES[option]) if given is None else given
        found.append(value if value in choices else default)
        if (strict and value not in (None, "", *choices)) or given == "":
            name = LOG_VARIABLES[option] if given is None else option
            raise UserError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")
    return LogForm(*map(str, found))


def child_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child process: that of this process with more variables."""
    return {**os.environ, **more}


def _store_address(named: str | None) -> str | None:
    """Return FKD_STORE as an absolute path, or as an address without credentials."""
    if named is None:
        return None
    protocol, mark, path = named.partition("://")
    if not mark or protocol == "file":
        return str(Path(path if mark else named).expanduser().absolute())
    if credentials(named):
        raise UserError(
            f"FKD_STORE must not contain credentials, got {without_credentials(named)} with some. "
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, on each machine."
        )
    return named.rstrip("/")


def _on_worker(home: Path | None, shared: str | None) -> Settings:
    """Return unpickled settings."""
    return Settings(home or _own_home(), shared=shared)


@cache
def _own_home() -> Path:
    """Return FKD_HOME, or a private folder that is removed when this process ends."""
    named = os.environ.get("FKD_HOME")
    if named:
        return Path(named).expanduser().absolute()
    folder = tempfile.mkdtemp(prefix="fkd-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def read_secret(reference: str) -> str:
    """Return the secret that env:NAME or file:PATH refers to, without surrounding white space."""
    kind, _, name = reference.partition(":")
    try:
        found = os.environ[name] if kind == "env" else Path(name).expanduser().read_text("utf-8")
    except KeyError:
        raise UserError(f"the environment variable {name} is not set.") from None
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or type(error).__name__
        raise UserError(f"the file {name} cannot be read ({cause}).") from None
    if not found.strip():
        raise UserError(f"{reference} must not be empty.")
    return found.strip()


def ensure_writable(home: Path) -> None:
    """Create FKD_HOME for its owner alone; raise a UserError if it is not writable.

    An existing folder keeps its permissions.
    """
    if "?" in str(home):
        raise UserError(
            f"FKD_HOME must not contain a question mark, got {home}: it would end the address of "
            "a database. Choose another folder."
        )
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        try:
            home.mkdir(mode=0o700)
            home.chmod(0o700)  # the umask may have removed permissions of the owner
        except FileExistsError:
            if not home.is_dir():
                raise
        probe = home / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"FKD_HOME must be a writable folder, but {home} is not ({error.strerror}). Set "
            "FKD_HOME to a folder with write permission, on a disk with free space."
        ) from error
    if (full := full_disk_error(home)) is not None:
        raise full


def quiet_ecosystem() -> None:
    """Disable telemetry and log output of Prefect, MLflow and Alembic, unless the user set it."""
    for name, value in {
        "DO_NOT_TRACK": "true",  # MLflow tests for the text "true"
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        # MLflow's retries take minutes, and repeat requests whose answer was lost.
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
        "GIT_PYTHON_REFRESH": "quiet",
    }.items():
        os.environ.setdefault(name, value)


_ADDRESS = re.compile(r"(?i)\b[a-z][a-z0-9+.-]*://\S+")
_SECRET = re.compile(r"(?i)user|uid|pass|pwd|token|secret|key|auth|cred|sig|odbc_connect")


def without_credentials(address: str) -> str:
    """Return an address without user, password, secret parameters and fragment."""
    scheme, colon, rest = address.partition("://")
    if not colon:
        return address
    path, mark, query = rest[_userinfo_end(rest) :].partition("#")[0].partition("?")
    kept = [pair for pair in query.split("&") if not _SECRET.search(unquote(pair.split("=")[0]))]
    return f"{scheme}://{path}{mark if any(kept) else ''}{'&'.join(kept)}"


def credentials(address: str) -> set[str]:
    """Return each user, password and token of an address, as written and percent-decoded."""
    _, _, rest = address.partition("://")
    found = set(rest[: _userinfo_end(rest)].removesuffix("@").split(":", 1))
    query = rest.partition("#")[0].partition("?")[2]
    found |= {value for name, value in parse_qsl(query) if _SECRET.search(name)}
    found |= {pair.partition("=")[2] for pair in query.split("&") if _SECRET.search(pair)}
    return {text for secret in found for text in (secret, unquote(secret)) if text}


def scrubbed(text: str, *addresses: str) -> str:
    """Return a text without the credentials of the addresses in it and of these addresses."""
    shown = _ADDRESS.sub(lambda found: without_credentials(found[0]), text)
    secrets = {secret for address in addresses for secret in credentials(address)}
    for secret in sorted(secrets, key=len, reverse=True):
        shown = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", shown)
    return shown


def short_error(error: BaseException, most: int = 200) -> str:
    """Return the message of an error on one line of limited length, without credentials."""
    text = scrubbed(" ".join(str(error).split()))[:most]
    return text.rstrip(".;, ") or type(error).__name__


def _userinfo_end(rest: str) -> int:
    """Return the position behind `user:password@` in the part after `://`, 0 without it.

    A password may contain any of `/`, `?`, `#`, `@`, though it should not. The supposed port is
    then not a number.
    """
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        return authority.rindex("@") + 1
    _, colon, port = authority.rpartition(":")
    if colon and not port.isdigit() and not authority.endswith("]") and "@" in rest:
        return rest.rindex("@") + 1
    return 0


def plain_markdown(text: str) -> str:
    """Return a text with all Markdown characters escaped."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in text)

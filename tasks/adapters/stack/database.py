"""The PostgreSQL of a stack: made once, its password renewed at every start."""

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from configs.errors import UserError
from tasks.adapters.servers.server_kind import LOOPBACK, ServerKind
from tasks.adapters.stack.keys import Keys

USER = "fkd"
_DATABASES = ("mlflow", "prefect")
_DEBIAN = Path("/usr/lib/postgresql")
_SERVANT = "postgres"  # as whom it runs where we are root, which it refuses


def programs() -> Path:
    """Return the folder of PostgreSQL's programs."""
    found = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found and (anywhere := shutil.which("initdb")):
        found = [Path(anywhere).resolve()]
    if not found:
        raise UserError(
            "`fkd up` needs PostgreSQL, but neither /usr/lib/postgresql nor PATH has its initdb; "
            "install it (Debian: apt install postgresql)."
        )
    return found[-1].parent


def servant() -> str | None:
    """Return as whom PostgreSQL must run, None where that may be us."""
    if os.getuid() != 0:
        return None
    try:
        pwd.getpwnam(_SERVANT)
    except KeyError:
        raise UserError(
            f"PostgreSQL refuses to run as root, and there is no user {_SERVANT} to run it as; "
            f"create one (`adduser --system {_SERVANT}`), or use fkd as another user than root."
        ) from None
    return _SERVANT


def database_kind(folder: Path, port: int) -> ServerKind:
    """Return how the database is started: by TCP on loopback alone, with passwords."""
    # No socket in the file system: its folder would have to be everybody's.
    options = {"listen_addresses": LOOPBACK, "unix_socket_directories": ""}
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    return ServerKind(
        title="PostgreSQL",
        folder=folder,
        arguments=(str(programs() / "postgres"), "-D", "{data}", "-p", "{port}", *words),
        health="",
        probe=(str(programs() / "pg_isready"), "-q", "-h", LOOPBACK, "-p", "{port}"),
        farewell=signal.SIGINT,  # SIGTERM would wait until every client has left
        scheme="postgresql",
        port=port,
        user=servant(),
        data=str(folder / "data"),
    )


def prepare_database(folder: Path, keys: Keys) -> None:
    """Make the databases where there are none, then set the password of this life."""
    data = folder / "data"
    if not data.exists():
        part = folder / "data.part"  # what was interrupted is made anew
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700, parents=True)
        if (user := servant()) is not None:
            shutil.chown(part, user)
        form = ("-E", "UTF8", "--locale=C", "--no-instructions")
        _run(part, ("initdb", "-D", "{data}", "-U", USER, "-A", "reject", *form), "")
        # In place, so that it stays its owner's.
        (part / "pg_hba.conf").write_text(f"host all {USER} {LOOPBACK}/32 scram-sha-256\n")
        for name in _DATABASES:
            _alone(part, f"CREATE DATABASE {name}")
        part.rename(data)
    _alone(data, f"ALTER ROLE {USER} PASSWORD '{keys.read('database')}'")


def address(keys: Keys, port: int, database: str, driver: str = "") -> str:
    """Return the address of a database, password included."""
    scheme = "postgresql" + (f"+{driver}" if driver else "")
    return f"{scheme}://{USER}:{keys.read('database')}@{LOOPBACK}:{port}/{database}"


def _alone(data: Path, statement: str) -> None:
    """Carry out a statement in a database that is not running, whatever the password."""
    _run(data, ("postgres", "--single", "-D", "{data}", "postgres"), f"{statement};\n")


def _run(data: Path, words: Sequence[str], told: str) -> None:
    """Run one of PostgreSQL's programs on a folder; what it is told goes by its input."""
    program, user = programs() / words[0], servant()
    handle = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        place = str(data) if user is None else f"/proc/self/fd/{handle}"
        done = subprocess.run(
            [str(program), *(word.replace("{data}", place) for word in words[1:])],
            input=told,
            capture_output=True,
            text=True,
            cwd="/",
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
            pass_fds=(handle,),
        )
    finally:
        os.close(handle)
    if done.returncode or "ERROR" in done.stderr:
        # The statement itself may be told, with the password in it.
        said = " ".join(re.sub(r"'[^']*'", "'***'", done.stderr).split())[-300:]
        raise UserError(f"PostgreSQL's {words[0]} failed in {data} ({said}).")

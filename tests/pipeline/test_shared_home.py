"""Permissions of files in an FKD_HOME."""

import json
import os
import stat
import tempfile
import traceback
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tasks.data.download import Cache, CachedFile, file_sha256
from tasks.storage.files import sweep_leftovers
from tasks.storage.settings import Settings, ensure_writable
from tasks.storage.store import open_store
from tasks.track.run_index import begin, read_status, write_status

GROUP, ANN, BOB = 54_321, 54_322, 54_323


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077, 0o777])
def test_a_new_home_is_private_with_any_umask(tmp_path, mask):
    with umask(mask):
        ensure_writable(tmp_path / "home")
    assert rights(tmp_path / "home") == 0o700


@pytest.mark.parametrize("mode", [0o2770, 0o755, 0o750])
def test_an_existing_home_keeps_its_permissions(tmp_path, mode):
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(mode)
    with umask(0o077):
        ensure_writable(home)
    assert rights(home) == mode


@pytest.mark.parametrize(("mask", "file", "folder"), [(0o002, 0o664, 0o775), (0o077, 0o600, 0o700)])
def test_permissions_of_files_follow_the_umask(tmp_path, mask, file, folder):
    with umask(mask):
        _work(tmp_path / "home", "x")
    written = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert {rights(path) for path in written} == {file}
    assert {rights(path) for path in (tmp_path / "home").rglob("*") if path.is_dir()} == {folder}


def _work(home, who):
    """Write every kind of file that runs share: records, status, downloads with their locks."""
    settings = Settings(home)
    ensure_writable(home)
    open_store(settings).write_arrays("ab/record.arrays", {"a": np.arange(3.0)})
    assert open_store(settings).read_arrays("ab/record.arrays") is not None
    write_status(settings, begin("run", 3, 0))
    assert read_status(settings, "run").total == 3
    cache = Cache(settings.downloads)
    with cache.lock("file.zip"):
        partial = cache.partial_path("file.zip")
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(who)
        digest = file_sha256(partial)
        cache.admit(partial, CachedFile("file.zip", digest, len(who), "host", pinned=False))
    cache.remove_leftovers()
    sweep_leftovers(settings.home)


def _as_user(user, work):
    """Do the work as another user of the same group, in a process of its own."""
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setgroups([])
            os.setgid(GROUP)
            os.setuid(user)
            os.umask(0o002)
            work()
            code = 0
        except BaseException:  # a child that raised would run the other tests
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_two_users_of_a_group_work_in_one_folder(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, ANN, GROUP)
    home.chmod(0o2770)
    everybody = Path(tempfile.gettempdir()).resolve()
    for folder in tmp_path.resolve().parents:
        if everybody in folder.parents:
            folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    assert _as_user(ANN, lambda: _work(home, "ann")) == 0
    assert _as_user(BOB, lambda: _work(home, "bob")) == 0
    assert _as_user(ANN, lambda: _work(home, "ann")) == 0


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", json.dumps({"failures": [], "more": 1})])
def test_a_damaged_status_counts_as_absent(tmp_path, content):
    folder = tmp_path / "experiments" / "run"
    folder.mkdir(parents=True)
    (folder / "status.json").write_text(content)
    assert read_status(Settings(tmp_path), "run") is None

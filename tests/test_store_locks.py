"""Locks of a store: one holder at a time, on a folder and on an object store."""

import threading
import time

import pytest
from object_stores import BUCKET, moto_server, variables

from tasks.storage import locks
from tasks.storage.locks import store_lock
from tasks.storage.settings import Settings
from tasks.storage.store import open_store, store_id


@pytest.fixture(scope="module")
def endpoint():
    with moto_server() as found:
        yield found


@pytest.fixture(params=["folder", "s3"])
def homes(request, tmp_path, monkeypatch):
    """Two homes on one store."""
    address = str(tmp_path / "store")
    if request.param == "s3":
        for name, value in variables(request.getfixturevalue("endpoint")).items():
            monkeypatch.setenv(name, value)
        address = f"s3://{BUCKET}/{tmp_path.name}"
    return [Settings(tmp_path / name, shared=address) for name in ("one", "other")]


def _hold(settings):
    return store_lock(open_store(settings), "test", settings.home)


def test_one_process_holds_the_lock_at_a_time(homes):
    inside, most = [], []

    def work(settings):
        for _ in range(4):
            with _hold(settings):
                inside.append(settings)
                time.sleep(0.02)
                most.append(len(inside))
                inside.remove(settings)

    threads = [threading.Thread(target=work, args=(settings,)) for settings in homes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_an_error_releases_the_lock(homes):
    with pytest.raises(ZeroDivisionError), _hold(homes[0]):
        raise ZeroDivisionError
    with _hold(homes[1]):
        pass


def test_homes_of_one_store_know_its_name(homes, tmp_path):
    assert store_id(homes[0]) == store_id(homes[1])
    assert store_id(Settings(tmp_path / "third")) != store_id(homes[0])


def test_the_lease_of_a_killed_process_expires(tmp_path, monkeypatch, endpoint):
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)
    settings = Settings(tmp_path / "home", shared=f"s3://{BUCKET}/{tmp_path.name}")
    monkeypatch.setattr(locks, "EXPIRE_SECONDS", 1.0)
    open_store(settings).write("locks/test/000000000007", b"of a process that was killed")
    start = time.monotonic()
    with _hold(settings):
        assert time.monotonic() - start >= 1.0


def test_a_renewed_lease_does_not_expire(tmp_path, monkeypatch, endpoint):
    for name, value in variables(endpoint).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(locks, "EXPIRE_SECONDS", 1.0)
    monkeypatch.setattr(locks, "RENEW_SECONDS", 0.2)
    address = f"s3://{BUCKET}/{tmp_path.name}"
    one, other = (Settings(tmp_path / name, shared=address) for name in ("one", "other"))
    taken = threading.Event()

    def take():
        with _hold(other):
            taken.set()

    thread = threading.Thread(target=take)
    with _hold(one):
        thread.start()
        assert not taken.wait(3.0)
    assert taken.wait(30.0)
    thread.join()

"""The cache of downloads: records, removal, processes at the same time."""

import hashlib
import os
import subprocess
import sys
import threading
import time

import pytest

from tasks.data.file_cache import Cache, CachedFile, file_sha256


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "downloads")


def put(cache, name, content):
    partial = cache.partial_path(name)
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_bytes(content)
    record = CachedFile(
        name, hashlib.sha256(content).hexdigest(), len(content), "host", pinned=False
    )
    cache.admit(partial, record)
    return record


def test_what_is_admitted_is_found(cache):
    record = put(cache, "a/b.zip", b"content")
    assert cache.find("a/b.zip") == record
    assert cache.is_intact(record)
    assert file_sha256(cache.object_path(record.sha256)) == record.sha256
    assert list(cache.records()) == [record]


def test_what_is_absent_is_not_found(cache):
    assert cache.find("a/b.zip") is None
    assert list(cache.records()) == []
    assert cache.remove_leftovers() == (0, 0)


@pytest.mark.parametrize("spoil", [lambda p: p.unlink(), lambda p: p.write_bytes(b"contenT")])
def test_a_changed_object_is_not_intact(cache, spoil):
    record = put(cache, "a", b"content")
    spoil(cache.object_path(record.sha256))
    assert not cache.is_intact(record)


@pytest.mark.parametrize("place", [0, 30, 64, 70, -1])
def test_a_changed_record_counts_as_none(cache, place):
    put(cache, "a", b"content")
    path = cache.folder / "names" / "a.json"
    spoilt = bytearray(path.read_bytes())
    spoilt[place] ^= 1
    path.write_bytes(spoilt)
    assert cache.find("a") is None
    assert not path.exists()  # it went when it was read
    assert cache.remove_leftovers() == (1, 0)  # the object of that record


def test_removing_a_name_keeps_content_that_another_name_has(cache):
    first, second = put(cache, "a", b"same"), put(cache, "b", b"same")
    cache.remove("a")
    assert cache.is_intact(second)
    cache.remove("b")
    assert not cache.object_path(first.sha256).exists()


def _orphan(cache):
    orphan = cache.object_path("f" * 64)
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"x")
    return orphan


def _partial(cache, name, age=0.0):
    partial = cache.partial_path(name)
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_bytes(b"x")
    partial.with_suffix(".json").write_text("{}")
    then = time.time() - age
    os.utime(partial, (then, then))
    return partial


def test_leftovers_are_what_no_record_refers_to(cache):
    kept = put(cache, "a", b"content")
    orphan, partial = _orphan(cache), _partial(cache, "b")
    assert cache.remove_leftovers() == (2, 0)
    assert not orphan.exists()
    assert list(partial.parent.iterdir()) == []
    assert cache.is_intact(kept)


def test_a_download_that_may_be_continued_is_kept_for_a_while(cache):
    young, old = _partial(cache, "young"), _partial(cache, "old", age=100)
    assert cache.remove_leftovers(older_than=50) == (1, 0)
    assert young.exists()
    assert not old.exists()


def test_what_another_process_fetches_is_never_removed(cache):
    record = put(cache, "a/b.zip", b"content")
    live, left = _partial(cache, "a/b.zip"), _partial(cache, "c")
    script = (
        "import pathlib, sys\n"
        "from tasks.data.file_cache import Cache\n"
        "with Cache(pathlib.Path(sys.argv[1])).lock('a/b.zip'):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    fetcher = subprocess.Popen(
        [sys.executable, "-c", script, str(cache.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with fetcher:
        assert fetcher.stdout.readline() == "held\n"
        assert cache.remove_leftovers() == (1, 1)
        assert not cache.remove("a/b.zip")
        assert live.exists()
        assert live.with_suffix(".json").exists()
        assert not left.exists()
        assert cache.is_intact(record)
        assert cache.find("a/b.zip") == record
        fetcher.kill()
    assert cache.remove_leftovers() == (1, 0)
    assert cache.remove("a/b.zip")


def test_a_file_that_is_just_being_admitted_is_no_leftover(cache):
    """Bytes come before their record; whoever cleans up in between must not see them alone."""

    def fetch(i):
        with cache.lock(f"n{i}"):
            put(cache, f"n{i}", bytes([i]) * 1000)

    threads = [threading.Thread(target=fetch, args=[i]) for i in range(60)]
    for thread in threads:
        thread.start()
        removed, _ = cache.remove_leftovers(older_than=1000)
        assert removed == 0
    for thread in threads:
        thread.join()
    assert all(cache.is_intact(record) for record in cache.records())
    assert len(list(cache.records())) == 60

import hashlib

import pytest

from tasks.data.cache import Cache, CachedFile, file_sha256


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
    assert cache.leftovers() == []


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
    assert path in cache.leftovers()


def test_removing_a_name_keeps_content_that_another_name_has(cache):
    first, second = put(cache, "a", b"same"), put(cache, "b", b"same")
    cache.remove("a")
    assert cache.is_intact(second)
    cache.remove("b")
    assert not cache.object_path(first.sha256).exists()


def test_leftovers_are_what_no_record_refers_to(cache):
    kept = put(cache, "a", b"content")
    orphan = cache.object_path("f" * 64)
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"x")
    partial = cache.partial_path("b")
    partial.write_bytes(b"x")
    assert cache.leftovers() == [orphan, partial]
    assert cache.is_intact(kept)

from tasks.servers.keeper import EXCLUSIVE, SHARED, locked


def test_a_lock_is_seen_by_others_until_its_holder_is_gone(tmp_path):
    with locked(tmp_path / "lock", SHARED) as first:
        assert first
        with locked(tmp_path / "lock", EXCLUSIVE) as second:
            assert not second
    with locked(tmp_path / "lock", EXCLUSIVE) as third:
        assert third

import socket

import pytest
from server_process import HOLD, PATIENCE, Holder, light_kind

from tasks.servers.keeper import ServerKind, answers, free_port


def test_a_declaration_travels_unchanged(tmp_path):
    kind = light_kind(tmp_path, environment={"A": "{port}"}, pinned=True)
    assert ServerKind.loads(kind.dumps()) == kind


def test_a_free_port_can_be_bound_on_loopback():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free_port()))


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "nonsense", "http://"])
def test_nothing_answers_where_nothing_is(url):
    assert not answers(url)


def test_health_is_never_asked_through_a_proxy(tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Holder(HOLD, light_kind(tmp_path / "light").dumps(), home=tmp_path) as holder:
        assert answers(holder.url(), timeout=PATIENCE)

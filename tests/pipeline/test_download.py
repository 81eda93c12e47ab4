"""Downloads from a loopback host (retries, deadlines, zips), and the cache of downloads."""

import hashlib
import io
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from deadlines import patient
from soak_figures import keep

from configs.errors import UserError
from tasks.data import download
from tasks.data.census import person_file
from tasks.data.download import (
    Cache,
    CachedFile,
    RemoteFile,
    TransferPolicy,
    UnsafeZipError,
    addresses,
    check_content,
    check_zip,
    fetch,
    fetch_all,
    file_sha256,
)
from tasks.data.sources import COMMUNITIES
from tasks.storage.settings import Settings

FAST = TransferPolicy(connect=1.0, read=0.4, window=0.5, floor=10**6, attempts=3, backoff=0.01)
NAME = "census/2018/1-Year/csv_pwy.zip"
MEMBER = "psam_p56.csv"


class Host(ThreadingHTTPServer):
    """A loopback host that answers each request for a path by the next behaviour of a list."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plans = {}
        self.seen = []
        self.released = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def plan(self, path, *behaviours):
        """Set the behaviours of a path. The last one is repeated."""
        self.plans[path] = list(behaviours)

    def handle_error(self, request, client_address):
        """Ignore clients that close the connection."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        plan = self.server.plans.get(self.path)
        if plan is None:
            return self.send_error(404)
        behaviour = plan.pop(0) if len(plan) > 1 else plan[0]
        return behaviour(self)

    def log_message(self, *args):
        pass


def _start(handler, code, length=None, **headers):
    handler.send_response(code)
    if length is not None:
        handler.send_header("Content-Length", str(length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def whole(body, **headers):
    def answer(handler):
        _start(handler, 200, len(body), ETag='"v1"', **headers)
        handler.wfile.write(body)

    return answer


def half(body):
    """Announce the whole length, send one half, close the connection."""

    def answer(handler):
        _start(handler, 200, len(body), ETag='"v1"')
        handler.wfile.write(body[: len(body) // 2])

    return answer


def half_unannounced(body):
    def answer(handler):
        _start(handler, 200)
        handler.wfile.write(body[: len(body) // 2])

    return answer


def rest(body):
    """Answer a range request."""

    def answer(handler):
        start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        _start(
            handler,
            206,
            len(body) - start,
            Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}",
        )
        handler.wfile.write(body[start:])

    return answer


def elsewhere(body):
    """Answer a range request from the beginning."""

    def answer(handler):
        _start(handler, 206, len(body), Content_Range=f"bytes 0-{len(body) - 1}/{len(body)}")
        handler.wfile.write(body)

    return answer


def stall(body):
    """Send one half, then nothing until the test ends."""

    def answer(handler):
        _start(handler, 200, len(body), ETag='"v1"')
        handler.wfile.write(body[: len(body) // 2])
        handler.wfile.flush()
        handler.server.released.wait(30)

    return answer


def dribble(body):
    """Send single bytes with pauses."""

    def answer(handler):
        _start(handler, 200, len(body))
        for position in range(len(body)):
            handler.wfile.write(body[position : position + 1])
            handler.wfile.flush()
            if handler.server.released.wait(0.05):
                return

    return answer


def trickle_header(body):
    """Send the status line, then a header byte by byte: the read timeout never expires."""

    def answer(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not handler.server.released.wait(0.05):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    return answer


def status(code, **headers):
    page = b"<html><body>sorry</body></html>"

    def answer(handler):
        _start(handler, code, len(page), Content_Type="text/html", **headers)
        handler.wfile.write(page)

    return answer


def redirect(target):
    return lambda handler: _start(handler, 302, 0, Location=target)


def make_zip(*members, text=None):
    """A zip of (name, content) pairs, by default one small table."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members or [(MEMBER, text or "AGEP,PINCP\n40,100\n" * 400)]:
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def host(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = Host()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def body():
    return make_zip()


@pytest.fixture
def settings(tmp_path):
    return Settings(
        home=tmp_path / "home", mirror=None, prefect_api_url=None, mlflow_tracking_uri=None
    )


@pytest.fixture
def file(host):
    return RemoteFile(NAME, f"{host.url}/public.zip", member=r"psam_p56\.csv")


def pinned(file, body):
    """The file with the checksum of its content."""
    return replace(file, sha256=hashlib.sha256(body).hexdigest())


def with_mirror(settings, mirror):
    return Settings(settings.home, str(mirror), None, None)


def assert_nothing_kept(settings):
    """Check that there is neither a record nor an object."""
    assert list(Cache(settings.downloads).records()) == []
    assert [p for p in (settings.downloads / "objects").rglob("*") if p.is_file()] == []


# Complete downloads


def test_a_file_is_fetched_once_then_served_from_the_cache(host, file, settings, body):
    host.plan("/public.zip", whole(body))
    first = fetch(file, settings, policy=FAST)
    second = fetch(file, settings, policy=FAST)
    assert first.path.read_bytes() == body
    assert second == first
    assert len(host.seen) == 1
    assert first.path.name == hashlib.sha256(body).hexdigest()
    assert not first.record.pinned


def test_progress_is_reported(host, file, settings, body):
    host.plan("/public.zip", whole(body))
    calls = []
    fetch(file, settings, policy=FAST, progress=lambda *call: calls.append(call))
    assert calls[-1] == (NAME, len(body), len(body))


def test_several_files_are_returned_in_order(host, settings):
    states = ["WY", "VT", "AK", "RI", "HI"]
    files = []
    for state in states:
        file = person_file(state, 2018, "1-Year")
        member = file.member.removeprefix("(").split("|")[0] + ".csv"
        host.plan(f"/{state}", whole(make_zip((member, f"AGEP\n{state}\n"))))
        files.append(RemoteFile(file.name, f"{host.url}/{state}", file.member))
    fetched = fetch_all(files, settings, policy=FAST)
    assert [one.record.name for one in fetched] == [file.name for file in files]


def test_a_mirror_folder_is_tried_first(host, file, settings, body, tmp_path):
    mirrored = tmp_path / "mirror" / NAME
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(body)
    fetched = fetch(file, with_mirror(settings, tmp_path / "mirror"), policy=FAST)
    assert fetched.path.read_bytes() == body
    assert host.seen == []


def test_a_mirror_address_is_tried_first_then_the_publisher(host, file, settings, body):
    host.plan("/public.zip", whole(body))
    fetched = fetch(file, with_mirror(settings, f"{host.url}/mirror/"), policy=FAST)
    assert [path for path, _ in host.seen] == [f"/mirror/{NAME}", "/public.zip"]
    assert fetched.record.source == file.url


def test_a_password_in_the_mirrors_address_is_used_but_never_recorded(host, file, settings, body):
    host.plan(f"/mirror/{NAME}", whole(body))
    secret = host.url.replace("://", "://me:hidden@")
    fetched = fetch(file, with_mirror(settings, f"{secret}/mirror"), policy=FAST)
    assert host.seen[0][1]["Authorization"].startswith("Basic ")
    assert fetched.record.source == f"{host.url}/mirror/{NAME}"
    host.plan(f"/mirror/{NAME}", status(404))
    Cache(settings.downloads).remove(NAME)
    with pytest.raises(UserError, match="no such file") as raised:
        fetch(file, with_mirror(settings, f"{secret}/mirror"), policy=FAST)
    assert "hidden" not in str(raised.value)


def test_a_mirror_that_is_no_folder_is_named(file, tmp_path):
    with pytest.raises(UserError, match=r"FKD_DATA_MIRROR must be a folder.*nowhere"):
        addresses(file, str(tmp_path / "nowhere"))


# Temporary faults


@pytest.mark.parametrize("code", [500, 502, 503, 429, 408])
def test_a_busy_host_is_retried(host, file, settings, body, code):
    host.plan("/public.zip", status(code), status(code), whole(body))
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body
    assert len(host.seen) == 3


def test_retry_after_is_respected(host, file, settings, body):
    host.plan("/public.zip", status(503, Retry_After="1"), whole(body))
    start = time.monotonic()
    fetch(file, settings, policy=FAST)
    assert time.monotonic() - start >= 1.0


def test_a_truncated_download_is_continued(host, file, settings, body):
    host.plan("/public.zip", half(body), rest(body))
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body
    headers = host.seen[1][1]
    assert headers["Range"] == f"bytes={len(body) // 2}-"
    assert headers["If-Range"] == '"v1"'


def test_a_file_that_has_changed_is_fetched_as_a_whole(host, file, settings, body):
    other = make_zip(text="AGEP\n" + "77\n" * 900)
    host.plan("/public.zip", half(body), whole(other))
    assert fetch(file, settings, policy=FAST).path.read_bytes() == other


def test_a_continuation_at_another_byte_is_discarded(host, file, settings, body):
    host.plan("/public.zip", half(body), elsewhere(body), whole(body))
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body


def test_a_partial_file_that_is_too_long_is_discarded(host, file, settings, body):
    host.plan("/public.zip", half(body), status(416), whole(body))
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body


def test_a_truncation_without_announced_length_is_detected_in_the_zip(host, file, settings, body):
    host.plan("/public.zip", half_unannounced(body), whole(body))
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body


@pytest.mark.parametrize("behaviour", [stall, dribble])
def test_a_stalled_download_is_retried(host, file, settings, body, behaviour):
    host.plan("/public.zip", behaviour(body), whole(body))
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body


@pytest.mark.parametrize("behaviour", [dribble, trickle_header])
def test_a_file_has_a_total_deadline(host, file, settings, body, behaviour):
    """The host is never silent and never too slow for the stall detection."""
    host.plan("/public.zip", behaviour(body))
    limited = replace(FAST, read=30.0, window=60.0, floor=0, total=0.6)
    start = time.monotonic()
    with pytest.raises(UserError, match=r"csv_pwy\.zip could not be fetched.*within 0\.6 s"):
        fetch(file, settings, policy=limited)
    assert 0.5 < time.monotonic() - start < patient(5)
    assert len(host.seen) == 1
    assert_nothing_kept(settings)


def test_a_download_beyond_the_deadline_is_continued_later(host, file, settings, body):
    host.plan("/public.zip", stall(body), rest(body))
    limited = replace(FAST, read=0.3, backoff=30.0, total=1.0)
    with pytest.raises(UserError, match=r"within 1 s"):
        fetch(file, settings, policy=limited)
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body
    assert host.seen[1][1]["Range"] == f"bytes={len(body) // 2}-"


def test_one_flipped_byte_in_a_transfer_is_fetched_again(host, file, settings, body):
    file = pinned(file, body)
    spoilt = bytes([body[0], body[1] ^ 1]) + body[2:]
    host.plan("/public.zip", whole(spoilt), whole(body))
    fetched = fetch(file, settings, policy=FAST)
    assert fetched.path.read_bytes() == body
    assert fetched.record.pinned


def test_a_mirror_with_wrong_bytes_falls_back_to_the_publisher(host, file, settings, body):
    file = pinned(file, body)
    host.plan(f"/mirror/{NAME}", whole(make_zip(text="tampered\n1\n")))
    host.plan("/public.zip", whole(body))
    fetched = fetch(file, with_mirror(settings, f"{host.url}/mirror"), policy=FAST)
    assert fetched.path.read_bytes() == body


# Permanent faults


@pytest.mark.parametrize(
    ("code", "words"),
    [(404, "no such file"), (403, "refuses"), (401, "refuses"), (400, "status 400")],
)
def test_a_refusal_is_final(host, file, settings, code, words):
    host.plan("/public.zip", status(code))
    with pytest.raises(
        UserError, match=rf"csv_pwy\.zip could not be fetched.*{words}.*FKD_DATA_MIRROR"
    ):
        fetch(file, settings, policy=FAST)
    assert len(host.seen) == 1
    assert_nothing_kept(settings)


def test_retries_are_bounded(host, file, settings):
    host.plan("/public.zip", status(500))
    with pytest.raises(UserError, match="status 500"):
        fetch(file, settings, policy=FAST)
    assert len(host.seen) == FAST.attempts


def test_a_web_page_instead_of_a_zip_is_refused(host, file, settings):
    page = b"<html>Access denied</html>"
    host.plan("/public.zip", whole(page, Content_Type="text/html"))
    with pytest.raises(UserError, match="web page"):
        fetch(file, settings, policy=FAST)
    assert_nothing_kept(settings)


def test_a_web_page_without_its_type_is_no_zip(host, file, settings):
    host.plan("/public.zip", whole(b"<html>Access denied</html>"))
    with pytest.raises(UserError, match="no complete zip file"):
        fetch(file, settings, policy=FAST)
    assert_nothing_kept(settings)


def test_a_download_that_stays_truncated_is_refused(host, file, settings, body):
    host.plan("/public.zip", half(body))
    with pytest.raises(UserError, match="broke the connection"):
        fetch(file, settings, policy=FAST)
    assert_nothing_kept(settings)


def test_a_wrong_hash_is_refused_after_one_retry(host, file, settings, body):
    file = pinned(file, body)
    host.plan("/public.zip", whole(make_zip(text="tampered\n1\n")))
    with pytest.raises(UserError, match=r"other bytes than the published ones.*sha256"):
        fetch(file, settings, policy=FAST)
    assert len(host.seen) == 2
    assert_nothing_kept(settings)


def test_a_redirect_in_circles_is_refused(host, file, settings):
    host.plan("/public.zip", redirect("/public.zip"))
    with pytest.raises(UserError, match="circles"):
        fetch(file, settings, policy=FAST)


def test_an_unreachable_host_is_named(settings):
    file = RemoteFile(NAME, "http://127.0.0.1:9/x.zip", member="x")
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9.*broke the connection"):
        fetch(file, settings, policy=FAST)


def test_an_endless_file_is_refused(host, file, settings, body, monkeypatch):
    monkeypatch.setattr(download, "MAX_BYTES", 100)
    host.plan("/public.zip", whole(body))
    with pytest.raises(UserError, match="more than 100"):
        fetch(file, settings, policy=FAST)
    host.plan("/public.zip", half_unannounced(body * 10))
    with pytest.raises(UserError, match="more than 100"):
        fetch(file, settings, policy=FAST)


def link(name):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.parametrize(
    ("member", "content", "words"),
    [
        ("../evil.csv", "x", "leaves its folder"),
        ("/etc/evil.csv", "x", "leaves its folder"),
        ("C:\\evil.csv", "x", "leaves its folder"),
        ("..\\evil.csv", "x", "leaves its folder"),
        (link("evil.csv"), "/etc/passwd", "symbolic link"),
        ("bomb.txt", "0" * 10**7, "would unpack"),
    ],
)
def test_a_hostile_zip_is_refused(host, file, settings, tmp_path, member, content, words):
    host.plan("/public.zip", whole(make_zip((MEMBER, "AGEP\n1\n"), (member, content))))
    before = {path for path in tmp_path.rglob("*") if "home" not in path.parts}
    with pytest.raises(UserError, match=rf"csv_pwy\.zip.*{words}"):
        fetch(file, settings, policy=FAST)
    assert_nothing_kept(settings)
    assert {path for path in tmp_path.rglob("*") if "home" not in path.parts} == before


def test_a_zip_of_another_state_is_refused(host, file, settings):
    host.plan("/public.zip", whole(make_zip(("psam_p30.csv", "AGEP\n1\n"))))
    with pytest.raises(UserError, match=r"must hold one table named .*it holds psam_p30\.csv"):
        fetch(file, settings, policy=FAST)


def test_a_zip_whose_table_is_damaged_is_refused(host, file, settings, body):
    position = body.index(b"psam_p56.csv") + 40
    spoilt = body[:position] + bytes([body[position] ^ 255]) + body[position + 1 :]
    host.plan("/public.zip", whole(spoilt))
    with pytest.raises(UserError, match="damaged"):
        fetch(file, settings, policy=FAST)


def test_one_failure_stops_the_other_downloads(host, settings, body):
    host.plan("/slow", stall(body))
    host.plan("/gone", status(404))
    slow = RemoteFile("census/a.zip", f"{host.url}/slow", member="x")
    gone = RemoteFile("census/b.zip", f"{host.url}/gone", member="x")
    with pytest.raises(UserError, match=r"census/b\.zip"):
        fetch_all([slow, gone], settings, policy=FAST)


def test_or_errors_take_the_place_of_files(host, file, settings, body):
    host.plan("/public.zip", whole(body))
    host.plan("/gone", status(404))
    gone = RemoteFile("census/b.zip", f"{host.url}/gone", member="x")
    first, second, third = fetch_all([gone, file, gone], settings, policy=FAST, faulty="skip")
    assert second.path.read_bytes() == body
    for fault in (first, third):
        assert isinstance(fault, UserError)
        assert "census/b.zip" in str(fault)


# Files in the cache


def test_a_flipped_byte_in_the_cache_is_fetched_again(host, file, settings, body, caplog):
    host.plan("/public.zip", whole(body))
    path = fetch(file, settings, policy=FAST).path
    path.write_bytes(bytes([body[0] ^ 1]) + body[1:])
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body
    assert "damaged" in caplog.text


def test_a_flipped_byte_in_the_record_is_fetched_again(host, file, settings, body):
    host.plan("/public.zip", whole(body))
    fetch(file, settings, policy=FAST)
    record = settings.downloads / "names" / f"{NAME}.json"
    content = bytearray(record.read_bytes())
    content[-3] ^= 1
    record.write_bytes(content)
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body
    assert len(host.seen) == 2


def test_a_checksum_recorded_at_first_use_is_enforced_afterwards(host, file, settings, body):
    host.plan("/public.zip", whole(body), whole(make_zip(text="other\n1\n")))
    fetch(file, settings, policy=FAST).path.unlink()
    with pytest.raises(UserError, match=r"other bytes than at first use.*fkd data clean"):
        fetch(file, settings, policy=FAST)
    Cache(settings.downloads).remove(NAME)
    assert fetch(file, settings, policy=FAST).path.is_file()


# Faults of this machine

CHILD = """
import sys
from tasks.data.download import RemoteFile, fetch
from tasks.storage.settings import read_settings
from configs.errors import UserError
try:
    fetch(RemoteFile(sys.argv[1], sys.argv[2], member="psam_p56[.]csv"), read_settings())
except UserError as error:
    sys.exit(str(error))
"""


def child(settings, url, before=""):
    return subprocess.Popen(
        [sys.executable, "-c", before + CHILD, NAME, url],
        env={**os.environ, "FKD_HOME": str(settings.home), "FKD_DATA_MIRROR": ""},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_runs_fetch_once(host, file, settings, body):
    def slow(handler):
        host.released.wait(0.5)
        whole(body)(handler)

    host.plan("/public.zip", slow)
    runs = [child(settings, file.url) for _ in range(2)]
    assert [run.communicate(timeout=patient(60))[1] for run in runs] == ["", ""]
    assert len(host.seen) == 1


def test_a_killed_download_leaves_nothing_readable_then_continues(host, file, settings):
    body = make_zip(text="".join(f"{hash(str(i))}\n" for i in range(100_000)))
    host.plan("/public.zip", stall(body), rest(body))
    run = child(settings, file.url)
    partial = Cache(settings.downloads).partial_path(NAME)
    deadline = time.monotonic() + 60
    while not (partial.is_file() and partial.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert_nothing_kept(settings)
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(20))
def test_a_download_killed_at_any_moment_is_completed_by_the_next_run(host, file, settings, moment):
    body = make_zip(text="".join(f"{hash(str(i))}\n" for i in range(100_000)))

    def slowly(handler):
        if "Range" in handler.headers:
            return rest(body)(handler)
        _start(handler, 200, len(body), ETag='"v1"')
        for position in range(0, len(body), 20_000):
            handler.wfile.write(body[position : position + 20_000])
            host.released.wait(0.01)
        return None

    host.plan("/public.zip", slowly)
    run = child(settings, file.url)
    # From before the first byte until after the last one.
    time.sleep(0.2 + 0.1 * moment)
    run.kill()
    run.communicate()
    cache = Cache(settings.downloads)
    assert all(cache.is_intact(record) for record in cache.records())
    partial, complete = cache.partial_path(NAME), len(list(cache.records()))
    arrived = partial.stat().st_size if partial.is_file() else 0
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body
    keep(
        "F3",
        f"download killed, {moment + 1:02}",
        files_read_whole=complete + 1,
        writes_cut_short=int(arrived > 0),
        bytes_arrived=arrived,
        bytes=len(body),
    )


def test_a_full_disk_is_named_then_the_download_continues(host, file, settings):
    body = make_zip(text="".join(f"{hash(str(i))}\n" for i in range(100_000)))
    host.plan("/public.zip", whole(body), rest(body))
    # A limit on file size is the nearest to a full disk that a test may cause.
    before = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
    )
    run = child(settings, file.url, before)
    assert "folder on another disk" in run.communicate(timeout=patient(60))[1]
    assert run.returncode == 1
    assert_nothing_kept(settings)
    assert fetch(file, settings, policy=FAST).path.read_bytes() == body
    assert "Range" in host.seen[1][1]


def test_a_file_that_cannot_fit_is_refused_before_its_first_byte(
    host, file, settings, body, monkeypatch
):
    host.plan("/public.zip", whole(body))
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match=r"No space left on device.*another disk"):
        fetch(file, settings, policy=FAST)


def test_a_folder_that_cannot_be_written_is_named(host, file, settings):
    settings.home.parent.mkdir(exist_ok=True)
    settings.home.write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"home/downloads must be writable.*FKD_HOME"):
        fetch(file, settings, policy=FAST)


@pytest.fixture
def write(tmp_path):
    def make(*members):
        path = tmp_path / "x.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                archive.writestr(name, content)
        return path

    return make


@pytest.fixture
def montana():
    return RemoteFile("x.zip", "http://host/x.zip", member=r"psam_p30\.csv")


def test_the_table_is_found_among_other_members(write, montana):
    path = write(("README.pdf", "words"), ("psam_p30.csv", "AGEP\n1\n"))
    assert check_zip(path, montana) == "psam_p30.csv"
    check_content(path, "psam_p30.csv")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "it holds nothing"),
        ([("README.pdf", "words")], "it holds README.pdf"),
        ([("psam_p30.csv", "x"), ("PSAM_P30.CSV", "x")], "must hold one table"),
        ([(f"{i}", "x") for i in range(200)], "at most 100 members, got 200"),
        ([("psam_p30.csv", "0" * 10**7)], "would unpack"),
        ([("a/../../psam_p30.csv", "x")], "leaves its folder"),
    ],
)
def test_an_unexpected_zip_is_refused(write, montana, members, words):
    with pytest.raises(UnsafeZipError, match=words):
        check_zip(write(*members), montana)


def test_an_encrypted_member_is_refused(write, montana):
    path = write(("psam_p30.csv", "AGEP\n1\n"))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(UnsafeZipError, match="encrypted"):
        check_zip(path, montana)


@pytest.mark.parametrize("content", [b"", b"PK", b"<html></html>", b"PK\x03\x04" + b"\0" * 100])
def test_a_file_that_is_no_zip_is_refused(tmp_path, montana, content):
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(UnsafeZipError, match="no complete zip"):
        check_zip(path, montana)


def test_a_table_with_a_false_announced_size_is_damaged(write):
    path = write(("psam_p30.csv", "AGEP\n" + "1\n" * 1000))
    content = bytearray(path.read_bytes())
    position = content.index(b"PK\x01\x02") + 24
    content[position : position + 4] = (100).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(UnsafeZipError, match="damaged"):
        check_content(path, "psam_p30.csv")


def test_a_person_file_has_one_name_in_mirrors_and_caches():
    file = person_file("MT", 2018, "1-Year")
    assert file.name == "census/2018/1-Year/csv_pmt.zip"
    assert file.url.endswith("/pums/2018/1-Year/csv_pmt.zip")


def test_addresses_of_the_oldest_files_have_no_horizon():
    assert person_file("MT", 2006, "1-Year").url.endswith("/pums/2006/csv_pmt.zip")


@pytest.mark.parametrize(
    ("year", "name", "matches"),
    [
        (2018, "psam_p30.csv", True),
        (2016, "ss16pmt.csv", True),
        (2016, "SS16PMT.CSV", True),
        (2018, "psam_p31.csv", False),
        (2016, "ss15pmt.csv", False),
        (2018, "psam_h30.csv", False),
        (2018, "psam_p30.csv.exe", False),
        (2018, "x/psam_p30.csv", False),
    ],
)
def test_the_table_in_the_zip_is_found_by_its_name(write, year, name, matches):
    path, file = write((name, "AGEP\n1\n")), person_file("MT", year, "1-Year")
    if matches:
        assert check_zip(path, file) == name
    else:
        with pytest.raises(UnsafeZipError, match="must hold one table"):
            check_zip(path, file)


def test_known_checksums_are_pinned():
    assert re.fullmatch("[0-9a-f]{64}", person_file("MT", 2018, "1-Year").sha256)
    assert COMMUNITIES.sha256
    assert person_file("CA", 2018, "1-Year").sha256 is None


# The cache


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


def test_an_admitted_file_is_found(cache):
    record = put(cache, "a/b.zip", b"content")
    assert cache.find("a/b.zip") == record
    assert cache.is_intact(record)
    assert file_sha256(cache.object_path(record.sha256)) == record.sha256
    assert list(cache.records()) == [record]


def test_an_absent_file_is_not_found(cache):
    assert cache.find("a/b.zip") is None
    assert list(cache.records()) == []
    assert cache.remove_leftovers() == (0, 0)


@pytest.mark.parametrize("spoil", [lambda p: p.unlink(), lambda p: p.write_bytes(b"contenT")])
def test_a_changed_object_is_not_intact(cache, spoil):
    record = put(cache, "a", b"content")
    spoil(cache.object_path(record.sha256))
    assert not cache.is_intact(record)


@pytest.mark.parametrize("position", [0, 30, 64, 70, -1])
def test_a_damaged_record_counts_as_absent(cache, position):
    put(cache, "a", b"content")
    path = cache.folder / "names" / "a.json"
    spoilt = bytearray(path.read_bytes())
    spoilt[position] ^= 1
    path.write_bytes(spoilt)
    assert cache.find("a") is None
    assert not path.exists()  # it was removed when it was read
    assert cache.remove_leftovers() == (1, 0)  # the object of that record


def test_removing_a_file_keeps_content_that_another_record_refers_to(cache):
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


def test_files_without_a_record_are_leftovers(cache):
    kept = put(cache, "a", b"content")
    orphan, partial = _orphan(cache), _partial(cache, "b")
    assert cache.remove_leftovers() == (2, 0)
    assert not orphan.exists()
    assert list(partial.parent.iterdir()) == []
    assert cache.is_intact(kept)


def test_a_young_partial_download_is_kept(cache):
    young, old = _partial(cache, "young"), _partial(cache, "old", age=100)
    assert cache.remove_leftovers(older_than=50) == (1, 0)
    assert young.exists()
    assert not old.exists()


def test_a_file_that_another_process_fetches_is_kept(cache):
    record = put(cache, "a/b.zip", b"content")
    live, left = _partial(cache, "a/b.zip"), _partial(cache, "c")
    script = (
        "import pathlib, sys\n"
        "from tasks.data.download import Cache\n"
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


def test_a_file_that_is_being_admitted_is_no_leftover(cache):
    """The content is written before its record. A clean-up must not remove it in between."""

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

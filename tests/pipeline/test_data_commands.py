import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from deadlines import patient

from configs.errors import UserError
from flows.data_commands import app
from tasks.data.census import write_synthetic_census
from tasks.data.download import Cache
from tasks.storage.settings import read_settings


@pytest.fixture
def fkd_data(tmp_path, monkeypatch, capsys):
    """Call `fkd data ...` with a mirror of two synthetic states; return what it prints."""
    for state in ("WY", "VT"):
        path = tmp_path / "mirror" / f"census/2017/1-Year/csv_p{state.lower()}.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synthetic_census(path, state=state, year=2017, rows=400, seed=0)
    monkeypatch.setenv("FKD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FKD_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words):
        app(list(words), exit_on_error=False, print_error=False, result_action="return_none")
        return capsys.readouterr().out

    return call


FETCH = ("fetch", "acs_income", "--states", "WY,VT", "--year", "2017")


def test_fetch_prints_files_columns_and_rows(fkd_data):
    printed = fkd_data(*FETCH)
    assert "census/2017/1-Year/csv_pwy.zip  sha256 " in printed
    assert "SYNTHETIC data: 800 rows read" in printed
    assert "no input: AGEP, dropped by the configuration" in printed
    assert "OCCP" in printed


def test_list_shows_problems_and_files(fkd_data):
    fkd_data(*FETCH)
    printed = fkd_data("list")
    assert "acs_travel_time" in printed
    assert "csv_pvt.zip" in printed
    assert "since first use" in printed


def test_verify_lists_damaged_files_and_clean_removes_them(fkd_data):
    fkd_data(*FETCH)
    assert "2 downloaded files, 1 prepared tables: all intact" in fkd_data("verify")
    cache = Cache(read_settings().downloads)
    record = next(cache.records())
    cache.object_path(record.sha256).write_bytes(b"spoilt")
    with pytest.raises(UserError, match=rf"1 of 3 files are damaged: {record.name}"):
        fkd_data("verify")
    assert "1 file removed" in fkd_data("clean")
    assert "1 downloaded files" in fkd_data("verify")


def test_clean_removes_named_files(fkd_data):
    fkd_data(*FETCH)
    fkd_data("clean", "census/2017/1-Year/csv_pwy.zip")
    assert [r.name for r in Cache(read_settings().downloads).records()] == [
        "census/2017/1-Year/csv_pvt.zip"
    ]
    with pytest.raises(UserError, match=r"csv_pwy\.zip is not in the cache"):
        fkd_data("clean", "census/2017/1-Year/csv_pwy.zip")


def test_clean_everything_leaves_no_data(fkd_data):
    fkd_data(*FETCH)
    assert "3 files removed" in fkd_data("clean", "--everything")
    home = read_settings().home
    assert [p for p in home.rglob("*") if p.is_file() and p.suffix != ".lock"] == []


def test_clean_leaves_a_live_download_alone(fkd_data, tmp_path, monkeypatch):
    """A download in progress is neither removed nor interrupted."""
    name, sent, go_on = "census/2017/1-Year/csv_pwy.zip", threading.Event(), threading.Event()
    content = (tmp_path / "mirror" / name).read_bytes()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:1000])
            sent.set()
            go_on.wait(60)
            self.wfile.write(content[1000:])

        def log_message(self, *_):
            """Keep the terminal quiet."""

    with HTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("FKD_DATA_MIRROR", f"http://127.0.0.1:{server.server_port}")
        words = [sys.executable, "-m", "flows.cli", "data", *FETCH[:3], "WY", *FETCH[4:]]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as fetching:
            assert sent.wait(60)
            partial = Cache(read_settings().downloads).partial_path(name)
            while not partial.exists():
                time.sleep(0.01)
            for clean in (["clean"], ["clean", "--everything"]):
                printed = fkd_data(*clean)
                assert "1 file kept" in printed
            go_on.set()
            out, err = fetching.communicate(timeout=patient(120))
        server.shutdown()
    assert fetching.returncode == 0, err
    assert b"400 rows read" in out
    assert fkd_data("clean", name).startswith("1 file removed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fetch", "acs_incme"), "nearest is 'acs_income'"),
        (("fetch", "acs_income", "--year", "2020"), "2020 has no standard"),
        (("fetch", "acs_income", "--year", "soon"), r"data\.year: .*integer"),
        (("fetch", "acs_income", "--states", "XX"), r"data\.states"),
        (("fetch", "acs_income", "--horizon", "2"), r"data\.horizon"),
    ],
)
def test_invalid_arguments_are_refused(fkd_data, words, message):
    with pytest.raises(UserError, match=message):
        fkd_data(*words)

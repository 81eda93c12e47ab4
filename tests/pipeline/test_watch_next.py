"""What comes next: the year or state that a champion was not shown yet, or that is not there."""

import shutil
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from dask_process import threads
from flow_stages import run_stages, watch_stages
from tracking_server import warm_mlflow

import tasks.data.census
from configs.data import later_releases, other_states
from configs.errors import UserError
from configs.load import load_config
from tasks.data.download import AbsentFileError, RemoteFile, TransferPolicy, fetch
from tasks.monitor.check import NextBatch, known_watches, read_batches

CHEAP = (
    "name=incomes",
    "data.source=synthetic",
    "data.synthetic={rows: 900}",
    "folds.k=3",
    "methods=[dummy, {name: krr_fkd, grid: {iterations: [0, 2]}, "
    "approximation: {kind: nystroem, landmarks: 40}}]",
    "select={inner_folds: 2, subject_to: {gdp: 0.5}}",
    threads(1),
)


def config_of(*changes):
    return load_config("acs_income", (*CHEAP, *changes))


def labels(text, *changes):
    (batch,) = read_batches(config_of(*changes), [text])
    assert isinstance(batch, NextBatch)
    return [one.label for one in batch.choices(config_of(*changes))]


def test_the_next_year_is_the_next_one_that_is_published():
    assert labels("year=next")[:2] == ["year=2019", "year=2021"]  # 2020 was never released
    assert labels("year=next", "data.year=2009", "data.horizon=5-Year")[0] == "year=2010"
    assert labels("states=ND year=next")[0] == "states=ND year=2019"
    assert later_releases(2018, "1-Year", 2019) == (2019,)
    assert later_releases(2013, "3-Year", 2030) == ()


def test_the_next_state_is_the_one_behind_the_champions_then_all_others():
    found = labels("states=next")
    assert found[:2] == ["states=NE", "states=NV"]
    assert found[-1] == "states=MO"  # around the end, back to before Montana
    assert len(found) == 50
    assert "PR" not in other_states(("MT",))
    assert other_states(("WY",))[0] == "AL"
    assert other_states(("MT", "ND"))[0] == "OH"


@pytest.mark.parametrize(
    ("text", "changes", "sentence"),
    [
        ("year=next states=next", (), "must leave one thing open, got year and states"),
        ("states=next", ("data.states=all",), "has nothing to come"),
        ("year=next", ("data.year=2013", "data.horizon=3-Year"), "has nothing to come"),
    ],
)
def test_what_cannot_come_is_told_at_once(text, changes, sentence):
    with pytest.raises(UserError, match=sentence):
        read_batches(config_of(*changes), [text])


def test_a_table_without_years_has_no_next_one():
    with pytest.raises(UserError, match=r"is for census files.* chosen on crimes"):
        read_batches(load_config("default"), ["year=next"])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A home in which a champion of made-up incomes serves."""
    home = tmp_path_factory.mktemp("incomes") / "home"
    warm_mlflow(home / "mlflow", tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FKD_HOME", str(home))
        for name in ("FKD_DATA_MIRROR", "PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
            patched.delenv(name, raising=False)
        (outcome,) = run_stages(config_of())
    assert outcome.paths["model"] == "models:/incomes@champion"
    return home


@pytest.fixture
def home(served, settings):
    shutil.copytree(served, settings.home)
    return settings


def test_a_quiet_year_is_followed_by_the_one_after_it(home):
    for wanted in ("year=2019", "year=2021"):
        watch_stages("incomes", "year=next")
        assert [one.rows_from for one in known_watches(home, "incomes")][-1] == wanted


def test_states_come_one_by_one(home, monkeypatch):
    # Two looks within one second are listed in the order in which they were made.
    monkeypatch.setattr("tasks.monitor.check.now", lambda: "2026-01-01T00:00:00+00:00")
    watch_stages("incomes", "states=next", "states=next")
    shown = [one.rows_from for one in known_watches(home, "incomes")]
    assert len(shown) == len({*shown}) == 2
    assert shown[0] == "states=NE"


@pytest.fixture
def publisher(monkeypatch):
    """A host that answers, but has no file."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_):
            """Keep the terminal quiet."""

    with HTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(tasks.data.census, "_ADDRESS", address)
        yield address
        server.shutdown()
        thread.join()


def test_a_year_that_is_not_published_yet_is_one_sentence_and_no_fault(home, publisher, capsys):
    found, _ = watch_stages("incomes", "source=census synthetic=null year=next")
    assert found == []
    said = " ".join(capsys.readouterr().err.split())
    assert "source=census synthetic=null year=2019 does not exist yet" in said
    assert "has no such file (404)" in said
    assert known_watches(home, "incomes") == []


def test_a_file_is_absent_only_where_every_host_has_answered(settings, publisher, tmp_path):
    once = TransferPolicy(attempts=1)
    mirrored = replace(settings, mirror=str(tmp_path))
    with pytest.raises(AbsentFileError, match=r"has no such file; .*has no such file \(404\)"):
        fetch(RemoteFile("census/x.zip", f"{publisher}/x.zip"), mirrored, policy=once)
    with pytest.raises(UserError) as caught:
        fetch(RemoteFile("census/x.zip", "http://127.0.0.1:9/x.zip"), mirrored, policy=once)
    assert not isinstance(caught.value, AbsentFileError)


def test_a_named_year_that_is_not_there_is_a_fault(home, publisher):
    with pytest.raises(UserError, match="could not be fetched"):
        watch_stages("incomes", "source=census synthetic=null year=2019")

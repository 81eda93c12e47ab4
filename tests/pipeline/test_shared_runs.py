"""Reports in a store that homes share: another home finds them when their own is gone."""

import json
import os
import shutil
import time
from uuid import uuid4

import pytest
from object_stores import BUCKET, KEY, SECRET, variables
from pipeline_fixtures import QUICK

from configs.errors import UserError
from configs.load import dump_config, load_config
from flows.cli import main
from tasks.fit.job import run_job
from tasks.report.page import write_report
from tasks.select.champion import select_champion
from tasks.select.results import write_results
from tasks.select.study import open_study
from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings
from tasks.storage.store import open_store
from tasks.track.run_index import (
    begin,
    fetch_run,
    identity_of,
    known_runs,
    note_run,
    note_time,
    owns_files,
    shared_runs,
    write_status,
)

pytestmark = pytest.mark.stack
PAGES = {"report.html", "model_card.md", "model_card.html", "datasheet.md", "results.csv"}


def concluded(config, settings):
    """A study with everything that a run writes into its home."""
    study = open_study(config, settings)
    for job in study.missing():
        run_job(job)
    select_champion(study)
    note_run(study)
    note_time(study, 1.0)
    write_atomic(study.folder / "config.yaml", dump_config(config).encode())
    write_results(study.results(), config.data, study.folder)
    write_report(study)
    return study


@pytest.fixture(scope="module")
def first(tmp_path_factory, rclone_address):
    """A run of a home on an object store, with all of its files."""
    home = tmp_path_factory.mktemp("first") / "home"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables(rclone_address).items():
            patch.setenv(name, value)
        config = load_config("default", QUICK)
        yield concluded(config, Settings(home, shared=f"s3://{BUCKET}/{uuid4().hex}"))


@pytest.fixture
def other(first, tmp_path, monkeypatch):
    """Another home on the same store."""
    monkeypatch.setenv("FKD_HOME", str(tmp_path / "other"))
    monkeypatch.setenv("FKD_STORE", first.settings.store)
    return Settings(tmp_path / "other", shared=first.settings.store)


def contents(folder):
    """The bytes of what people read, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}


def call(capsys, *words):
    """Run a command; return its exit code with what it says."""
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    said = capsys.readouterr()
    return caught.value.code, said.out + said.err


def test_another_home_fetches_the_files_of_a_run(first, other, capsys):
    code, said = call(capsys, "report", "--from-store")
    assert (code, "quick" in said, identity_of(first)[:12] in said) == (0, True, True)
    code, said = call(capsys, "report", "--from-store", "quick")
    assert code == 0
    assert said.strip() == str(other.experiments / "quick" / "report.html")
    found = contents(other.experiments / "quick")
    assert found == contents(first.folder)
    assert PAGES | {"config.yaml"} < found.keys()
    assert any(name.endswith(".png") for name in found)
    (run,), problems = known_runs(other)
    assert (run.identity, problems) == (identity_of(first), [])
    study = run.open(other)
    assert owns_files(study)
    assert study.missing() == []
    code, said = call(capsys, "compare", "quick", identity_of(first)[:12])
    assert code == 0
    assert "Both runs use the same stored fits of" in said


def test_what_the_store_has_is_not_sent_again(first):
    store = open_store(first.settings)
    before = {e.name: e.changed for e in store.entries("runs/")}
    time.sleep(1.1)  # the listing tells whole seconds
    write_report(first)
    after = {e.name: e.changed for e in store.entries("runs/")}
    assert after.keys() == before.keys()
    told = f"runs/{identity_of(first)}/run.json"
    assert {name for name in after if after[name] != before[name]} == {told}


def test_a_report_that_is_written_elsewhere_keeps_what_lies_beside_it(first, other):
    study = open_study(first.config, other)
    write_report(study, again=True)
    assert not (study.folder / "results.csv").exists()
    (run,), _ = shared_runs(other)
    assert PAGES | {"config.yaml"} < run.files.keys()


def test_a_home_that_keeps_its_own_store_shares_nothing(first, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FKD_HOME", str(tmp_path / "alone"))
    monkeypatch.delenv("FKD_STORE", raising=False)
    alone = Settings(tmp_path / "alone")
    shutil.copytree(first.folder, alone.experiments / "quick")
    store, theirs = open_store(alone), open_store(first.settings)
    for entry in theirs.entries():
        if not entry.name.startswith("runs/"):
            store.write(entry.name, theirs.read(entry.name))
    write_report(open_study(first.config, alone), again=True)
    assert list(store.entries("runs/")) == []
    code, said = call(capsys, "report", "--from-store", "quick")
    assert code == 2
    assert "FKD_STORE" in said


def test_files_that_are_not_those_of_the_run_are_refused(first, other):
    (run,), _ = shared_runs(other)
    store, name = open_store(other), f"runs/{run.run.identity}/results.csv"
    whole = store.read(name)
    try:
        store.write(name, b"of another run")
        with pytest.raises(UserError, match=r"results\.csv .* changed"):
            fetch_run(other, run)
        store.remove(name)
        with pytest.raises(UserError, match=r"results\.csv .* absent"):
            fetch_run(other, run)
        assert not (other.experiments / "quick").exists()
    finally:
        store.write(name, whole)


def test_a_name_that_leads_elsewhere_is_no_file_of_a_run(first, other, capsys):
    store, name = open_store(other), f"runs/{'e' * 64}/run.json"
    told = json.loads(store.read(f"runs/{identity_of(first)}/run.json"))
    try:
        store.write(name, json.dumps({**told, "files": {"../../own": "0" * 64}}).encode())
        code, said = call(capsys, "report", "--from-store", "quick")
        assert code == 2
        assert "cannot be read (ValueError)" in said
        assert (other.experiments / "quick" / "report.html").is_file()
        assert list(other.home.rglob("own")) == []
    finally:
        store.remove(name)


def test_a_run_that_is_on_keeps_its_files(first, other, capsys):
    write_status(other, begin("quick", 3, 0))
    code, _ = call(capsys, "report", "--from-store", "quick")
    assert code == 2
    assert not (other.experiments / "quick" / "report.html").exists()


def test_a_name_that_the_store_does_not_have_is_told(first, other, capsys):
    code, said = call(capsys, "report", "--from-store", "quack")
    assert code == 2
    assert "RUN must be" in said
    assert "quick" in said


def test_no_secret_is_in_what_is_shared(first):
    store = open_store(first.settings)
    found = [store.read(entry.name) for entry in store.entries("runs/")]
    assert len(found) > len(PAGES)
    assert not [data for data in found if SECRET.encode() in data or KEY.encode() in data]


def test_what_other_homes_need_is_not_unreferenced(first, tmp_path, monkeypatch, capsys):
    """A folder that homes share, in which files can be made old."""
    folder = tmp_path / "shared"
    mine = Settings(tmp_path / "mine", shared=str(folder))
    store, theirs = open_store(mine), open_store(first.settings)
    for entry in theirs.entries():
        store.write(entry.name, theirs.read(entry.name))
    kept = {entry.name for entry in store.entries()}
    strays = {f"runs/{'f' * 64}/report.html", f"runs/{identity_of(first)}/stray.png"}
    for name in strays:
        store.write(name, b"of no run")
    for path in folder.rglob("*.*"):
        when = time.time() - 3 * 86400
        os.utime(path, (when, when))
    monkeypatch.setenv("FKD_HOME", str(mine.home))
    monkeypatch.setenv("FKD_STORE", str(folder))
    code, said = call(capsys, "clean", "--unreferenced")
    assert code == 0, said
    assert "2 blobs" in said
    assert {entry.name for entry in store.entries()} == kept

"""`fkd clean`: what is old or nobody's goes, nothing that a run needs."""

import os
import time
from dataclasses import replace

import pytest
from stored_files import record_file, stored

from flows.cli import main
from tasks.storage.records import predictions_name, record_name
from tasks.storage.store import open_store
from tasks.track.run_index import begin, note_run, write_status

DAY = 86400.0


@pytest.fixture
def known(quick_study):
    """A computed run that this home knows, all of it written 40 days ago."""
    note_run(quick_study)
    for path in stored(quick_study.settings).rglob("*.*"):
        age(path, 40)
    return quick_study


def age(path, days):
    """Let a file have been written so many days ago."""
    when = time.time() - days * DAY
    os.utime(path, (when, when))


def call(capsys, *words):
    """Run the command; return its exit code with what it says."""
    with pytest.raises(SystemExit) as caught:
        main(["clean", *words])
    said = capsys.readouterr()
    return caught.value.code, said.out + said.err


def names(study):
    return {entry.name for entry in open_store(study.settings).entries()}


def test_what_no_run_refers_to_goes_and_is_told_before(known, capsys):
    kept, key = names(known), "cd" + "1" * 62
    for name in (record_name(key), predictions_name(key), "prepared/" + "2" * 64 + ".arrays"):
        open_store(known.settings).write(name, b"x" * 2**20)
        age(stored(known.settings, name), 3)
    young = record_name("ef" + "1" * 62)
    open_store(known.settings).write(young, b"of a run that has just begun elsewhere")
    code, said = call(capsys, "--unreferenced", "--dry-run")
    assert code == 0
    assert "3 blobs (3.0 MiB) would be removed from the store" in said
    assert len(names(known)) == len(kept) + 4
    code, said = call(capsys, "--unreferenced")
    assert (code, "3 blobs (3.0 MiB) removed from" in said) == (0, True)
    assert names(known) == kept | {young}
    assert known.again().missing() == []


def test_what_is_old_goes(known, capsys):
    first, *rest = sorted(p for p in stored(known.settings).rglob("*.*"))
    for path in rest:
        age(path, 29)
    code, said = call(capsys, "--older-than", "30d")
    assert code == 0
    assert "1 blob (" in said
    assert not first.exists()
    assert all(path.exists() for path in rest)


def test_both_rules_together_take_what_is_both(known, capsys):
    key = "cd" + "1" * 62
    open_store(known.settings).write(record_name(key), b"x")
    age(record_file(known.store, key), 10)
    assert "0 blobs" in call(capsys, "--unreferenced", "--older-than", "30d")[1]
    assert "1 blob (" in call(capsys, "--unreferenced", "--older-than", "1w")[1]


def test_nothing_goes_while_a_run_is_on(known, capsys):
    status = write_status(known.settings, begin("quick", 3, 0))
    code, said = call(capsys, "--older-than", "1h")
    assert code == 2
    assert "quick is active" in said
    write_status(known.settings, replace(status, state="finished"))
    assert call(capsys, "--older-than", "1h")[0] == 0


@pytest.mark.parametrize(
    ("words", "cure"), [((), "--unreferenced"), (("--older-than", "30"), "such as 12h, 30d or 8w")]
)
def test_what_shall_go_must_be_said(settings, capsys, words, cure):
    code, said = call(capsys, *words)
    assert code == 2
    assert cure in said

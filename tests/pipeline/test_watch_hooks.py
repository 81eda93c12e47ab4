"""Hooks hear of every look: a quiet one as a success, a crossed one as a failure."""

import json
import sys

import pytest
from history_sample import look

from configs.errors import UserError
from configs.load import read_hooks
from flows.monitor import BandCrossedError, WatchedModel, end_watch
from flows.outcome import failure_hooks
from tasks.monitor.check import Refit

KEEP = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read() + chr(10))"
PROMOTED = Refit("KRR 3", True, "refitted: KRR 3 is promoted, every check kept")
REFUSED = Refit("KRR 3", False, "refitted: KRR 3 stays a candidate: more error")


@pytest.fixture
def heard(tmp_path):
    """Two files that hooks write to, with the hooks that do."""
    files = {name: tmp_path / f"{name}.jsonl" for name in ("on_success", "on_failure")}
    tree = {
        name: {"command": [sys.executable, "-c", KEEP, str(file)]} for name, file in files.items()
    }
    path = tmp_path / "wages.yaml"
    path.write_text(json.dumps({"name": "wages", "hooks": tree, "methods": "anything"}))
    return WatchedModel("m", read_hooks(path)), files


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_quiet_look_is_a_success(heard):
    watched, files = heard
    end_watch(watched, [look(1, 0.1, rows="may.csv")], "history.html")
    (told,) = lines(files["on_success"])
    assert lines(files["on_failure"]) == []
    assert (told["name"], told["state"], told["rows_from"]) == ("m", "quiet", "may.csv")
    assert (told["problem"], told["refit"], told["promoted"]) == (None, None, False)
    assert told["history"] == "history.html"


def test_a_crossed_look_is_a_failure_even_if_its_successor_is_promoted(heard):
    watched, files = heard
    end_watch(watched, [look(1, 3.0, crossed=True, refit=PROMOTED)], "history.html")
    (told,) = lines(files["on_failure"])
    assert lines(files["on_success"]) == []
    assert (told["state"], told["promoted"]) == ("crossed", True)
    assert told["problem"] == "crossed: error moved by 3"


def test_every_look_is_told_before_one_without_a_successor_ends_the_watch(heard):
    watched, files = heard
    looks = [
        look(1, 3.0, crossed=True, rows="april.csv", refit=REFUSED),
        look(1, 0.1, rows="may.csv"),
    ]
    with pytest.raises(BandCrossedError, match=r"april\.csv crossed the band of m") as caught:
        end_watch(watched, looks, "history.html")
    assert caught.value.exit_code == 3
    assert [one["rows_from"] for one in lines(files["on_failure"])] == ["april.csv"]
    assert [one["rows_from"] for one in lines(files["on_success"])] == ["may.csv"]


def test_a_crossed_look_without_a_refit_ends_the_watch(heard):
    watched, files = heard
    with pytest.raises(BandCrossedError) as caught:
        end_watch(watched, [look(1, 3.0, crossed=True, rows="april.csv")], "history.html")
    assert caught.value.exit_code == 3
    (told,) = lines(files["on_failure"])
    assert (told["refit"], told["promoted"]) == (None, False)


def test_a_watch_that_breaks_off_is_told_as_a_failure(heard):
    watched, files = heard
    with pytest.raises(UserError), failure_hooks([watched]):
        raise UserError("wages has no champion.")
    (told,) = lines(files["on_failure"])
    assert told == {"name": "m", "state": "failure", "problem": "wages has no champion."}


def test_a_hook_that_fails_is_told_at_the_end(tmp_path):
    path = tmp_path / "hooks.yaml"
    path.write_text("hooks: {on_success: {command: [no-such-program-anywhere]}}")
    with pytest.raises(UserError, match="hook command 'no-such-program-anywhere' failed"):
        end_watch(WatchedModel("m", read_hooks(path)), [look(1, 0.1)], "history.html")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name: wages", "must have a key `hooks`"),
        ("hooks: {on_failur: {command: [x]}}", "on_failur"),
        ("hooks: {on_failure: {webhook: 'ftp://secret'}}", "webhook must be env:NAME"),
        ("hooks: [", "must be a YAML file, but it cannot be parsed"),
        ("[1]", "must have a key `hooks`"),
    ],
)
def test_a_file_without_hooks_is_told(tmp_path, text, sentence):
    path = tmp_path / "hooks.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence) as caught:
        read_hooks(path)
    assert "secret" not in str(caught.value).replace("may be a secret", "")


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(UserError, match=r"--hooks must be a YAML file, got .*none\.yaml"):
        read_hooks(tmp_path / "none.yaml")

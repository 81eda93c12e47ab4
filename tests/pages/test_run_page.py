import socket
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import messages
from flows.messages import (
    ProgressArtifact,
    RequestQueue,
    RunLog,
    artifact_key,
    in_run,
    log_line,
    post_markdown,
)
from flows.outcome import Outcome, file_link, result_markdown


@pytest.fixture
def unresponsive():
    """The address of a server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/api"
        with temporary_settings({PREFECT_API_URL: url}):
            yield url


@pytest.fixture
def sent(monkeypatch):
    """The queued requests of an active run, and the calls that they make when they are sent."""
    notes, asked = [], []

    def answer(name):
        def ask(*arguments):
            asked.append((name, arguments[-1]))
            return SimpleNamespace(id="7")

        return ask

    names = ("create_artifact", "update_artifact")
    client = SimpleNamespace(**{name: answer(name) for name in names})
    monkeypatch.setattr(messages, "in_run", lambda: True)
    monkeypatch.setattr(messages, "send", notes.append)
    return SimpleNamespace(
        notes=notes, asked=asked, client=client, deliver=lambda: [note(client) for note in notes]
    )


def test_a_server_that_never_answers_delays_nothing(unresponsive):
    post, begun = RequestQueue(), threading.Event()

    def note(client):
        begun.set()
        client.api_version()

    post.put(note)
    assert begun.wait(60)
    assert not post.wait(0.1)


def test_a_failing_request_is_dropped_and_the_next_one_is_sent(unresponsive, capfd):
    post, heard = RequestQueue(), []
    post.put(lambda client: 1 / 0)
    post.put(lambda client: heard.append(str(client.api_url)))
    assert post.wait(60)
    assert heard == [f"{unresponsive}/"]
    assert capfd.readouterr().err == ""


def test_outside_a_run_nothing_is_sent(monkeypatch):
    monkeypatch.setattr(messages, "send", lambda note: pytest.fail("sent"))
    assert not in_run()
    log_line("hello")
    post_markdown("result", "text", "description")
    artifact = ProgressArtifact()
    artifact.start("fits", 10)
    artifact.advance(10)
    artifact.update()


def test_progress_is_sent_at_most_every_few_seconds(sent, monkeypatch):
    moment = SimpleNamespace(now=0.0)
    monkeypatch.setattr(messages, "time", SimpleNamespace(monotonic=lambda: moment.now))
    artifact = ProgressArtifact()
    artifact.start("fits", 200)
    for step in range(100):
        moment.now = step / 10
        artifact.advance(1)
        sent.deliver()
        sent.notes.clear()
    artifact.update()
    sent.deliver()
    kinds = [name for name, _ in sent.asked]
    assert kinds == ["create_artifact", *["update_artifact"] * 2]
    assert [told.data for _, told in sent.asked] == [0.0, 25.5, 50.0]
    assert sent.asked[-1][1].description == "100 of 200 fits"


def test_a_slow_server_gets_one_update_at_a_time(sent, monkeypatch):
    moment = SimpleNamespace(now=0.0)
    monkeypatch.setattr(messages, "time", SimpleNamespace(monotonic=lambda: moment.now))
    artifact = ProgressArtifact()
    artifact.start("fits", 100)
    sent.deliver()
    for _ in range(100):
        moment.now += 60
        artifact.advance(1)
    assert len(sent.notes) == 2
    sent.notes[1](sent.client)
    assert [fields.data for _, fields in sent.asked] == [0.0, 100.0]


def test_a_run_has_one_bar_for_all_of_its_steps(sent):
    artifact = ProgressArtifact()
    for text in ("blocks", "fits"):
        artifact.start(text, 10)
        artifact.advance(10)
        artifact.update()
        sent.deliver()
        sent.notes.clear()
    kinds = [name for name, _ in sent.asked]
    assert kinds.count("create_artifact") == 1
    assert sent.asked[-1][1].description == "10 of 10 fits"


def test_progress_is_shown_on_the_terminal_and_on_the_page(sent, capsys):
    with RunLog("text").progress("fits", 3) as advance:
        advance(3)
    assert "fits: 3/3" in capsys.readouterr().err
    sent.deliver()
    assert [told.data for _, told in sent.asked] == [0.0, 100.0]


@pytest.mark.parametrize(
    ("text", "key"), [("result-My_Run.2", "result-my-run-2"), ("§", "run"), ("-a-", "a")]
)
def test_artifact_keys_are_valid_in_prefect(text, key):
    assert artifact_key(text) == key


@pytest.fixture
def outcome(quick_study):
    return Outcome.of(quick_study, str(quick_study.folder / "report.html"), ())


def test_the_result_has_the_trials_the_champion_and_its_held_out_figures(outcome, quick_study):
    text = result_markdown(outcome)
    for result in outcome.results:
        assert f"{result.mean('mae', 'racepctblack'):.4f} ± " in text
    assert text.count("← champion") == 1
    for name, (value, low, high) in outcome.champion.judgement.held_out.measures[
        "racepctblack"
    ].items():
        row = f"| {name.upper()} | racepctblack | {value:.4f} | {low:.4f} | {high:.4f} |"
        assert row in text
    assert f"(<{(quick_study.folder / 'report.html').as_uri()}>)" in text
    assert "Broken limits" not in text


@pytest.mark.parametrize(("width", "deviations"), [(80, True), (60, False)])
def test_the_table_fits_the_terminal(outcome, width, deviations, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    outcome.show()
    table = capsys.readouterr().out.partition("└")[0]
    assert "…" not in table
    assert ("±" in table.partition("│")[2]) == deviations
    for result in outcome.results:
        assert f"{result.mean('mae', 'racepctblack'):.4f}".removeprefix("0") in table


def test_the_result_contains_the_problems(outcome):
    text = result_markdown(replace(outcome, broken=("gdp on a_b is 1",), notices=("No [x].",)))
    assert "**The champion breaks the gate: gdp on a\\_b is 1. " in text
    assert "No \\[x\\].**" in text
    assert "## Broken limits\n\n- gdp on a\\_b is 1\n" in text


@pytest.mark.parametrize("record", ["http://mlflow.example.org/#/experiments/1/runs/2", None])
def test_the_result_links_to_mlflow(outcome, record):
    text = result_markdown(replace(outcome, record=record))
    assert ("MLflow: <http://mlflow.example.org/#/experiments/1/runs/2>" in text) == bool(record)


def test_a_link_survives_a_path_with_marks(tmp_path):
    place = tmp_path / "a [b] (c)" / "r?.html"
    link = file_link(str(place))
    assert link.endswith(f"(<{place.as_uri()}>)")
    assert "\\[b\\]" in link

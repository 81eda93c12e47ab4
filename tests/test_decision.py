"""A decision as a file: written by the program, finished by a person, quoted by a later run."""

from dataclasses import replace

import pytest
import yaml

from configs.decision import Decision, read_decision, write_decision
from configs.errors import UserError
from configs.load import dump_config, load_config, parse_config
from flows.cli import main
from tasks.report.gather import report_data
from tasks.study.champion import select_champion


@pytest.fixture
def written(quick_study, tmp_path, monkeypatch, capsys):
    """The file of `fkd decide` on the quick run."""
    monkeypatch.setattr("flows.decide_command.load_config", lambda *_: quick_study.config)
    path = tmp_path / "decision.yaml"
    assert ended("decide", "quick", "--out", str(path)) == 0
    assert "who and why are open" in capsys.readouterr().out
    return path


def ended(*words):
    with pytest.raises(SystemExit) as end:
        main([*words])
    return end.value.code


def test_who_and_why_are_empty_until_a_person_writes_them(written, quick_study):
    found = read_decision(written)
    champion = select_champion(quick_study)
    assert (found.who, found.why, found.is_open) == ("", "", True)
    assert found.chosen == champion.title
    assert found.limits == {"gdp": 0.04}
    assert found.held_out["mae"] == round(champion.judgement.held_out.mae[0], 6)
    assert found.model == "models:/quick@champion"
    assert found.data == quick_study.loaded.digest


def test_a_persons_words_are_not_written_over(written, capsys):
    assert ended("decide", "quick", "--out", str(written), "--who", "a board") == 0
    assert read_decision(written).who == "a board"
    assert ended("decide", "quick", "--out", str(written)) == 2
    assert "not written over" in capsys.readouterr().err
    assert read_decision(written).who == "a board"


def test_a_later_run_quotes_the_file_beside_its_configuration(written, quick_study, tmp_path):
    text = written.read_text().replace("why: ''", "why: agreed in May")
    written.write_text(text)
    tree = yaml.safe_load(dump_config(quick_study.config))
    (tmp_path / "later.yaml").write_text(yaml.safe_dump({**tree, "decision": "decision.yaml"}))
    config = load_config(tmp_path / "later.yaml")
    assert config.decision == str(written)
    assert config.digest == quick_study.config.digest  # it decides no number
    report = report_data(replace(quick_study, config=config), curves=False)
    assert report.decision.why == "agreed in May"
    written.unlink()
    assert report_data(replace(quick_study, config=config), curves=False).decision is None


def test_a_decision_reads_back_as_it_was_written(tmp_path):
    found = Decision(run="a", made="2026-01-02", model="m", chosen="c", why="ä: #1")
    path = tmp_path / "d.yaml"
    path.write_text(write_decision(found), encoding="utf-8")
    assert read_decision(path) == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read"),
        ("[1", "cannot be read"),
        ("- a", "has no keys"),
        ("run: a\nmade: b\nmodel: c\nchosen: d\nwhom: e\n", "whom"),
        ("run: a\n", "made"),
    ],
)
def test_a_file_that_is_no_decision_is_refused_before_any_work(tmp_path, text, sentence):
    path = tmp_path / "decision.yaml"
    if text is not None:
        path.write_text(text)
    (tmp_path / "run.yaml").write_text("name: a\ndecision: decision.yaml\n")
    with pytest.raises(UserError, match=sentence):
        load_config(tmp_path / "run.yaml")


def test_a_kept_configuration_is_read_without_the_file(tmp_path):
    assert (
        parse_config({"methods": ["dummy"], "decision": "gone.yaml"}, "kept").decision
        == "gone.yaml"
    )


def test_an_unfinished_run_has_nothing_to_decide(settings, quick_config, monkeypatch, capsys):
    monkeypatch.setattr("flows.decide_command.load_config", lambda *_: quick_config)
    assert ended("decide", "quick") == 2
    assert "is not finished" in capsys.readouterr().err

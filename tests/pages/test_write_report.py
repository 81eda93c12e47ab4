"""A report is written again only if its content would change."""

from dataclasses import replace

import pytest
from stored_files import stored

from tasks.report import page as module
from tasks.report.page import write_report
from tasks.track.run_index import note_time


@pytest.fixture
def drawn(quick_study, monkeypatch, tmp_path):
    """A study in a folder of its own, with the number of times that its curves were made."""
    settings = replace(quick_study.settings, home=tmp_path)
    study = replace(quick_study, settings=settings)
    note_time(study, 1.0)
    count = []
    real = module.with_curves

    def counted(*arguments):
        count.append(1)
        return real(*arguments)

    monkeypatch.setattr(module, "with_curves", counted)
    return study, count


def test_the_same_report_is_drawn_once(drawn):
    study, count = drawn
    page = write_report(study)
    content = page.read_bytes()
    assert write_report(study) == page
    assert len(count) == 1
    assert page.read_bytes() == content
    # Told to, it is drawn again, and is the same.
    write_report(study, again=True)
    assert len(count) == 2
    assert page.read_bytes() == content


@pytest.mark.parametrize("name", ["report.html", "model_card.md"])
def test_a_file_that_was_changed_or_taken_away_is_written_again(drawn, name):
    study, count = drawn
    page = write_report(study)
    content = (page.parent / name).read_bytes()
    (page.parent / name).write_bytes(content + b" ")
    write_report(study)
    assert (page.parent / name).read_bytes() == content
    (page.parent / name).unlink()
    write_report(study)
    assert (page.parent / name).read_bytes() == content
    assert len(count) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda study: replace(study, trials=study.trials[:-1]),
        lambda study: replace(
            study, config=study.config.model_copy(update={"gate": {"hgr": 0.01}})
        ),
        lambda study: replace(study, searched=frozenset({study.trials[0].key})),
    ],
)
def test_what_it_shows_decides(drawn, change):
    study, count = drawn
    write_report(study)
    write_report(change(study))
    assert len(count) == 2


def test_other_code_draws_anew(drawn, monkeypatch):
    study, count = drawn
    write_report(study)
    monkeypatch.setattr(module, "code_digest", lambda: "other")
    write_report(study)
    assert len(count) == 2


def test_damaged_notes_mean_that_nothing_is_known(drawn):
    study, count = drawn
    write_report(study)
    (note,) = (stored(study.settings, "pages")).iterdir()
    for content in ("", "[]", "{"):
        note.write_text(content)
        write_report(study)
    assert len(count) == 4

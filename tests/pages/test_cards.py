"""Model card and datasheet: filled from the run, open where only people know."""

import re
from dataclasses import replace

import pytest
from report_sample import make_report, poison_report

from tasks.report.model import report_data
from tasks.report.page import (
    DATA_QUESTIONS,
    MODEL_QUESTIONS,
    OPEN,
    card_html,
    data_card,
    model_card,
    to_html,
    write_cards,
)
from tasks.report.profile_section import burden_sentences
from tasks.select.groups import StudyProfiles
from tasks.track.registry import Promotion


@pytest.fixture(scope="module")
def report():
    return make_report()


def test_every_question_to_people_is_listed_as_open(report):
    for card, questions in ((model_card, MODEL_QUESTIONS), (data_card, DATA_QUESTIONS)):
        text = card(report)
        for question in questions:
            assert f"{question} *{OPEN}*" in text
        assert text.count(OPEN) == len(questions)


def test_the_model_card_has_the_numbers_of_the_report(report):
    text = model_card(report)
    assert "models:/crimes@champion" in text
    assert "0.1271 (0.1144" in text
    assert "1,594" in text
    for check in report.checks:
        assert check.check.code in text


def test_the_datasheet_has_files_rows_and_what_was_dropped(report):
    text = data_card(report)
    assert report.data.files[0][1] in text
    assert "1,993" in text
    assert "no value for the target | 1" in text
    assert "## Communities and Crime" in text  # the problem's own sheet, below the card's title


def test_without_a_champion_the_card_says_why(report):
    text = model_card(replace(report, champion=None, no_champion="No limit can be met."))
    assert "No limit can be met." in text
    assert "held-out rows, in brackets" not in text


def test_text_from_data_is_never_markup():
    text = "<script>alert(1)</script> | **a** [b](http://example.org)"
    poisoned = replace(poison_report(text), profiles=StudyProfiles({}))
    # The problem's own sheet is markdown; nothing else is.
    bare = replace(poisoned, data=replace(poisoned.data, datasheet=""))
    for card in (model_card, data_card):
        assert "<script" not in card_html(text, card(poisoned))
        page = card_html(text, card(bare))
        assert "<strong>a</strong>" not in page
        assert 'href="http://example.org"' not in page


def test_cards_are_pages_without_scripts_beside_their_markdown(report, tmp_path):
    write_cards(report, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "model_card.md",
        "model_card.html",
        "datasheet.md",
        "datasheet.html",
    }
    page = (tmp_path / "model_card.html").read_text()
    assert "<script" not in page
    assert 'href="datasheet.html"' in page
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r'(src|href)="https?:', page)
    assert "[datasheet](datasheet.md)" in (tmp_path / "model_card.md").read_text()


def test_report_and_card_show_who_promoted_the_model(report):
    promotion = str(Promotion("the <i>board</i>", "agreed in May", "2026-05-04T10:00:00+00:00"))
    decided = replace(report, promotion=promotion)
    for page in (
        to_html(decided),
        card_html("card", model_card(decided)),
    ):
        assert "the &lt;i&gt;board&lt;/i&gt; on 2026-05-04 10:00 UTC" in page
        assert "agreed in May" in page
    assert "Promoted" not in model_card(report)


def test_cells_of_a_card_say_what_they_are_where_headings_are_out_of_sight():
    page = card_html("t", "| Column | Cor\\[x\\] |\n| --- | --- |\n| age | 0.5 |\n")
    assert '<td data-heading="Column">age</td>' in page
    assert '<td data-heading="Cor[x]">0.5</td>' in page
    assert page.count('<th scope="col">') == 2
    assert page.count('role="region" tabindex="0"') == 1


def test_the_card_says_who_is_treated_how(quick_study):
    told = report_data(quick_study)
    text = model_card(told)
    (sentence,) = burden_sentences(told)
    assert "## Predictions and errors along the attribute" in text
    assert sentence in text
    assert sentence in to_html(told)

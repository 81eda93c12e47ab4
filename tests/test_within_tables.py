from dataclasses import replace

from report_sample import BLACK, make_report

from tasks.report.narrative import finding_of
from tasks.report.page import to_html
from tasks.report.tables import within_sentence, within_tables
from tasks.select.groups import CHOSEN, REFERENCE, GroupedScore, WithinGroups

SMALL = ("high", 12, "fewer than 30 rows")


def score(value, left_out=(SMALL,)):
    groups = (("low", 100, value), ("middle", 200, 2 * value))
    mean = (100 * value + 400 * value) / 300
    return GroupedScore(3 * value, (mean, 0.9 * mean, 1.1 * mean), groups, left_out)


def make_within(**changes):
    scores = {
        "hgr": {CHOSEN: score(0.1), REFERENCE: score(0.2)},
        "gdp": {CHOSEN: score(0.003), REFERENCE: score(0.012)},
        "pf": {CHOSEN: score(0.04), REFERENCE: score(0.08)},
    }
    found = WithinGroups(("medIncome",), {BLACK: scores}, {BLACK: {}}, {BLACK: 0.17})
    return replace(found, **changes)


def reported(within=None, **changes):
    within = make_within() if within is None else within
    return make_report(within=within, control=("median income",), **changes)


def texts(row):
    return [cell.text for cell in row.cells]


def test_groups_their_mean_and_all_rows_stand_below_each_other():
    (table,) = within_tables(reported())
    assert table.grid.headings[:4] == ("Group", "Rows", "HGR", "HGR, nothing removed")
    low, middle, mean, every = (texts(row) for row in table.grid.rows)
    assert low[:6] == ["low", "100", "0.100", "0.200", "0.0030", "0.0120"]
    assert middle[:4] == ["middle", "200", "0.200", "0.400"]
    assert mean[:2] == ["Mean by rows", "300"]
    assert mean[2].startswith("0.167 (0.150")
    assert every[:4] == ["All rows at once", "312", "0.300", "0.600"]


def test_groups_left_out_are_named_and_counted():
    (table,) = within_tables(reported())
    assert "Left out: 1 group: high (12 rows: fewer than 30 rows)." in table.notes
    assert any("HGR of about 0.17" in note for note in table.notes)
    one = make_within()
    odd = score(0.04, (SMALL, ("odd", 40, "no pairs")))
    pf = {CHOSEN: odd, REFERENCE: odd}
    one = replace(one, scores={BLACK: {**one.scores[BLACK], "pf": pf}})
    (table,) = within_tables(reported(one))
    assert "odd (40 rows: no pairs, for PF)" in " ".join(table.notes)


def test_a_model_that_removes_nothing_stands_alone():
    report = reported()
    report = replace(report, champion=replace(report.champion, trial="trial-0"))
    (table,) = within_tables(report)
    assert table.grid.headings == ("Group", "Rows", "HGR", "GDP", "PF")
    assert "nothing removed" not in within_sentence(report)


def test_the_sentence_is_said_wherever_the_finding_is():
    sentence = within_sentence(reported())
    assert sentence == (
        "Within groups of median income, GDP on the share of Black residents is 0.0050 "
        "(0.0045\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}0.0055) on average, 1 of 3 groups left out, "
        "with nothing removed 0.0200 (0.0180\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}0.0220)."
    )
    assert finding_of(reported()).sentences[-1] == sentence
    assert finding_of(reported()).sentences[:-1] == finding_of(make_report()).sentences


def test_the_page_has_the_section_only_where_it_was_asked_for():
    page = to_html(reported(), ())
    assert '<h2 id="h-within">Within groups of median income</h2>' in page
    assert '<a href="#within">' in page
    assert "<td>0.0030</td><td>0.0120</td>" in page
    assert "Mean by rows" in page
    assert "high (12 rows: fewer than 30 rows)" in page
    assert "h-within" not in to_html(make_report(), ())


def test_what_could_not_be_measured_is_said_instead():
    nothing = make_within(scores={BLACK: {}}, problems={BLACK: {"gdp": "got none of 9"}}, noise={})
    (table,) = within_tables(reported(nothing))
    assert table.grid.rows == ()
    assert table.notes == ("GDP could not be taken: got none of 9.",)
    assert "could not be measured" in within_sentence(reported(nothing))
    assert "got none of 9" in to_html(reported(nothing), ())


def test_names_of_groups_cannot_break_the_page():
    bad = GroupedScore(0.1, (0.1, 0.1, 0.1), (("<script>x", 40, 0.1),), (("<b>", 2, "few"),))
    found = WithinGroups(("c",), {BLACK: {"gdp": {CHOSEN: bad}}}, {BLACK: {}}, {})
    page = to_html(reported(found), ())
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page
    assert "<b>" not in page.split('id="within"')[1].split("</section>")[0]

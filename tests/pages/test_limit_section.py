import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.run import SelectConfig
from tasks.report.limit_section import limits_of
from tasks.report.model import report_data
from tasks.report.page import to_html
from tasks.select.champion import candidates, select_champion, select_trial
from tasks.select.limit_moves import limit_moves, limit_steps
from tasks.select.results import TrialResult


def results(pairs):
    """Trials by (measure, error), each with one record."""
    return [
        TrialResult(
            SimpleNamespace(key=str(i)),
            (SimpleNamespace(measures={"age": {"hgr": measure, "mae": error}}),),
        )
        for i, (measure, error) in enumerate(pairs)
    ]


def step_at(steps, limit):
    return [step for step in steps if step.low <= limit][-1]


numbers = st.floats(0, 1).map(lambda value: round(value, 2))


@given(pairs=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12), limit=numbers)
def test_a_step_chooses_what_a_run_with_that_limit_would(pairs, limit):
    found = results(pairs)
    steps = limit_steps(found, "hgr")
    least = min(measure for measure, _ in pairs)
    assert steps[0].low == least
    limit = max(limit, least)
    chosen = select_trial(found, SelectConfig(subject_to={"hgr": limit})).trial.key
    step = step_at(steps, limit)
    assert step.trial == chosen
    assert step.high is None or limit < step.high


def test_steps_touch_and_their_error_falls():
    steps = limit_steps(results([(0.1, 0.9), (0.2, 0.95), (0.3, 0.5), (0.4, 0.2)]), "hgr")
    assert [(step.low, step.high, step.trial) for step in steps] == [
        (0.1, 0.3, "0"),
        (0.3, 0.4, "2"),
        (0.4, None, "3"),
    ]


def test_the_configured_limit_leads_to_the_champion(quick_study):
    moves = limit_moves(quick_study)
    champion = select_champion(quick_study)
    step = step_at(moves.steps["gdp"], moves.limits["gdp"])
    assert step.trial == champion.trial.key
    trial = moves.trials[step.trial]
    assert trial.mae == pytest.approx(champion.judgement.held_out.mae[0])
    held_out = champion.judgement.held_out.measures["racepctblack"]
    for name in ("hgr", "gdp", "pf"):
        assert trial.scores["racepctblack"][name] == pytest.approx(held_out[name][0])
    assert {*moves.points["hgr"]} == {result.trial.key for result in candidates(quick_study)}


def test_the_page_shows_the_configured_limit_first_and_holds_all_others(quick_study):
    report = report_data(quick_study)
    page = to_html(report)
    section = limits_of(report)
    for limit in section.limits:
        names = re.findall(rf'name="limit-{limit.measure}"[^>]*>', page)
        assert len(names) == len(limit.states) == len(limit.table.rows) > 1
        assert sum("checked" in name for name in names) == 1
    (opened,) = [limit for limit in section.limits if limit.opened]
    assert opened.measure == "gdp"
    (state,) = [state for state in opened.states if state.checked]
    assert state.title == select_champion(quick_study).title
    # Each figure is drawn once, wherever it is shown.
    for figure in section.figures:
        assert page.count(f'id="{figure.name}"') == 1
        assert page.count(f'<use href="#{figure.name}"/>') >= 1


def test_labels_tell_close_steps_apart(quick_study):
    report = report_data(quick_study)
    for limit in limits_of(report).limits:
        labels = [state.label for state in limit.states]
        assert len({*labels}) == len(labels)


def test_a_finding_alone_needs_no_curves(quick_study):
    report = report_data(quick_study, curves=False)
    assert report.moves is None
    assert report.profiles is None
    assert limits_of(report) is None

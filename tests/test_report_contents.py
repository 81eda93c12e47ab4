from dataclasses import replace

import pytest
from report_sample import BLACK, WHITE, make_champion, make_report, make_trials


def test_a_champion_that_is_no_trial_is_refused():
    champion = replace(make_champion((BLACK,)), trial="another")
    with pytest.raises(ValueError, match=r"champion\.trial must be the key.*'another'"):
        make_report(champion=champion)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"trials": make_trials((BLACK,))}, "trial-0"),
        ({"champion": make_champion((BLACK,))}, "held_out"),
        (
            {
                "champion": replace(
                    make_champion((BLACK, WHITE)), reference=make_champion((BLACK,)).reference
                )
            },
            "reference",
        ),
    ],
)
def test_a_measured_column_without_scores_is_refused(changes, named):
    with pytest.raises(ValueError, match=rf"{named}.*must hold every measured column.*{WHITE}"):
        make_report((BLACK, WHITE), **changes)


def test_a_report_without_champion_has_no_chosen_trial():
    assert make_report().chosen == make_report().trials[4]
    assert make_report(champion=None).chosen is None

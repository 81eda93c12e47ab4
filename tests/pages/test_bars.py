import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.reproduce.claims import Rule, Verdict, word_of
from tasks.reproduce.result import WIDTH, bars


def verdict(low=-2.0, high=-1.0, *, above=None, below=0.0, unit="difference"):
    rule = Rule(
        statistic=lambda scores: 0.0,
        unit=unit,
        low=-math.inf if above is None else above,
        high=math.inf if below is None else below,
    )
    return Verdict(
        run="crimes",
        says="it is so",
        source="ours",
        verdict=word_of(rule, (low + high) / 2, low, high),
        unit=unit,
        value=(low + high) / 2,
        low=low,
        high=high,
        true_above=above,
        true_below=below,
    )


numbers = st.integers(-1000, 1000).map(lambda k: k / 8)


@st.composite
def verdicts(draw):
    low, high = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    above, below = sorted(draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    return verdict(
        low,
        high,
        above=draw(st.sampled_from([None, above])),
        below=draw(st.sampled_from([None, below])),
    )


@given(st.lists(verdicts(), min_size=1, max_size=5))
def test_a_bar_lies_in_the_shaded_part_just_where_the_claim_holds(found):
    for one, bar in zip(found, bars(found), strict=True):
        assert 0 <= bar.low <= bar.value <= bar.high <= WIDTH
        inside = (one.true_above is None or bar.true_from < bar.low) and (
            one.true_below is None or bar.high < bar.true_to
        )
        outside = bar.high <= bar.true_from or bar.low >= bar.true_to
        assert one.verdict == ("holds" if inside else "fails" if outside else "unclear")


def test_equal_numbers_of_one_kind_lie_at_equal_places():
    narrow, same, other = bars([verdict(), verdict(), verdict(-40.0, 40.0, unit="ratio")])
    assert narrow == same
    assert other.high - other.low > narrow.high - narrow.low
    squeezed, *_ = bars([verdict(), verdict(-40.0, 40.0)])
    assert squeezed.high - squeezed.low < narrow.high - narrow.low


def test_a_number_without_an_interval_has_no_bar():
    assert bars([Verdict("crimes", "they agree", "ours", "holds", value=1e-9)]) == [None]


@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_an_interval_without_width_is_drawn(edge):
    (bar,) = bars([verdict(edge, edge, below=edge)])
    assert bar.low == bar.high == bar.true_to

import re

import numpy as np
import pytest

from fkd.measures import profile_along, profile_of_pair, profile_within
from fkd.measures.auditing import AuditedPair
from tasks.report.profile_section import Labels, burden_sentence, profile_section, range_texts
from tasks.select.groups import StudyProfiles

WORDS = Labels("wage", "dollars", "persons")


def rows(n=900):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 81, size=n).astype(float)
    y = 1000 * age + rng.normal(scale=2000, size=n)
    return rng, age, y, y - 3000 * (age > 70), 0.9 * y + rng.normal(scale=1000, size=n)


def section(compared=True, **more):
    rng, age, y, fair, plain = rows()
    other = plain if compared else None
    profile = profile_along(y, fair, age, other=other, rng=rng, draws=200)
    return profile_section(StudyProfiles({"AGEP": profile}, **more), {"AGEP": "age"}, WORDS, {})


def test_a_section_says_where_predictions_are_farthest_off():
    (column,) = section().columns
    assert column.column == "age"
    first = column.sentences[0]
    assert first.startswith("The mean absolute error is largest for age 7")
    assert " dollars (nothing removed: " in first
    assert "predictions are too low by" in first


def test_what_may_be_chance_is_no_lean():
    rng, age, y, _, _ = rows()
    balanced = y + np.where(np.arange(len(y)) % 2, 4000.0, -4000.0)
    profile = profile_along(y, balanced, age, rng=rng, draws=200)
    found = profile_section(StudyProfiles({"AGEP": profile}), {}, WORDS, {}).columns[0].sentences[0]
    assert "not clearly too high or too low on average" in found
    assert "too low by" not in found
    assert "too high by" not in found


@pytest.mark.parametrize(
    ("added", "sentence"),
    [
        # Half of all rows pay, evenly: a tenth of them is told only if it pays more than its share.
        (lambda age: 500.0, ""),
        (lambda age: 500.0 + 4000.0 * (age > 74), "Of the added error, "),
        (lambda age: 5000.0 * (age > 74) - 300.0, "The added error falls on the "),
    ],
)
def test_burden_sentence_is_told_where_a_group_carries_more_than_its_share(added, sentence):
    rng, age, y, _, _ = rows()
    noise = 3000.0 + 10.0 * rng.normal(size=len(y))
    found = profile_along(y, y + noise + added(age), age, other=y + noise, rng=rng, draws=200)
    told = burden_sentence(found, "age")
    assert told.startswith(sentence)
    assert bool(told) == bool(sentence)
    if sentence:
        assert " % of rows with age 7" in told
        parts = [int(number) for number in re.findall(r"(\d+) %", told)]
        assert all(number <= 100 for number in parts)


def test_figures_show_both_models_and_the_truth():
    figures = section().columns[0].figures
    assert [figure.title for figure in figures] == [
        "Mean prediction",
        "Signed error",
        "Absolute error",
        "Change of the prediction",
        "Leaking function",
    ]
    assert [curve.look for curve in figures[0].curves] == ["truth", "other", "model"]
    assert all(curve.outer is not None for figure in figures[:4] for curve in figure.curves)
    assert figures[0].y_label == "mean wage (dollars)"


def test_without_another_model_nothing_is_compared():
    (column,) = section(compared=False).columns
    assert "Change of the prediction" not in [figure.title for figure in column.figures]
    assert len(column.sentences) == 1
    assert "nothing removed" not in " ".join(column.tables[0].headings)


def test_who_loses_is_told_by_the_whole_band():
    sentences = " ".join(section().columns[0].sentences)
    assert "Compared with nothing removed, predictions of the chosen model are up to" in sentences


def test_equal_models_gain_nothing_anywhere():
    rng, age, y, fair, _ = rows()
    profile = profile_along(y, fair, age, other=fair.copy(), rng=rng, draws=100)
    (column,) = profile_section(StudyProfiles({"AGEP": profile}), {}, WORDS, {}).columns
    assert "nowhere along AGEP by more than noise" in " ".join(column.sentences)
    assert "added error" not in " ".join(column.sentences)


def test_strata_and_pairs_are_tables_that_name_what_is_left_out():
    _rng, age, y, fair, _ = rows()
    job = np.where(np.arange(900) < 11, "rare", "common")
    strata = profile_within(y, fair, age, control_features=job)
    hours = np.random.default_rng(1).uniform(0, 60, size=900)
    pair = AuditedPair(("AGEP", "hours"), *profile_of_pair(y, fair, np.column_stack([age, hours])))
    found = section(compared=False, strata={"AGEP": strata}, pairs=(pair,))
    _, within = found.columns[0].tables
    assert within.headings[0] == "Group"
    assert within.notes == ("Left out: rare (11 rows: fewer than 30 rows).",)
    (both,) = found.pairs
    assert both.headings[:3] == ("age", "hours", "Rows")
    assert len(both.rows) == 9


def test_a_column_without_a_curve_is_told_of():
    found = section(problems={"race": "it is constant"})
    assert found.notes == ("There is no curve along race: it is constant.",)


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([(18.0, 25.0), (26.0, 26.0)], ["18 to 25", "26"]),
        ([(0.0, 0.014), (0.02, 0.987)], ["0.000 to 0.014", "0.020 to 0.987"]),
        ([(-2.5, -1.0)], ["−2.50 to −1.00"]),
        ([(12000.5, 80000.25)], ["12000 to 80000"]),
    ],
)
def test_ranges_have_digits_that_suit_the_column(ranges, words):
    assert range_texts(ranges) == words


def leak_figure(floors):
    rng, age, y, _, _ = rows()
    profile = profile_along(y, rng.normal(size=len(y)), age, other=y, rng=rng, draws=200)
    (column,) = profile_section(StudyProfiles({"AGEP": profile}), {}, WORDS, floors).columns
    return profile, column.figures[-1]


def test_a_leak_within_the_noise_floor_is_drawn_as_noise():
    profile, plain = leak_figure({})
    assert [curve.look for curve in plain.curves] == ["other", "model"]
    floor = profile.leak.correlation
    assert profile.other_leak.correlation > floor
    _, figure = leak_figure({"AGEP": floor})
    assert [curve.look for curve in figure.curves] == ["other", "model noise"]
    assert figure.curves[1].label == f"chosen model (HGR {floor:.3f}, within noise)"
    assert "within noise" not in figure.curves[0].label
    assert f"reach HGR {floor:.3f}." in figure.caption
    assert "thin grey curve (chosen model)" in figure.caption
    # Just above the floor, or along another column, it is no noise.
    for floors in ({"AGEP": floor * 0.999}, {"OTHER": 1.0}):
        _, drawn = leak_figure(floors)
        assert drawn.caption == plain.caption
        assert [curve.look for curve in drawn.curves] == ["other", "model"]

"""Experiments under another reading of the data: what changes, where it goes, what is refused."""

import pytest

from configs.cluster import ClusterConfig
from configs.errors import UserError
from configs.reproduction import (
    is_network,
    parse_experiment,
    quick,
    read_experiment,
    read_otherwise,
    reading_slug,
    reading_words,
    statements,
    without,
)


def experiment(name, reading, change=lambda tree: tree):
    tree = without(read_experiment(name), lambda m: "no networks" if is_network(m) else None)
    return parse_experiment(read_otherwise(change(tree), reading) if reading else tree)


def test_the_protected_column_can_be_kept_on_every_run():
    found = experiment("E1", {"drop": []})
    assert {run.data.drop for run in found.runs.values()} == {()}
    assert found.unread == {}
    plain = experiment("E1", None)
    assert len(found.claims) == len(plain.claims)
    assert {run.data.drop for run in plain.runs.values()} == {("racepctblack",), ("AGEP",)}


def test_a_run_to_which_a_key_means_nothing_is_not_judged_again():
    found = experiment("E1", {"labels": "codes"})
    assert set(found.runs) == {"acs_income", "acs_travel_time"}
    assert "data.labels" in found.unread["crimes"]
    assert not any("crimes" in claim.runs for claim in found.claims)
    said = statements(read_otherwise(read_experiment("E1"), {"labels": "codes"}))
    assert said
    assert not any(text.startswith("Crimes") for text in said)


def test_a_run_that_is_read_so_already_is_not_judged_again():
    found = experiment("preprocessing", {"missing": "zero"})
    assert set(found.runs) == {"crimes"}
    with pytest.raises(UserError, match=r"E4 has no run.*data.drop=\[AGEP\].*the same already"):
        experiment("E4", {"drop": ["AGEP"]})


def test_another_reading_takes_the_place_of_no_other_one():
    plain = parse_experiment(read_experiment("E4"))
    kept = experiment("E4", {"drop": []})
    codes = experiment("E4", {"labels": "codes"})
    both = experiment("E4", {"drop": [], "labels": "codes"})
    small = experiment("E4", {"drop": []}, quick)
    all_ = [plain, kept, codes, both, small]
    assert (plain.collection, plain.prefix) == ("paper", "paper-E4")
    assert (kept.collection, kept.prefix) == ("paper-drop-none", "paper-drop-none-E4")
    assert small.collection == "paper-quick-drop-none"
    for name in ("collection", "prefix"):
        assert len({getattr(one, name) for one in all_}) == len(all_)
    configs = [one.run_configs("acs_income", ClusterConfig())["plain"] for one in all_]
    assert len({config.name for config in configs}) == len(all_)
    assert len({config.experiment for config in configs}) == len(all_)


def test_a_reading_is_named_as_set_takes_it():
    assert reading_words({"drop": [], "labels": "codes"}) == "data.drop=[], data.labels=codes"
    assert reading_slug({"labels": "codes", "drop": []}) == "drop-none-labels-codes"
    long = [reading_slug({"drop": ["a" * 50, last]}) for last in "xy"]
    assert len(set(long)) == 2
    assert max(map(len, long)) <= 40


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        ({"sample": 100}, "'sample'"),
        ({"dropp": []}, "nearest is 'drop'"),
        ({"labels": "code"}, "labels"),
        ({"drop": ["AGE"]}, "AGEP"),
        ({"missing": "zero"}, "crimes with source uci"),
    ],
)
def test_what_is_no_reading_is_refused(reading, words):
    with pytest.raises(UserError, match=words):
        experiment("E4", reading)

from dataclasses import replace

from report_sample import BLACK, TITLES, WHITE, changed, make_champion, make_report

from tasks.report.model import TargetColumn
from tasks.report.narrative import tiles_of


def test_error_comes_first_then_the_measures_with_what_they_were():
    tiles = tiles_of(make_report())
    assert [tile.value for tile in tiles] == ["0.1271", "0.391", "0.0189", "0.111"]
    assert [tile.change for tile in tiles] == [
        "rose 36 %, from 0.0932",
        "fell 32 %, from 0.577",
        "fell 66 %, from 0.0551",
        "fell 62 %, from 0.296",
    ]
    assert tiles[1].title == "HGR, maximal correlation"


def test_a_change_within_noise_has_no_direction():
    champion = make_champion((BLACK,))
    wide = changed(champion.held_out, champion.reference, doubt=2.0)
    tiles = tiles_of(make_report(champion=replace(champion, changes=wide)))
    assert tiles[1].change == "within noise of 0.577"


def test_every_column_has_its_tiles():
    titles = [tile.title for tile in tiles_of(make_report((BLACK, WHITE)))]
    assert titles[4:] == [f"{m}, {TITLES[WHITE]}" for m in ("HGR", "GDP", "PF")]


def test_the_error_stands_in_the_targets_own_unit():
    target = TargetColumn("y", "income", "dollars", 100_000.0)
    assert tiles_of(make_report(target=target))[0].value == "12,710 dollars"


def test_without_champion_there_are_no_tiles():
    assert tiles_of(make_report(champion=None)) == ()

"""Verdicts counted: what proves little apart, the error named."""

import pytest

from tasks.reproduce.claims import COUNTS, Verdict, count, counted_as, headline


def verdict(word, rmse=None, *, source="section 4.1", collapsed=""):
    return Verdict("crimes", "so", source, word, rmse_verdict=rmse, collapsed=collapsed)


FOUND = [
    verdict("holds", "holds"),
    verdict("holds", "fails"),
    verdict("holds", "unclear"),
    verdict("unclear", "holds"),
    verdict("fails", "fails"),
    verdict("holds"),
    verdict("holds", "holds", collapsed="NN-HGR"),
    verdict("fails", "holds", collapsed="NN-HGR"),
    verdict("holds", "holds", source="ours"),
]


@pytest.mark.parametrize(
    ("word", "collapsed", "as_"),
    [
        ("holds", "", "holds"),
        ("holds", "NN-HGR", "holds against a constant"),
        ("fails", "NN-HGR", "fails"),
        ("unclear", "NN-HGR", "unclear"),
    ],
)
def test_only_what_holds_is_counted_apart(word, collapsed, as_):
    assert counted_as(verdict(word, collapsed=collapsed)) == as_


def test_every_verdict_is_counted_once():
    assert sum(count(FOUND, as_) for as_ in COUNTS) == len(FOUND)
    assert count(FOUND, "holds") == 5
    assert count(FOUND, "holds", ours=False) == 4
    assert count(FOUND, "holds", ours=True) == 1
    assert count(FOUND, "holds against a constant") == 1


def test_the_headline_names_the_error_by_which_statements_hold():
    text = headline(FOUND, ours=False)
    assert "taken from the paper 4 hold, 1 more hold only against a network" in text
    assert "2 fail, 1 are unclear, 0 were not judged" in text
    assert "Of 5 that compare errors" in text
    assert "1 hold by MAE and by RMSE, 2 by MAE alone, 1 by RMSE alone, 1 by neither" in text
    assert "constant" not in headline([verdict("holds", "holds")], ours=False).split("Of 1 that")[0]
    assert "RMSE" not in headline([verdict("holds")], ours=False)
    assert "added here 1 hold" in headline(FOUND, ours=True)

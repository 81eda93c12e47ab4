import numpy as np
import pytest

from fkd.measures import MEASURES, BinnedRows, Nodes
from fkd.measures.dcor import dcor


def centred(x):
    """Doubly centred distances of a column."""
    D = np.abs(x[:, None] - x)
    return D - D.mean(axis=0) - D.mean(axis=1)[:, None] + D.mean()


def direct(f, s):
    """Distance correlation from all pairs of rows."""
    A, B = centred(f), centred(s)
    return np.sqrt((A * B).mean() / np.sqrt((A * A).mean() * (B * B).mean()))


def test_it_is_that_of_all_pairs(rng):
    s = rng.normal(size=300)
    for f in (rng.normal(size=300), s + rng.normal(size=300), s**2, np.round(s, 1)):
        assert dcor(f, s) == pytest.approx(direct(f, s), abs=1e-9)


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy", "lognormal"])
def test_many_distinct_values_are_grouped_without_harm(rng, draw):
    s = getattr(rng, draw)(size=2000)
    for f in (s + rng.normal(size=2000), getattr(rng, draw)(size=2000)):
        assert dcor(f, s) == pytest.approx(direct(f, s), abs=2e-3)


def test_units_and_signs_do_not_matter_and_lines_reach_one(rng):
    f, s = rng.normal(size=(2, 100))
    assert dcor(3 - 2 * f, 10 * s) == pytest.approx(dcor(f, s))
    assert dcor(5 - 2 * s, s) == pytest.approx(1.0)


def test_constants_have_no_dependence(rng):
    s = rng.normal(size=50)
    assert dcor(np.ones(50), s) == dcor(s, np.ones(50)) == 0.0
    assert dcor(s, np.column_stack([s, np.ones(50)])).tolist() == pytest.approx([1.0, 0.0])


def test_weights_count_rows(rng):
    f, s = rng.normal(size=(2, 60))
    w = rng.integers(0, 4, size=60)
    repeated = np.repeat(f, w), np.repeat(s, w)
    assert dcor(f, s, sample_weight=w) == pytest.approx(dcor(*repeated))


def test_counts_in_cells_give_the_same(rng):
    s = rng.integers(0, 30, size=5000) / 29
    f = np.clip(0.5 * s + 0.1 * rng.normal(size=5000), -1, 2)
    nodes = {"f_nodes": Nodes.between(-1, 2), "s_nodes": Nodes.levels(np.unique(s))}
    binned = BinnedRows.from_rows(f, s, **nodes)
    assert MEASURES["dcor"].of_bins(binned) == pytest.approx(dcor(f, s), abs=2e-3)

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import KFold

from tasks.kernels.streaming import make_cells
from tasks.plan.splits import Fold


@pytest.fixture
def folds():
    outer = [Fold(*split) for split in KFold(5, shuffle=True, random_state=0).split(range(200))]
    rows = outer[0].train
    inner = [
        Fold(rows[train], rows[test])
        for train, test in KFold(4, shuffle=True, random_state=1).split(rows)
    ]
    return {str(i): fold for i, fold in enumerate(outer + inner)}


def test_the_training_rows_of_every_split_are_a_union_of_cells(folds):
    cells = make_cells(folds, 200)
    for label, fold in folds.items():
        inside = [cell.rows for cell in cells if label in cell.trains]
        assert_array_equal(np.sort(np.concatenate(inside)), fold.train)


def test_cells_are_as_few_as_the_splits_allow(folds):
    cells = make_cells(folds, 200)
    assert len(cells) == 1 + 4 * 4
    assert len({cell.trains for cell in cells}) == len(cells)


def test_rows_that_nothing_trains_on_are_left_out():
    cells = make_cells({"0": Fold(np.array([0, 2]), np.array([1]))}, 5)
    assert [cell.rows.tolist() for cell in cells] == [[0, 2]]


def test_many_splits_do_not_overflow():
    folds = {str(i): Fold(np.delete(np.arange(90), i), np.array([i])) for i in range(90)}
    cells = make_cells(folds, 90)
    assert sorted(cell.rows.tolist() for cell in cells) == [[i] for i in range(90)]

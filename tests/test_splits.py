import gc
import weakref

import numpy as np
import pytest
from sklearn.model_selection import KFold

from configs.load import load_config
from tasks.select.study import open_study


@pytest.fixture
def study(settings):
    return open_study(load_config(), settings)


def test_outer_folds_are_scikit_learns(study):
    n = study.loaded.table.n
    expected = KFold(5, shuffle=True, random_state=0).split(np.empty(n))
    ours = study.inputs.splits.outer(study.loaded.table).values()
    for (train, test), fold in zip(expected, ours, strict=True):
        assert np.array_equal(train, fold.train)
        assert np.array_equal(test, fold.test)


def test_held_out_rows_never_take_part_in_choosing(study):
    table = study.loaded.table
    held_out = study.inputs.splits.outer(table)[study.inputs.splits.held_out(table)]
    inner = study.inputs.splits.inner(table)
    assert len(inner) == 4
    used = np.concatenate([rows for f in inner.values() for rows in (f.train, f.test)])
    assert not set(used) & set(held_out.test)
    assert set(np.concatenate([f.test for f in inner.values()])) == set(held_out.train)


def test_the_digest_tells_splits_apart(study):
    folds = study.inputs.splits.all(study.loaded.table)
    assert len({fold.digest for fold in folds.values()}) == len(folds) == 9


def test_reserved_rows_are_on_the_training_side_of_every_split(settings):
    study = open_study(load_config("default", ["folds.reserve=0.2"]), settings)
    table, splits = study.loaded.table, study.inputs.splits
    reserved = set(splits.reserved(table))
    assert len(reserved) == round(0.2 * table.n)
    for fold in splits.all(table).values():
        assert reserved <= set(fold.train)
        assert not reserved & set(fold.test)


def test_folds_are_made_once_per_table_and_go_with_it(settings):
    study = open_study(load_config(), settings)
    splits, table = study.inputs.splits, study.loaded.table
    first = splits.all(table)["0"]
    assert splits.all(table)["0"] is first
    other = open_study(load_config("default", ["seed=1"]), settings)
    assert other.inputs.splits.all(other.loaded.table)["0"] is not first
    gone = weakref.ref(first)
    del study, splits, table, first
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("folds", "shared"),
    [
        ("{}", True),
        ("{kind: growing, base: 100}", True),
        ("{kind: grouped, by: fold, k: 3}", False),
    ],
)
def test_tables_of_as_many_rows_share_folds_that_only_their_number_decides(settings, folds, shared):
    study = open_study(load_config("default", [f"folds={folds}"]), settings)
    splits, table = study.inputs.splits, study.loaded.table
    turned = table.take(np.arange(table.n)[::-1])  # the same number, other rows
    for first, second in zip(splits.all(table).values(), splits.all(turned).values(), strict=True):
        assert (first is second) == shared
        assert (first.digest == second.digest) == shared

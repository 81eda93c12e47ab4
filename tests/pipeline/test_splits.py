"""Outer and inner folds."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import KFold

from configs.data import FoldsConfig
from configs.errors import UserError
from configs.load import load_config
from fkd.problems.table import Table
from tasks.plan.splits import Fold, Splits, make_folds, reserved_rows, train_on_reserved
from tasks.select.study import open_study


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    n = 120
    return Table(
        numeric_names=("x",),
        numeric=rng.normal(size=(n, 1)),
        categorical_names=(),
        codes=np.empty((n, 0), dtype=np.int32),
        levels=(),
        target_name="y",
        target=rng.normal(size=n),
        sensitive_names=("s", "t"),
        sensitive=rng.normal(loc=[0.0, 9.0], size=(n, 2)),
        target_range=(-9.0, 9.0),
        sensitive_range=np.array([[-9.0, 9.0], [0.0, 20.0]]),
        extra={"PUMA": rng.integers(0, 12, n), "year": rng.choice([2016, 2017, 2019], n)},
    )


@pytest.mark.parametrize(
    "folds",
    [
        FoldsConfig(),
        FoldsConfig(kind="grouped", by="PUMA", k=4),
        FoldsConfig(k=2),
        FoldsConfig(kind="growing", base=100),
    ],
)
def test_every_row_is_tested_once_and_never_trained_on_meanwhile(table, folds):
    made = make_folds(table, folds, seed=3)
    assert len(made) == folds.k
    tested = np.concatenate([fold.test for fold in made])
    assert_array_equal(np.sort(tested), np.arange(table.n))
    assert all(len(np.intersect1d(fold.train, fold.test)) == 0 for fold in made)
    assert all(len(fold.train) + len(fold.test) == table.n for fold in made)


@pytest.mark.parametrize(
    "folds",
    [
        FoldsConfig(k=4),
        FoldsConfig(kind="grouped", by="PUMA", k=4),
        FoldsConfig(kind="growing", base=100, k=4),
        FoldsConfig(kind="forward", k=2),
    ],
)
def test_folds_of_some_rows_are_those_of_a_table_of_them(table, folds):
    rows = np.flatnonzero(np.arange(table.n) % 3)
    alone = make_folds(table.take(rows), folds, seed=3)
    assert len(alone) == folds.k
    for found, fold in zip(make_folds(table, folds, seed=3, rows=rows), alone, strict=True):
        assert_array_equal(found.train, rows[fold.train])
        assert_array_equal(found.test, rows[fold.test])


def test_shuffled_folds_are_scikit_learns(table):
    peer = KFold(5, shuffle=True, random_state=7).split(np.zeros(table.n))
    for fold, (train, test) in zip(make_folds(table, FoldsConfig(), 7), peer, strict=True):
        assert_array_equal(fold.train, train)
        assert_array_equal(fold.test, test)


@pytest.mark.parametrize(
    "kind", [{}, {"kind": "grouped", "by": "PUMA"}, {"kind": "growing", "base": 100}]
)
def test_the_seed_decides_the_folds(table, kind):
    folds = FoldsConfig(**kind)
    first, again, other = (make_folds(table, folds, seed)[0].test for seed in (0, 0, 1))
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_group_is_never_split(table):
    groups = table.extra["PUMA"]
    for fold in make_folds(table, FoldsConfig(kind="grouped", by="PUMA"), seed=0):
        assert len(np.intersect1d(groups[fold.train], groups[fold.test])) == 0


def test_forward_folds_train_on_one_year_and_test_on_the_next(table):
    years = table.extra["year"]
    made = make_folds(table, FoldsConfig(kind="forward"), seed=0)
    seen = [(set(years[fold.train]), set(years[fold.test])) for fold in made]
    assert seen == [({2016}, {2017}), ({2017}, {2019})]


def test_forward_folds_are_the_latest_ones(table):
    times = FoldsConfig(kind="forward", by="PUMA", k=3)
    made = make_folds(table, times, seed=0)
    assert [set(table.extra["PUMA"][fold.test]) for fold in made] == [{9}, {10}, {11}]


def test_the_newest_time_is_held_out_of_choosing(table):
    years = table.extra["year"]
    splits = Splits(FoldsConfig(kind="forward"), seed=0, inner_folds=3)
    held_out = splits.held_out_fold(table)
    assert splits.held_out(table) == "1"
    assert set(years[held_out.test]) == {2019}
    inner = splits.inner(table)
    assert list(inner) == ["1.0", "1.1", "1.2"]
    used = np.concatenate([rows for fold in inner.values() for rows in (fold.train, fold.test)])
    assert set(years[used]) == {2017}


@pytest.mark.parametrize("keys", [{}, {"kind": "grouped", "by": "PUMA"}])
def test_without_time_the_first_fold_is_held_out(table, keys):
    splits = Splits(FoldsConfig(**keys), seed=0, inner_folds=2)
    assert splits.held_out(table) == "0"
    assert_array_equal(splits.held_out_fold(table).test, splits.outer(table)["0"].test)
    assert list(splits.inner(table)) == ["0.0", "0.1"]


def test_inner_folds_keep_groups_whole(table):
    groups = table.extra["PUMA"]
    splits = Splits(FoldsConfig(kind="grouped", by="PUMA", k=3), seed=0, inner_folds=4)
    inner = splits.inner(table)
    assert len(inner) == 4
    for fold in inner.values():
        assert not np.intersect1d(groups[fold.train], groups[fold.test]).size


def test_predictions_of_folds_are_pooled_by_row(table):
    splits = Splits(FoldsConfig(k=3, reserve=0.2), seed=0, inner_folds=0)
    parts = [fold.test.astype(float) for fold in splits.outer(table).values()]
    pooled = splits.pool(table, parts)
    reserved = splits.reserved(table)
    assert np.isnan(pooled[reserved]).all()
    rest = np.setdiff1d(np.arange(table.n), reserved)
    assert_array_equal(pooled[rest], rest)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"k": 121}, "number of rows"),
        ({"kind": "grouped", "by": "PUMA", "k": 13}, "different values of PUMA"),
        ({"kind": "grouped", "by": "puma"}, "nearest is 'PUMA'"),
        ({"kind": "forward", "by": "month"}, r"folds\.by must be one of PUMA, year"),
    ],
)
def test_folds_that_cannot_be_made_are_refused(table, keys, words):
    with pytest.raises(UserError, match=words):
        make_folds(table, FoldsConfig(**keys), seed=0)


def test_one_year_cannot_be_tested_forward(table):
    one = table.take(table.extra["year"] == 2016)
    with pytest.raises(UserError, match=r"at least two values of year.*data\.year"):
        make_folds(one, FoldsConfig(kind="forward"), seed=0)


@pytest.mark.parametrize("seed", [0, 5])
def test_reserved_rows_are_the_wanted_share(table, seed):
    rows = reserved_rows(table, FoldsConfig(reserve=0.25), seed)
    assert len(np.unique(rows)) == len(rows) == 30
    assert_array_equal(rows, reserved_rows(table, FoldsConfig(reserve=0.25), seed))
    assert len(reserved_rows(table, FoldsConfig(), seed)) == 0


def test_whole_groups_are_reserved(table):
    groups = table.extra["PUMA"]
    rows = reserved_rows(table, FoldsConfig(kind="grouped", by="PUMA", k=3, reserve=0.2), seed=1)
    assert len(rows) >= 24
    assert_array_equal(rows, np.flatnonzero(np.isin(groups, groups[rows])))


def test_reserved_rows_train_and_are_never_tested():
    fold = train_on_reserved(Fold(np.array([0, 3]), np.array([1, 2, 4])), np.array([0, 2]))
    assert fold.train.tolist() == [0, 2, 3]
    assert fold.test.tolist() == [1, 4]


def test_a_fold_must_keep_rows_to_test_on():
    with pytest.raises(UserError, match=r"folds\.reserve must leave test rows"):
        train_on_reserved(Fold(np.array([0, 3]), np.array([1])), np.array([1]))


def test_time_cannot_be_reserved():
    with pytest.raises(ValueError, match=r"folds\.reserve must be 0 for kind forward"):
        FoldsConfig(kind="forward", reserve=0.1)


def test_too_few_rows_for_inner_folds_are_told_by_their_own_key(table):
    splits = Splits(FoldsConfig(k=2), seed=0, inner_folds=4)
    with pytest.raises(UserError, match=r"^select\.inner_folds .* \(3\), got 4\. .*inner_folds=3"):
        splits.inner(table.take(slice(0, 6)))
    with pytest.raises(UserError, match=r"^folds\.k must be at most the number of rows \(1\)"):
        splits.outer(table.take(slice(0, 1)))


def rows_only(n):
    """A table of which nothing but the number of rows matters."""
    return Table(
        numeric_names=("x",),
        numeric=np.arange(n, dtype=np.float64)[:, None],
        categorical_names=(),
        codes=np.empty((n, 0), dtype=np.int32),
        levels=(),
        target_name="y",
        target=np.zeros(n),
        sensitive_names=("s",),
        sensitive=np.zeros((n, 1)),
        target_range=(0.0, 1.0),
        sensitive_range=np.array([[0.0, 1.0]]),
    )


# Within what is drawn at once, at its end, behind it.
@pytest.mark.parametrize("grown", [301, 65_536, 65_537, 140_000])
def test_rows_keep_their_folds_when_others_follow(grown):
    splits = Splits(FoldsConfig(kind="growing", base=300, reserve=0.2, k=4), 3, 3)
    before, after = rows_only(300), rows_only(grown)
    reserved = splits.reserved(before)
    assert len(reserved) == 60
    assert_array_equal(splits.reserved(after), reserved)
    folds = splits.all(before)
    assert len(folds) == 4 + 3
    for label, fold in splits.all(after).items():
        assert_array_equal(fold.train[fold.train < 300], folds[label].train)
        assert_array_equal(fold.test[fold.test < 300], folds[label].test)
        assert not set(reserved) & set(fold.test.tolist())
    tested = np.concatenate([fold.test for fold in splits.outer(after).values()])
    assert len(tested) == len(set(tested.tolist())) == grown - 60


def test_growing_folds_are_about_equal():
    sizes = [len(f.test) for f in make_folds(rows_only(140_000), GROWING, seed=0)]
    assert max(sizes) - min(sizes) < 6 * np.sqrt(140_000 / 5)


GROWING = FoldsConfig(kind="growing", base=2)


@pytest.mark.parametrize("seed", range(4))
def test_a_growing_fold_without_rows_is_refused(seed):
    with pytest.raises(UserError, match=r"folds\.k must .* got 5 folds of 5 rows"):
        make_folds(rows_only(5), GROWING, seed)
    assert all(len(fold.test) for fold in make_folds(rows_only(100), GROWING, seed))


def test_a_table_must_not_have_fewer_rows_than_it_had_first():
    with pytest.raises(UserError, match=r"folds\.base must be at most the number of rows \(99\)"):
        reserved_rows(rows_only(99), FoldsConfig(kind="growing", base=100, reserve=0.1), 0)


@pytest.mark.parametrize("keys", [{"kind": "growing"}, {"base": 100}])
def test_growing_folds_go_with_the_rows_a_table_had_first(keys):
    with pytest.raises(ValueError, match=r"folds\.base must"):
        FoldsConfig(**keys)


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

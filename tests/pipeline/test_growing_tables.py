import random
from dataclasses import replace

import numpy as np
import pytest
from grown_sample import BASE, COLUMNS, grown_study, write_rows
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from stored_files import folder_store, map_file, stored

from configs.errors import UserError
from fkd.core.conditioning import Functions
from fkd.core.moments import Moments, StreamedSums
from fkd.core.sensitive_basis import BasisSettings
from tasks.data.load import prepared_name
from tasks.fit.job import run_job
from tasks.kernels import shared_map
from tasks.kernels import streaming as leaves
from tasks.kernels.shared_map import content_of, load_map, store_map
from tasks.kernels.shared_training import shared_sums
from tasks.kernels.streaming import (
    Leaf,
    Sums,
    cell_leaves,
    cell_sums,
    coupled_of,
    leaf_name,
    leaf_sums,
    moments_of,
    read_sums,
    stream_moments,
    study_cells,
    sum_leaf,
    write_sums,
)
from tasks.plan.trials import cached_table
from tasks.storage.settings import Settings
from tasks.storage.store import open_store

SIZE = 30  # rows of a task here: cells of the table have several
RBF = Functions(BasisSettings("rbf", 10.0))
GIVEN = Functions(BasisSettings("splines"), "y")


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch):
    monkeypatch.setattr(leaves, "TASK_ROWS", SIZE)


@pytest.fixture
def path(tmp_path):
    write_rows(tmp_path / "own.csv", BASE)
    return tmp_path / "own.csv"


@pytest.fixture
def computed(monkeypatch):
    """Leaves that were summed indeed, by their rows."""
    found = []
    summed = leaves._summed
    monkeypatch.setattr(leaves, "_summed", lambda *a: found.append(a[1].shape[0]) or summed(*a))
    return found


def here(function, jobs, keep):
    for job in random.Random(len(jobs)).sample(jobs, len(jobs)):
        keep(job, function(job))


def one_leaf(study, **changes):
    ((sums, _),) = shared_sums(study.missing()).items()
    return replace(Leaf(Sums(store_map(sums.shared), sums.precision), (), 0, 0, SIZE), **changes)


def all_moments(study, functions=()):
    """The sums of every split, by label."""
    ((sums, _),) = shared_sums(study.missing()).items()
    own, table = Sums(store_map(sums.shared), sums.precision), study.loaded.table
    found = {}
    for label, fold in study.inputs.splits.all(table).items():
        total = moments_of(own, fold.train)
        squares = float(total.C.trace())
        coupled = [coupled_of(own, fold.train, f, squares=squares) for f in functions]
        found[label] = [total, *coupled]
    return found


def leaf_rows(study):
    """The rows of every leaf of a study."""
    cells = study_cells(study.inputs)
    return {
        tuple(cell.rows[start : start + SIZE].tolist())
        for cell in cells
        for start in range(0, len(cell.rows), SIZE)
    }


def assert_same_bits(left, right):
    assert left.keys() == right.keys()
    for label, parts in left.items():
        for mine, theirs in zip(parts, right[label], strict=True):
            for name, value in vars(mine).items():
                assert_array_equal(getattr(theirs, name), value, err_msg=f"{label} {name}")


def predicted(study):
    for job in study.missing():
        run_job(job)
    records = [record for result in study.results() for record in result.records]
    return [study.store.predictions(record.key) for record in records]


@pytest.mark.parametrize("functions", [False, True])
def test_only_appended_rows_are_summed(path, settings, tmp_path, computed, functions):
    first = grown_study(path, settings, functions=functions)
    stream_moments(here, shared_sums(first.missing()))
    assert sum(computed) == BASE
    known = leaf_rows(first)
    (sums,) = shared_sums(first.missing())
    before = store_map(sums.shared)
    write_rows(path, 1100)
    computed.clear()
    grown = grown_study(path, settings, functions=functions)
    assert grown.inputs.table_digest != first.inputs.table_digest
    stream_moments(here, shared_sums(grown.missing()))
    # Of each cell the last rows, which were too few for a leaf, are summed with the new ones.
    new = [rows for rows in leaf_rows(grown) if rows not in known]
    assert sorted(computed) == sorted(map(len, new))
    assert sum(map(len, new)) < 1100 - 0.6 * BASE
    (sums,) = shared_sums(grown.missing())
    assert store_map(sums.shared).checksum == before.checksum  # the same reserved rows
    wanted = [f for needed in shared_sums(grown.missing()).values() for f in needed]
    found, predictions = all_moments(grown, wanted), predicted(grown)
    # The same numbers, to the last bit, as in a home that never saw the smaller table.
    fresh = grown_study(path, Settings(tmp_path / "fresh", None, None, None), functions=functions)
    computed.clear()
    stream_moments(here, shared_sums(fresh.missing()))
    assert sum(computed) == 1100
    assert_same_bits(found, all_moments(fresh, wanted))
    for left, right in zip(predictions, predicted(fresh), strict=True):
        assert_array_equal(left, right)


def test_a_changed_row_is_summed_again(path, settings, computed):
    first = grown_study(path, settings)
    stream_moments(here, shared_sums(first.missing()))
    reserved = set(first.inputs.splits.reserved(first.loaded.table).tolist())
    lines = path.read_text().splitlines()
    place = next(i for i in range(5, BASE) if i not in reserved)
    lines[place + 1] = "0.250000" + lines[place + 1][8:]
    path.write_text("\n".join([*lines, ""]))
    computed.clear()
    changed = grown_study(path, settings)
    stream_moments(here, shared_sums(changed.missing()))
    assert 0 < sum(computed) <= SIZE
    rows = changed.inputs.splits.all(changed.loaded.table)["1"].train
    y = changed.loaded.table.y[rows]
    assert all_moments(changed)["1"][0].y == pytest.approx(y.sum(), rel=1e-12)


def test_keys_of_sums_with_functions_contain_the_reserved_rows(path, settings):
    """Reserved rows give functions of s by columns that their map does not hold."""
    first = grown_study(path, settings, functions=True)
    table = first.loaded.table
    reserved = first.inputs.splits.reserved(table)
    before = one_leaf(first, functions=(RBF,))
    plain = sum_leaf(replace(before, functions=()))
    cells = study_cells(first.inputs)
    cell = next(i for i, c in enumerate(cells) if not set(c.rows[:SIZE]) & set(reserved))
    lines = path.read_text().splitlines()
    for place in reserved[5:60]:  # another sensitive value, the inputs as they were
        cut = lines[place + 1].split(",")
        lines[place + 1] = ",".join([cut[0], "0.123456", *cut[2:]])
    path.write_text("\n".join([*lines, ""]))
    after = one_leaf(grown_study(path, settings, functions=True), functions=(RBF,))
    assert after.sums.stored.checksum == before.sums.stored.checksum
    old, new = (leaf_sums(replace(leaf, cell=cell)) for leaf in (before, after))
    for name, value in vars(old[0].parts[0]).items():
        assert_array_equal(getattr(new[0].parts[0], name), value)
    assert old[1] != new[1]
    assert np.abs(old[0].parts[1].w - new[0].parts[1].w).max() > 1e-3
    assert stored(settings, leaf_name(plain)).is_file()


def test_every_input_of_a_leaf_is_in_its_key(path, settings, monkeypatch):
    study = grown_study(path, settings)
    leaf = one_leaf(study)
    X, S, y = leaves.leaf_rows(leaf)
    X, S, y = X.copy(), S.copy(), y.copy()

    def key(leaf=leaf, X=X, S=S, y=y):
        return leaves._key(leaf, X, S, y)

    def nudged(array, place):
        changed = array.copy()
        changed[place] = np.nextafter(changed[place], 9.0)
        return changed

    assert isinstance(X, csr_array)
    other = X.copy()
    other.data = nudged(other.data, 3)
    moved = X.copy()
    moved.indices = moved.indices.copy()
    moved.indices[-1] -= 1
    own = leaf.sums
    keys = [
        key(),
        key(replace(leaf, sums=replace(own, precision="rows"))),
        key(replace(leaf, sums=replace(own, precision="float32"))),
        key(replace(leaf, functions=(RBF,))),
        key(replace(leaf, functions=(GIVEN,))),
        key(replace(leaf, functions=(RBF, GIVEN))),
        key(replace(leaf, functions=(GIVEN, RBF))),
        key(replace(leaf, sums=replace(own, stored=replace(own.stored, checksum="0" * 64)))),
        key(X=other),
        key(X=moved),
        key(X=X[:-1], S=S[:-1], y=y[:-1]),
        key(S=nudged(S, (7, 1))),
        key(S=S[:, ::-1]),
        key(S=S[:, :1], y=np.append(S[:, 1], y)),
        key(y=nudged(y, SIZE - 1)),
    ]
    assert len(set(keys)) == len(keys)
    # Where among the leaves these rows stand does not matter to their sums.
    assert key(replace(leaf, position=3, cell=1)) == key()
    monkeypatch.setattr(leaves, "VERSION", 99)
    assert key() not in keys
    monkeypatch.undo()
    monkeypatch.setattr(leaves, "FUNCTIONS_VERSION", 99)
    assert key() == keys[0]
    assert key(replace(leaf, functions=(RBF,))) not in keys


def test_additional_columns_are_part_of_the_digest(rng):
    X, a, b = rng.normal(size=(6, 2)), rng.normal(size=6), rng.normal(size=(6, 2))
    contents = [content_of(X, a), content_of(X, b), content_of(X, a, b), content_of(X, b, a)]
    assert len({str(content) for content in contents}) == 4
    assert content_of(X, a) == content_of(np.asfortranarray(X), a.copy())


def test_sums_are_read_as_written(tmp_path, rng):
    fmap_sums = leaves.LeafSums(
        (Moments.from_rows(rng.normal(size=(9, 4)), np.ones((9, 2)), np.ones(9)),)
    )
    store = folder_store(tmp_path)
    write_sums(store, "a.arrays", fmap_sums)
    (found,) = read_sums(store, "a.arrays").parts
    for name, value in vars(fmap_sums.parts[0]).items():
        assert_array_equal(getattr(found, name), value)
        assert type(getattr(found, name)) is type(value)
    content = bytearray((tmp_path / "a.arrays").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "a.arrays").write_bytes(content)
    assert read_sums(store, "a.arrays") is None
    assert read_sums(store, "b.arrays") is None


def test_a_damaged_leaf_is_summed_again(path, settings, computed):
    leaf = one_leaf(grown_study(path, settings))
    store, name = open_store(settings), leaf_name(sum_leaf(leaf))
    before, place = read_sums(store, name), stored(settings, name)
    place.write_bytes(place.read_bytes()[:-1])
    sum_leaf(leaf)
    assert computed == [SIZE, SIZE]
    assert_same_bits({"": before.parts}, {"": read_sums(store, name).parts})
    sum_leaf(leaf)
    assert len(computed) == 2


def test_a_fit_computes_blocks_that_another_process_removed(path, settings, monkeypatch):
    """Two fits that need a cell both make it; who is done first removes its leaves."""
    study = grown_study(path, settings, kind="shuffled", base=None)
    leaf = one_leaf(study)
    expected = cell_sums(leaf.sums, 0)
    assert not list(stored(settings, "moments").glob("*.leaf.arrays"))
    own = map_file(leaf.sums.stored.shared)
    for place in set(stored(settings, "moments").glob("*.arrays")) - {own}:
        if not place.name.endswith(".cells.arrays"):
            place.unlink()
    members = cell_leaves(leaf.sums, (), 0)
    assert len(members) > 1
    for member in members:
        sum_leaf(member)
    read = leaves.read_sums

    def vanishing(store, name, **keywords):
        found = read(store, name, **keywords)
        for place in stored(settings, "moments").glob("*.leaf.arrays"):
            place.unlink()
        return found

    monkeypatch.setattr(leaves, "read_sums", vanishing)
    found = cell_sums(leaf.sums, 0)
    assert_same_bits({"": [expected]}, {"": [found]})


def test_a_worker_reads_only_the_rows_of_its_block(path, settings, monkeypatch):
    study = grown_study(path, settings)
    leaf = one_leaf(study, position=1)
    sum_leaf(one_leaf(study))  # the encoder is made, once per worker, from the reserved rows
    table = study.inputs.table
    taken = []
    take = type(table).take
    monkeypatch.setattr(
        type(table), "take", lambda self, rows: taken.append(rows) or take(self, rows)
    )
    sum_leaf(leaf)
    (rows,) = taken
    assert_array_equal(rows, study_cells(study.inputs)[0].rows[SIZE : 2 * SIZE])


def test_memory_does_not_grow_with_the_rows(path, settings):
    study = grown_study(path, settings)
    fmap = load_map(one_leaf(study).sums.stored)
    sums = StreamedSums(fmap, "float64", [2])
    held = sum(value.nbytes for value in vars(sums).values() if isinstance(value, np.ndarray))
    sums.add(np.zeros((9000, fmap.centers.shape[1])), np.zeros((9000, 2)), np.zeros(9000))
    after = sum(value.nbytes for value in vars(sums).values() if isinstance(value, np.ndarray))
    assert after == held


def test_the_error_for_nan_in_a_prepared_table_names_the_column(path, settings):
    study = grown_study(path, settings)
    leaf = one_leaf(study)
    place = stored(settings, prepared_name(study.inputs.table_digest))
    row = int(study_cells(study.inputs)[0].rows[3])
    value = study.loaded.table.numeric[row, 1].tobytes()
    content = place.read_bytes()
    assert content.count(value) == 1
    place.write_bytes(content.replace(value, np.float64(np.nan).tobytes()))
    cached_table.cache_clear()
    with pytest.raises(ValueError, match="column b must hold finite numbers, got 1 missing"):
        sum_leaf(leaf)


@pytest.mark.parametrize("damage", ["gone", "short", "folder"])
def test_an_unreadable_prepared_table_is_an_error(path, settings, damage):
    study = grown_study(path, settings)
    leaf = one_leaf(study)
    place = stored(settings, prepared_name(study.inputs.table_digest))
    content = place.read_bytes()
    place.unlink()
    if damage == "short":
        place.write_bytes(content[:-9])
    elif damage == "folder":
        place.mkdir()
    cached_table.cache_clear()
    with pytest.raises(
        FileNotFoundError, match=r"prepared table .* must be readable on every work"
    ):
        sum_leaf(leaf)


def test_fewer_reserved_rows_than_landmarks_are_refused(path, settings):
    with pytest.raises(UserError) as caught:
        grown_study(path, settings, reserve=0.05)
    message = str(caught.value)
    assert message.startswith("folds.reserve must reserve at least as many rows")
    assert "(50), got 30 of 600 rows" in message
    assert grown_study(path, settings, reserve=50 / 600).trials


def test_landmarks_without_variance_are_refused(tmp_path, settings):
    lines = [f"{i / BASE},{(7 * i % BASE) / BASE},3.0,1.0,2.0,k" for i in range(BASE)]
    # Rows that were added later differ, but none of them is reserved.
    lines += [f"0.5,0.5,9.0,{i}.5,2.0,other" for i in range(60)]
    source = tmp_path / "flat.csv"
    source.write_text("\n".join([",".join(COLUMNS), *lines, ""]))
    with pytest.raises(UserError) as caught:
        grown_study(source, settings)
    message = str(caught.value)
    assert message.startswith(
        "The 180 rows from which landmarks are chosen must differ in their inputs"
    )
    assert "got only constant columns. Raise folds.reserve" in message


def test_scaling_on_all_rows_checks_them(path, settings):
    study = grown_study(path, settings)
    inputs = replace(study.inputs, scale_on="all")
    place = stored(settings, prepared_name(study.inputs.table_digest))
    value = study.loaded.table.numeric[11, 0].tobytes()
    content = place.read_bytes()
    assert content.count(value) == 1
    place.write_bytes(content.replace(value, np.float64(np.nan).tobytes()))
    cached_table.cache_clear()
    with pytest.raises(ValueError, match="column a must hold finite numbers"):
        shared_map.shared_encoder(inputs)

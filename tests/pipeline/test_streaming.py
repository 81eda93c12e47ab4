import os
import random
import signal
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from counted_leaves import counted_leaf, lines
from dask_process import dask_process, dask_scheduler
from deadlines import patient
from numpy.testing import assert_allclose, assert_array_equal
from stored_files import map_file, stored

from configs.cluster import ClusterConfig
from configs.load import load_config
from fkd.core.conditioning import Functions
from fkd.core.moments import BasisMoments, Moments
from fkd.core.sensitive_basis import BasisSettings
from fkd.methods import Approximation
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs
from tasks.kernels import streaming
from tasks.kernels import streaming as leaves
from tasks.kernels.shared_map import (
    SharedMap,
    StoredMap,
    load_map,
    rounding_of,
    shared_encoder,
    store_map,
)
from tasks.kernels.streaming import Leaf, MapSums, Sums, Total, stream_moments, study_cells
from tasks.select.study import open_study


@pytest.fixture
def shared(settings):
    overrides = ["folds.reserve=0.2", "data.sensitive=[racepctblack, racePctWhite]"]
    inputs = open_study(load_config("default", overrides), settings).inputs
    return SharedMap(inputs, 0.05, Approximation("nystroem", 60, shared=True))


def direct(shared, rows):
    """Moments of rows in one piece, by the same map."""
    inputs = shared.inputs
    part = inputs.table.take(rows)
    G = load_map(store_map(shared)).transform(shared_encoder(inputs).transform(part))
    return Moments.from_rows(G, part.S(inputs.sensitive), part.y)


def sums(shared, precision="float64"):
    """The sums that most tests are about."""
    return MapSums(shared, precision)


def moments_of(stored, train, precision="float64"):
    return streaming.moments_of(Sums(stored, precision), train)


def coupled_of(stored, train, functions, precision="float64"):
    squares = moments_of(stored, train, precision).C.trace()
    return streaming.coupled_of(Sums(stored, precision), train, functions, squares=squares)


def folds(shared):
    table = shared.inputs.table
    return shared.inputs.splits.all(table)


def here(function, jobs, keep):
    """Runs jobs in this process, in an order of its own."""
    for job in random.Random(len(jobs)).sample(jobs, len(jobs)):
        keep(job, function(job))


def recorded(made):
    """Runs jobs here, keeping them."""
    return lambda f, jobs, keep: made.extend(jobs) or here(f, jobs, keep)


def nowhere(function, jobs, keep):
    """A cluster on which everything but the map fails."""
    if function is store_map:
        here(function, jobs, keep)


def assert_equal(left, right, **tolerance):
    compare = assert_allclose if tolerance else assert_array_equal
    for name, value in vars(left).items():
        compare(getattr(right, name), value, **tolerance)


def test_training_moments_are_the_sum_of_the_other_folds(shared):
    stream_moments(here, {sums(shared, "rows"): []})
    stored = store_map(shared)
    for fold in folds(shared).values():
        found = moments_of(stored, fold.train, "rows")
        assert_equal(direct(shared, fold.train), found, rtol=1e-10)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_sums_of_kernel_values_lose_what_was_measured(shared, precision):
    """On other rows than those that were looked at, hence only about as much."""
    stream_moments(here, {sums(shared, precision): []})
    stored = store_map(shared)
    rounding = rounding_of(stored)
    a_row = {"float64": rounding.double, "float32": rounding.single}[precision]
    assert rounding.single > 1e4 * rounding.double
    for fold in folds(shared).values():
        exact, found = direct(shared, fold.train), moments_of(stored, fold.train, precision)
        lost = np.linalg.norm(found.C - exact.C, 2)
        assert lost < 5 * a_row * len(fold.train)
        assert lost > 0.02 * a_row * len(fold.train)
        assert (found.C == found.C.T).all()
        for name in ("n", "s", "y", "yy"):
            assert_allclose(getattr(found, name), getattr(exact, name), rtol=1e-12)
        digits = 1e-8 if precision == "float64" else 1e-3
        for name in ("b", "c", "g"):
            scale = np.abs(getattr(exact, name)).max()
            assert_allclose(getattr(found, name), getattr(exact, name), atol=digits * scale)


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_the_number_of_blocks_does_not_matter(shared, monkeypatch, blocks):
    cells = study_cells(shared.inputs)
    cell = max(cells, key=lambda cell: len(cell.rows))
    monkeypatch.setattr(leaves, "TASK_ROWS", -(-len(cell.rows) // blocks))
    made = []
    stream_moments(
        lambda f, jobs, keep: made.extend(jobs) or here(f, jobs, keep), {sums(shared): []}
    )
    index = next(i for i, c in enumerate(cells) if c is cell)
    assert sum(isinstance(job, Leaf) and job.cell == index for job in made) == blocks
    train = folds(shared)["1"].train
    found = moments_of(store_map(shared), train, "rows")
    assert_equal(direct(shared, train), found, rtol=1e-10)


def test_a_fit_computes_missing_sums(shared):
    train = folds(shared)["0.1"].train
    stream_moments(nowhere, {sums(shared): []})
    alone = moments_of(store_map(shared), train)
    for path in stored(shared.inputs.settings, "moments").glob("*.arrays"):
        path.unlink()
    stream_moments(here, {sums(shared): []})
    assert_equal(alone, moments_of(store_map(shared), train))


def test_a_second_pass_computes_nothing(shared):
    stream_moments(here, {sums(shared): []})
    made = []
    stream_moments(
        lambda f, jobs, keep: made.extend(jobs) or here(f, jobs, keep), {sums(shared): []}
    )
    assert made == [shared]


def test_damaged_moments_are_computed_again(shared):
    stream_moments(here, {sums(shared): []})
    train = folds(shared)["0"].train
    before = moments_of(store_map(shared), train)
    cells = set(stored(shared.inputs.settings, "moments").glob("*.cells.arrays"))
    for path in (
        set(stored(shared.inputs.settings, "moments").glob("*.arrays")) - {map_file(shared)} - cells
    ):
        flip(path)
    assert_equal(before, moments_of(store_map(shared), train))


def flip(path):
    content = bytearray(path.read_bytes())
    content[-900] ^= 1
    path.write_bytes(content)


def test_damaged_cells_are_computed_again(shared):
    before = study_cells(shared.inputs)
    (path,) = stored(shared.inputs.settings, "moments").glob("*.cells.arrays")
    rows = [cell.rows.copy() for cell in before]
    flip(path)
    study_cells.cache_clear()
    after = study_cells(shared.inputs)
    assert [cell.digest for cell in after] == [cell.digest for cell in before]
    for left, right in zip(rows, after, strict=True):
        assert_array_equal(left, right.rows)


def test_moments_of_another_map_are_not_used(shared, monkeypatch):
    stream_moments(here, {sums(shared): []})
    stored = store_map(shared)
    content = map_file(shared).read_bytes()
    monkeypatch.setattr(streaming, "VERSION", 99)
    assert len(streaming.missing_cells(Sums(stored, "float64"))) == len(study_cells(shared.inputs))
    assert map_file(shared).read_bytes() == content


@pytest.mark.stack
def test_a_killed_worker_costs_only_its_block(shared, monkeypatch):
    monkeypatch.setattr(leaves, "TASK_ROWS", 40)
    stream_moments(here, {sums(shared): []})
    alone = moments_of(store_map(shared), folds(shared)["0"].train)
    for path in stored(shared.inputs.settings, "moments").glob("*.arrays"):
        path.unlink()
    taken = []
    with connect(ClusterConfig(workers=2), shared.inputs.settings) as client:
        pids = list(client.run(os.getpid).values())

        def run(function, jobs, keep):
            def take(job, result):
                if len(taken) == 3:
                    os.kill(pids[0], signal.SIGKILL)
                taken.append(job)
                keep(job, result)

            assert not run_jobs(client, function, jobs, retries=3, time_limit=60.0, on_result=take)

        stream_moments(run, {sums(shared): []})
        assert pids[0] not in client.run(os.getpid).values()  # it was killed indeed
    assert len(taken) == len(set(taken)) > 40
    assert_equal(alone, moments_of(store_map(shared), folds(shared)["0"].train))


@pytest.mark.stack
@pytest.mark.parametrize("dies", ["", "1"])
def test_a_killed_worker_process_costs_its_block_and_changes_no_bit(
    shared, monkeypatch, tmp_path, free_port, dies
):
    monkeypatch.setattr(leaves, "TASK_ROWS", 40)
    stream_moments(here, {sums(shared): []})
    alone = moments_of(store_map(shared), folds(shared)["0"].train)
    wipe(shared)
    config = ClusterConfig(address=f"tcp://127.0.0.1:{free_port}")

    def run(function, jobs, keep):
        counted = counted_leaf if function is leaves.sum_leaf else function
        assert not run_jobs(client, counted, jobs, retries=3, time_limit=60.0, on_result=keep)

    words = ("worker", config.address, "--nthreads", "1")
    with (
        dask_scheduler(free_port),
        dask_process(*words, COUNTS=str(tmp_path)),
        dask_process(*words, COUNTS=str(tmp_path), DIES=dies),
        connect(config, shared.inputs.settings) as client,
    ):
        client.wait_for_workers(2, timeout=patient(60.0))
        stream_moments(run, {sums(shared): []})
    computed = lines(tmp_path)
    times = Counter(block for block, _ in computed)
    assert len(times) > 40
    assert len({process for _, process in computed}) >= 2
    assert (tmp_path / "died").exists() == bool(dies)
    assert sorted(times.values())[-2:] == ([1, 2] if dies else [1, 1])
    assert_equal(alone, moments_of(store_map(shared), folds(shared)["0"].train))


RBF = Functions(BasisSettings("rbf", 10.0))
GIVEN = Functions(BasisSettings("splines"), "y")


def coupled_directly(shared, rows, functions):
    """Products of rows in one piece, with functions of the reserved rows."""
    inputs = shared.inputs
    table = inputs.table
    part, reserved = table.take(rows), table.take(inputs.splits.reserved(table))
    G = load_map(store_map(shared)).transform(shared_encoder(inputs).transform(part))
    columns = functions.columns(reserved.S(inputs.sensitive), reserved.y)
    return BasisMoments.from_rows(G, *columns(part.S(inputs.sensitive), part.y))


def wipe(shared):
    for path in stored(shared.inputs.settings, "moments").glob("*.arrays"):
        path.unlink()


@pytest.mark.parametrize("task_rows", [70, 10**6])
def test_products_with_functions_are_the_sum_of_the_other_folds(shared, monkeypatch, task_rows):
    monkeypatch.setattr(leaves, "TASK_ROWS", task_rows)
    stream_moments(here, {sums(shared): [RBF, GIVEN]})
    stored = store_map(shared)
    for fold in (folds(shared)[label] for label in ("0", "3", "0.1")):
        for functions in (RBF, GIVEN):
            found = coupled_of(stored, fold.train, functions)
            expected = coupled_directly(shared, fold.train, functions)
            assert_equal(expected, found, rtol=1e-9, atol=1e-9)
            assert_allclose(found.covariance(), expected.covariance(), atol=1e-10)
            assert found.n == len(fold.train)


def test_products_of_workers_and_of_fits_are_equal(shared, monkeypatch):
    monkeypatch.setattr(leaves, "TASK_ROWS", 70)
    train = folds(shared)["1"].train
    stream_moments(nowhere, {sums(shared): [RBF, GIVEN]})
    alone = [coupled_of(store_map(shared), train, f) for f in (GIVEN, RBF)]
    moments = moments_of(store_map(shared), train)
    wipe(shared)
    stream_moments(here, {sums(shared): [RBF, GIVEN]})
    for before, functions in zip(alone, (GIVEN, RBF), strict=True):
        assert_equal(before, coupled_of(store_map(shared), train, functions))
    assert_equal(moments, moments_of(store_map(shared), train))


def test_moments_and_functions_take_one_pass(shared):
    made = []
    stream_moments(recorded(made), {sums(shared): [RBF, GIVEN]})
    cells = len(study_cells(shared.inputs))
    blocks = [job for job in made if isinstance(job, Leaf)]
    assert len(blocks) == cells == sum(isinstance(job, Total) for job in made)
    assert {block.functions for block in blocks} == {(RBF, GIVEN)}
    # What is there already is not computed again: functions that came later alone are.
    stream_moments(recorded(made := []), {sums(shared): [RBF, GIVEN]})
    assert made == [shared]
    later = Functions(BasisSettings("rbf", 3.0))
    stream_moments(recorded(made := []), {sums(shared): [RBF, later]})
    assert {block.functions for block in made if isinstance(block, Leaf)} == {(later,)}
    assert len(made[1:]) == 2 * cells


def test_products_of_other_inputs_have_other_names(shared, settings):
    stored = store_map(shared)
    other = replace(shared.inputs, sensitive=("racepctblack",))
    meanings = [
        None,
        RBF,
        Functions(BasisSettings("rbf", 3.0)),
        Functions(BasisSettings("splines", 10.0)),
        Functions(BasisSettings("rbf", 10.0), "y"),
    ]
    elsewhere = StoredMap(SharedMap(other, 0.05, shared.approximation), stored.checksum)
    places = [
        streaming.sums_name(Sums(where, precision), cell, wanted)
        for where in (stored, elsewhere)
        for precision in ("float64", "float32", "rows")
        for cell in (0, 1)
        for wanted in meanings
    ]
    assert len(set(places)) == 2 * 3 * 2 * 5


def test_a_new_version_of_functions_keeps_moments(shared, monkeypatch):
    stream_moments(here, {sums(shared): [RBF]})
    monkeypatch.setattr(streaming, "FUNCTIONS_VERSION", 99)
    assert set(streaming.missing_cells(Sums(store_map(shared), "float64"), [RBF]).values()) == {
        (RBF,)
    }
    assert streaming.missing_cells(Sums(store_map(shared), "float64")) == {}


@pytest.mark.parametrize("functions", [RBF, GIVEN], ids=["rbf", "given"])
def test_functions_depend_on_reserved_rows_only(shared, monkeypatch, functions):
    """A signal in rows that some fold tests on moves none of them; one in reserved rows does."""
    inputs = shared.inputs
    table = inputs.table
    reserved = inputs.splits.reserved(table)
    S, y = table.S(inputs.sensitive), table.y

    def planted(rows):
        sensitive, target = table.sensitive.copy(), table.target.copy()
        sensitive[rows], target[rows] = sensitive.mean(axis=0), target.max()
        changed = replace(table, sensitive=sensitive, target=target)
        monkeypatch.setattr("tasks.plan.trials.cached_table", lambda *_: changed)
        leaves._columns.cache_clear()
        found = leaves._columns(inputs, functions)(S, y)
        leaves._columns.cache_clear()
        return np.hstack([part for part in found if part is not None])

    plain = planted([])
    tested = np.setdiff1d(np.arange(table.n), reserved)
    assert_array_equal(planted(tested), plain)
    moved = planted(reserved[::2])
    assert moved.shape != plain.shape or np.abs(moved - plain).max() > 1e-3


def test_damaged_products_are_computed_again(shared):
    stream_moments(here, {sums(shared): [RBF]})
    train = folds(shared)["0"].train
    before = coupled_of(store_map(shared), train, RBF)
    own = store_map(shared)
    for i in range(len(study_cells(shared.inputs))):
        flip(stored(shared.inputs.settings, streaming.sums_name(Sums(own, "float64"), i, RBF)))
    assert_equal(before, coupled_of(own, train, RBF))

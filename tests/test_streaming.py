import os
import random
import signal

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from configs.load import load_config
from configs.schema import ClusterConfig
from fkd.catalog.methods import Approximation
from fkd.core.moments import Moments
from tasks.adapters.cluster import connect
from tasks.adapters.jobs import run_jobs
from tasks.blocks import streaming
from tasks.blocks.shared_map import SharedMap, load_map, shared_encoder, store_map
from tasks.blocks.streaming import moments_of, stream_moments, study_cells
from tasks.planned.rows import cached_table
from tasks.study.opening import open_study


@pytest.fixture
def shared(settings):
    overrides = ["folds.reserve=0.2", "data.sensitive=[racepctblack, racePctWhite]"]
    inputs = open_study(load_config("default", overrides), settings).inputs
    return SharedMap(inputs, 0.05, Approximation("nystroem", 60, shared=True))


def direct(shared, rows):
    """Moments of rows in one piece, by the same map."""
    inputs = shared.inputs
    part = cached_table(inputs.settings, inputs.table_digest).take(rows)
    G = load_map(store_map(shared)).transform(shared_encoder(inputs).transform(part))
    return Moments.of(G, part.S(inputs.sensitive), part.y)


def folds(shared):
    table = cached_table(shared.inputs.settings, shared.inputs.table_digest)
    return shared.inputs.splits.all(table)


def here(function, jobs, keep):
    """Runs jobs in this process, in an order of its own."""
    for job in random.Random(len(jobs)).sample(jobs, len(jobs)):
        keep(job, function(job))


def nowhere(function, jobs, keep):
    """A cluster on which everything but the map fails."""
    if function is store_map:
        here(function, jobs, keep)


def assert_equal(left, right, **tolerance):
    compare = assert_allclose if tolerance else assert_array_equal
    for name, value in vars(left).items():
        compare(getattr(right, name), value, **tolerance)


def test_training_moments_are_the_sum_of_the_other_folds(shared):
    stream_moments(here, {shared: []})
    stored = store_map(shared)
    for fold in folds(shared).values():
        assert_equal(direct(shared, fold.train), moments_of(stored, fold.train), rtol=1e-10)


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_the_number_of_blocks_does_not_matter(shared, monkeypatch, blocks):
    cell = max(study_cells(shared.inputs), key=lambda cell: len(cell.rows))
    monkeypatch.setattr(streaming, "TASK_ROWS", -(-len(cell.rows) // blocks))
    made = []
    stream_moments(lambda f, jobs, keep: made.extend(jobs) or here(f, jobs, keep), {shared: []})
    index = next(i for i, c in enumerate(study_cells(shared.inputs)) if c is cell)
    assert sum(getattr(block, "cell", None) == index for block in made) == blocks
    train = folds(shared)["1"].train
    assert_equal(direct(shared, train), moments_of(store_map(shared), train), rtol=1e-10)


def test_what_the_cluster_did_not_do_is_made_where_it_is_needed(shared):
    train = folds(shared)["0.1"].train
    stream_moments(nowhere, {shared: []})
    alone = moments_of(store_map(shared), train)
    for path in shared.inputs.settings.moments.glob("*.npz"):
        path.unlink()
    stream_moments(here, {shared: []})
    assert_equal(alone, moments_of(store_map(shared), train))


def test_a_second_pass_computes_nothing(shared):
    stream_moments(here, {shared: []})
    made = []
    stream_moments(lambda f, jobs, keep: made.extend(jobs) or here(f, jobs, keep), {shared: []})
    assert made == [shared]


def test_damaged_moments_are_made_again(shared):
    stream_moments(here, {shared: []})
    train = folds(shared)["0"].train
    before = moments_of(store_map(shared), train)
    for path in set(shared.inputs.settings.moments.glob("*.npz")) - {shared.path}:
        content = bytearray(path.read_bytes())
        content[-900] ^= 1
        path.write_bytes(content)
    assert_equal(before, moments_of(store_map(shared), train))


def test_moments_of_another_map_are_not_used(shared, monkeypatch):
    stream_moments(here, {shared: []})
    stored = store_map(shared)
    content = shared.path.read_bytes()
    monkeypatch.setattr(streaming, "VERSION", 99)
    assert len(streaming.missing_cells(stored)) == len(study_cells(shared.inputs))
    assert shared.path.read_bytes() == content


def test_a_killed_worker_costs_only_its_block(shared, monkeypatch):
    monkeypatch.setattr(streaming, "TASK_ROWS", 40)
    stream_moments(here, {shared: []})
    alone = moments_of(store_map(shared), folds(shared)["0"].train)
    for path in shared.inputs.settings.moments.glob("*.npz"):
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

            assert not run_jobs(client, function, jobs, retries=3, time_limit=60.0, keep=take)

        stream_moments(run, {shared: []})
        assert pids[0] not in client.run(os.getpid).values()  # it was killed indeed
    assert len(taken) == len(set(taken)) > 40
    assert_equal(alone, moments_of(store_map(shared), folds(shared)["0"].train))

import os
import signal

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from configs.load import load_config
from configs.schema import ClusterConfig
from fkd.paper.kernel_tiles import nystroem_dual_path
from tasks.adapters.cluster import connect
from tasks.adapters.jobs import Failed, run_jobs
from tasks.blocks.kernel_blocks import KernelSource, kernel_rows, literal_path
from tasks.study.opening import open_study


@pytest.fixture
def source(settings):
    config = load_config("default", ["data.sensitive=[racepctblack, racePctWhite]"])
    return KernelSource(open_study(config, settings).inputs, "0.1", 0.05, 60)


def here(function, jobs, keep):
    for job in reversed(jobs):
        keep(job, function(job))
    return []


def test_blocks_reach_the_path_of_the_whole_matrix(source):
    data, S = kernel_rows(source)
    K = data.kernel.gram(data.X)
    path = literal_path(here, source, ridge=0.1, iterations=4, block_rows=300)
    whole = nystroem_dual_path(K, S, ridge=0.1, iterations=4, landmarks=data.landmarks)
    assert len(K) > 1000
    assert_allclose(path.fair_gram(K), whole.fair_gram(K), atol=1e-8)


@pytest.mark.stack
def test_two_workers_of_which_one_is_killed_change_no_bit(source):
    alone = literal_path(here, source, ridge=0.1, iterations=3, block_rows=200)
    taken = []
    with connect(ClusterConfig(workers=2), source.inputs.settings) as client:
        pids = list(client.run(os.getpid).values())

        def run(function, jobs, keep):
            def take(job, result):
                if len(taken) == 5:
                    os.kill(pids[1], signal.SIGKILL)
                taken.append(job)
                keep(job, result)

            return run_jobs(client, function, jobs, retries=3, time_limit=60.0, keep=take)

        path = literal_path(run, source, ridge=0.1, iterations=3, block_rows=200)
        assert pids[1] not in client.run(os.getpid).values()  # it was killed indeed
    assert len(taken) == 3 * 3 * 6
    assert_array_equal(path.A, alone.A)
    assert_array_equal(path.F, alone.F)


def test_a_failed_block_is_named(source):
    def broken(function, jobs, keep):
        return [Failed(jobs[0], "MemoryError: no room")]

    with pytest.raises(RuntimeError, match=r"1 of 6 kernel blocks.*MemoryError"):
        literal_path(broken, source, ridge=0.1, iterations=1, block_rows=200)


@pytest.mark.parametrize(("gamma", "landmarks"), [(0.0, 60), (0.05, 0), (0.05, 10**6)])
def test_impossible_settings_are_named(source, gamma, landmarks):
    with pytest.raises(ValueError, match=r"gamma|landmarks"):
        kernel_rows(KernelSource(source.inputs, "0.1", gamma, landmarks))

"""What is tried again, what is not: a fault that passes, a fault that would come again."""

import pytest
from dask_process import in_threads
from job_sample import touch

from configs.errors import UserError
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs


@pytest.fixture
def tried(settings, tmp_path):
    """Run jobs on threads; return how often each was tried, why those that failed did."""

    def run(behaviours, **options):
        jobs = [(str(tmp_path), str(i), name) for i, name in enumerate(behaviours)]
        with connect(in_threads(workers=2), settings) as client:
            failed = run_jobs(client, touch, jobs, **{"retries": 2, "time_limit": 600.0, **options})
        tries = {name: len((tmp_path / str(i)).read_text()) for i, name in enumerate(behaviours)}
        return tries, {failure.job[2]: failure.cause for failure in failed}

    return run


def test_wrong_input_is_not_tried_again_a_passing_fault_is(tried):
    tries, causes = tried(["fine", "wrong input", "passing fault"])
    assert tries == {"fine": 1, "wrong input": 1, "passing fault": 2}
    assert causes == {"wrong input": "ValueError: gamma must be above 0, got -1"}


def test_no_retries_means_one_try(tried):
    tries, causes = tried(["passing fault"], retries=0)
    assert tries == {"passing fault": 1}
    assert causes == {"passing fault": "ConnectionResetError: the disk blinked"}


def test_one_retry_means_two_tries(tried):
    tries, causes = tried(["passing fault"], retries=1)
    assert tries == {"passing fault": 2}
    assert causes == {}


def test_a_store_that_never_answers_ends_the_run_once_a_job_has_had_its_tries(tried, tmp_path):
    """Each of many jobs would compute in vain, then wait for the store as often as this one."""
    with pytest.raises(UserError, match="s3://nowhere does not answer"):
        tried(["no store"] * 20)
    tries = [len(file.read_text()) for file in tmp_path.glob("[0-9]*")]
    assert max(tries) == 3
    assert sum(tries) < 3 * 20

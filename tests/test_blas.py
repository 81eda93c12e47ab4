import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tasks.storage.environment import blas_threads


def _limits():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def elsewhere():
    """Run a function in a thread of its own, return what it returned."""

    def run(function):
        found = []
        thread = threading.Thread(target=lambda: found.append(function()))
        thread.start()
        thread.join(60)
        return found[0]

    return run


def test_the_limit_holds_inside_and_is_put_back():
    with threadpool_limits(limits=2):
        with blas_threads(1):
            with blas_threads(1):
                assert _limits() == {1}
            assert _limits() == {1}
        assert _limits() == {2}


def test_the_limit_holds_in_a_thread_that_was_not_the_first_to_set_one(elsewhere):
    def inside():
        with blas_threads(1):
            return _limits()

    with threadpool_limits(limits=2):
        assert elsewhere(inside) == {1}
        assert _limits() == {2}


def test_a_thread_that_leaves_first_changes_nothing_for_the_other():
    inside, leave = threading.Event(), threading.Event()

    def first():
        with blas_threads(1):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=first)
    with threadpool_limits(limits=2):
        thread.start()
        assert inside.wait(60)
        with blas_threads(1):
            leave.set()
            thread.join(60)
            assert _limits() == {1}
        assert _limits() == {2}


def test_another_number_waits_for_its_turn():
    seen = []

    def second():
        with blas_threads(2):
            seen.append(_limits())

    thread = threading.Thread(target=second)
    with blas_threads(1):
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert _limits() == {1}
    thread.join(60)
    assert seen == [{2}]

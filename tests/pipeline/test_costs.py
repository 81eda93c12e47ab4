import pytest
from sweep_sample import sweep_config

from configs.errors import UserError
from flows.fitting import SweepState
from tasks.fit.job import job_cost, planned_cost, refuse_too_large
from tasks.select.study import open_study
from tasks.track.run_index import read_status


@pytest.fixture
def study(settings):
    """An exact kernel on Crimes: about 130 MB in one task."""
    config = sweep_config("methods=[{name: krr_fkd, grid: {iterations: [0, 5]}}]")
    return open_study(config, settings)


def test_an_estimate_is_the_sum_of_arithmetic_and_the_largest_memory(study):
    jobs, table = study.missing(), study.loaded.table
    costs = [job_cost(job, table) for job in jobs]
    found = planned_cost(jobs, table)
    assert found.flops == pytest.approx(sum(cost.flops for cost in costs))
    assert found.bytes == max(cost.bytes for cost in costs) > 8 * 900**2
    assert found.seconds > 0
    assert planned_cost([], table).flops == 0


def test_a_task_too_large_for_a_worker_is_refused_with_figure_and_cure(study):
    jobs, table = study.missing(), study.loaded.table
    needed = planned_cost(jobs, table).bytes
    refuse_too_large(jobs, table, int(needed) + 1)
    refuse_too_large(jobs, table, None)
    with pytest.raises(UserError, match=r"krr_fkd on fold \S+ would need about [\d.]+ ") as caught:
        refuse_too_large(jobs, table, int(needed / 2))
    assert "nystroem" in str(caught.value)
    assert "cluster.workers=1" in str(caught.value)


def test_a_refused_run_is_told_as_failed(study):
    state = SweepState([study])
    with pytest.raises(UserError) as caught:
        state.check_memory(10**6)
    state.close(str(caught.value))
    status = read_status(study.settings, "sweep")
    assert status.seen == "failed"
    assert "would need about" in status.message

"""Runs of the fair ridge regression model, whose predictions need s."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from configs.errors import UserError
from configs.load import load_config, parse_config
from fkd.problems.bundle import Bundle
from tasks.fit.job import run_job
from tasks.select.champion import select_champion
from tasks.select.study import open_study

BOUNDED = (
    "folds.k=3",
    "select={inner_folds: 2, subject_to: {gdp: 0.03}}",
    "methods=[{name: frrm, grid: {unfairness: [0.05, 1]}}]",
)
BOTH = pytest.mark.parametrize("name", ["frrm", "krr_frrm"])


def test_a_bounded_champion_is_compared_with_the_unbounded_model_and_needs_s(settings):
    study = open_study(load_config("default", BOUNDED), settings)
    for job in study.missing():
        run_job(job)
    champion = select_champion(study)
    fair, plain = (
        next(r for r in study.results() if r.trial.parameters["unfairness"] == bound)
        for bound in (0.05, 1.0)
    )
    assert champion.trial == fair.trial
    reference, held_out = champion.judgement.reference, champion.judgement.held_out
    assert reference.mae[0] == pytest.approx(plain.records[0].measures["racepctblack"]["mae"])
    assert reference.mae[0] < held_out.mae[0] - 0.01
    bundle = champion.bundle
    assert bundle.sensitive == ("racepctblack",)
    frame = champion.example
    again = Bundle.from_arrays(bundle.arrays()).predict(frame)
    assert_array_equal(again, bundle.predict(frame))
    moved = bundle.predict(frame.assign(racepctblack=frame["racepctblack"] + 0.1))
    assert np.abs(moved - again).max() > 0.001


def config(entry):
    return parse_config({"data": {"problem": "crimes"}, "methods": [entry]}, "mine.yaml")


@BOTH
def test_a_configuration_may_name_bounds_instead_of_penalties(name):
    grid = config({"name": name, "grid": {"unfairness": [0.0, 0.05, 1.0]}})
    found = grid.methods[0].settings("crimes")
    assert [(p.penalty, p.unfairness) for p in found] == [(0.0, 0.0), (0.0, 0.05), (0.0, 1.0)]


@BOTH
@pytest.mark.parametrize("unfairness", [-0.1, 1.5])
def test_a_bound_outside_its_range_is_refused_before_any_work(name, unfairness):
    with pytest.raises(UserError, match="unfairness"):
        config({"name": name, "unfairness": unfairness})

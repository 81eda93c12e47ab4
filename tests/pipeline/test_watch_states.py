"""The band of a look on real rows of one state: hardly ever crossed, unless something changed."""

import numpy as np
import pytest
from optional import mirror

from configs.load import load_config
from fkd.measures import sample_changes
from tasks.data.load import load_table
from tasks.data.user_table import raw_frame
from tasks.fit.job import run_job
from tasks.select.champion import select_champion
from tasks.select.study import open_study
from tasks.storage.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.needs("mirror")]
CHANGES = (
    "methods=[dummy, {name: krr_fkd, grid: {iterations: [5]}, "
    "approximation: {kind: nystroem, landmarks: 200}}]",
    "select={inner_folds: 2, subject_to: {gdp: 0.5}}",
    "folds.k=3",
)
RECORD, MONTH = 500, 1000


@pytest.fixture(scope="module")
def montana(tmp_path_factory):
    """Truth, prediction and age of the rows of Montana that the champion was not fitted on."""
    settings = Settings(tmp_path_factory.mktemp("home"), str(mirror()))
    study = open_study(load_config("acs_income", [*CHANGES, "data.sample=3000"]), settings)
    for job in study.missing():
        run_job(job)
    champion = select_champion(study)
    assert champion.trial.method == "krr_fkd"
    whole = load_table(load_config("acs_income").data, settings).table
    sampled = study.loaded.table
    seen = sampled.take(study.inputs.splits.held_out_fold(sampled).train)
    # Rows of the census have no number: those that look like a training row are left out too.
    fitted = set(map(tuple, _rows(seen)))
    fresh = whole.take(np.array([tuple(row) not in fitted for row in _rows(whole)]))
    frame = raw_frame(fresh, champion.bundle.input_columns)
    return fresh.target, champion.bundle.predict(frame), fresh.sensitive[:, 0]


def _rows(table):
    return np.column_stack([table.target, table.sensitive, table.numeric, table.codes])


def _draw(rows, n, rng):
    index = rng.integers(len(rows[0]), size=n)
    return tuple(column[index] for column in rows)


def test_at_most_one_of_twenty_bootstraps_of_a_state_is_called_a_change(montana):
    assert len(montana[0]) > 2000
    invented = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        record, month = _draw(montana, RECORD, rng), _draw(montana, MONTH, rng)
        invented.append(sample_changes(record, month, rng=rng).crossed)
    assert sum(invented) <= 1


def test_a_drift_planted_into_a_state_is_found(montana):
    rng = np.random.default_rng(100)
    record, (y, f, age) = _draw(montana, RECORD, rng), _draw(montana, MONTH, rng)
    planted = y * np.where(age > 50, 1.4, 1.0)
    found = sample_changes(record, (planted, f, age), rng=rng, names=("AGEP",))
    assert found.crossed
    rank = next(one for one in found.curves if one.quantity == "error_rank")
    assert rank.crossed.any()
    assert rank.high[rank.crossed].max() < 0  # the model is too low now
    assert rank.points[rank.crossed].min() > 40

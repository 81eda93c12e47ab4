"""What rows alone say: looked for once, kept, told of the right rows."""

import numpy as np
import pytest
from scipy.stats import ks_2samp
from stored_files import stored

from tasks.select import checks as module
from tasks.select.checks import row_facts, strongest_proxies
from tasks.select.study import open_study


@pytest.fixture
def study(quick_study):
    """Another of the same, which has looked for nothing yet."""
    return open_study(quick_study.config, quick_study.settings)


def test_facts_are_of_the_rows_before_and_of_those_held_out(study):
    table, found = study.loaded.table, row_facts(study)
    fold = study.inputs.splits.held_out_fold(table)
    assert found.median == np.median(table.target[fold.train])
    assert set(found.distances) == {table.target_name, *table.sensitive_names}
    peer = ks_2samp(table.target[fold.train], table.target[fold.test])
    distance = found.distances[table.target_name]
    assert (distance.statistic, distance.chance) == (peer.statistic, peer.pvalue)
    assert set(found.proxies) == {*study.inputs.sensitive, *study.inputs.measure_on}
    for column, proxies in found.proxies.items():
        assert proxies == tuple(strongest_proxies(table, column))


def test_facts_are_looked_for_once_even_by_another_process(study, monkeypatch):
    first = row_facts(study)
    with monkeypatch.context() as patched:
        patched.setattr(module, "strongest_proxies", None)
        assert row_facts(open_study(study.config, study.settings)) == first
    (kept,) = stored(study.settings, "rows").glob("*.json")
    kept.write_bytes(b"damaged")
    assert row_facts(open_study(study.config, study.settings)) == first


def test_other_rows_held_out_are_other_facts(study):
    other = study.config.model_copy(update={"seed": study.config.seed + 1})
    assert row_facts(open_study(other, study.settings)).distances != row_facts(study).distances


def test_a_row_that_was_spoilt_since_is_named(study):
    study.loaded.table.target[3] = np.nan
    with pytest.raises(ValueError, match=study.loaded.table.target_name):
        row_facts(study)

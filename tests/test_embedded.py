import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.problems.crimes import PREDICTORS
from tasks.data import embedded


def test_the_embedded_file_has_the_declared_columns():
    columns = embedded.read_crimes()
    assert set(columns) == {"fold", *PREDICTORS, "ViolentCrimesPerPop"}
    assert len(PREDICTORS) == 99
    assert {len(column) for column in columns.values()} == {1993}


def test_its_values_are_on_ucis_scale():
    columns = embedded.read_crimes()
    values = np.column_stack([columns[name] for name in (*PREDICTORS, "ViolentCrimesPerPop")])
    assert_allclose([values.min(), values.max()], [0.0, 1.0])
    means = [
        columns[name].mean() for name in ("racepctblack", "racePctWhite", "ViolentCrimesPerPop")
    ]
    # UCI's means over all 1994 rows; the one absent row can move them by 5e-4.
    assert_allclose(means, [0.1796, 0.7537, 0.2380], atol=6e-4)
    assert set(columns["fold"]) == set(range(1, 11))


def test_a_changed_file_is_refused(monkeypatch):
    monkeypatch.setattr(embedded, "CRIMES_SHA256", "0" * 64)
    with pytest.raises(embedded.DamagedPackageError, match=r"crimes\.csv\.gz.*reinstall"):
        embedded.read_crimes()


def test_the_datasheet_credits_its_source():
    text = embedded.datasheet()
    assert "CC BY 4.0" in text
    assert embedded.CRIMES_SHA256 in text

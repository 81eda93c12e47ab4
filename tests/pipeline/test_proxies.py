"""Inputs that stand in for a sensitive column are found, whatever their kind."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.problems.table import Table
from tasks.select.checks import strongest_proxies


@pytest.fixture
def table(rng):
    n = 400
    s = rng.uniform(20, 70, n)
    codes = np.column_stack([(s // 10).astype(int) % 7, rng.integers(0, 3, n)])
    numeric = np.column_stack([-s + 5 * rng.normal(size=n), rng.normal(size=n), np.ones(n), s])
    return Table(
        numeric_names=("years left", "luck", "one", "age"),
        numeric=numeric,
        categorical_names=("decade", "colour"),
        codes=codes.astype(np.int32),
        levels=(tuple("0123456"), tuple("abc")),
        target_name="y",
        target=rng.normal(size=n),
        sensitive_names=("age",),
        sensitive=s[:, None],
        target_range=(-4.0, 4.0),
        sensitive_range=np.array([[20.0, 70.0]]),
    )


def test_the_closest_come_first_and_the_column_itself_is_left_out(table):
    found = strongest_proxies(table, "age")
    assert [proxy.name for proxy in found] == ["decade", "years left"]
    s, x = table.sensitive[:, 0], table.numeric[:, 0]
    assert_allclose(found[1].correlation, -np.corrcoef(x, s)[0, 1])
    means = np.array([s[table.codes[:, 0] == code].mean() for code in table.codes[:, 0]])
    assert_allclose(found[0].correlation, np.corrcoef(means, s)[0, 1])


def test_no_more_than_asked_for_are_named(table):
    assert len(strongest_proxies(table, "age", most=1)) == 1
    assert len(strongest_proxies(table, "age", above=0.0, most=9)) == 4  # a constant is none


def test_the_closest_is_named_however_far_it_is(table):
    (found,) = strongest_proxies(table, "age", above=0.999)
    assert found.name == "decade"


def test_a_gap_hides_no_proxy(table):
    table.numeric[:40, 0] = np.nan
    found = {proxy.name: proxy.correlation for proxy in strongest_proxies(table, "age")}
    s, x = table.sensitive[40:, 0], table.numeric[40:, 0]
    assert_allclose(found["years left"], -np.corrcoef(x, s)[0, 1])

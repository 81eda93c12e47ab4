import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.core.arrays import BLOCK_ROWS
from fkd.measures import profile_along, profile_of_pair, profile_within
from fkd.measures.profiles import means_of

BEYOND = BLOCK_ROWS + 55


def rows(n, seed=0):
    """A model that is too low for the old, one that is not."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 80, size=n)
    y = 100 + age + rng.normal(scale=10, size=n)
    plain = 100 + age + rng.normal(scale=3, size=n)
    return age, y, plain - np.maximum(age - 60, 0), plain, rng


@pytest.mark.parametrize("n", [600, BEYOND])
def test_a_profile_finds_who_loses(n):
    age, y, fair, plain, rng = rows(n)
    found = profile_along(y, fair, age, other=plain, rng=rng, draws=200)
    gain = found.curves["gain"]
    old = gain.points > 70
    assert (gain.highest[old] < 0).all()
    assert (gain.highest[gain.points < 50] >= 0).all()
    assert_allclose(gain.mean[old], 60 - gain.points[old], atol=2.5)
    worse = found.curves["absolute_error_change"]
    assert worse.low[-1] > 0


def test_what_two_curves_differ_by_is_the_curve_of_the_difference():
    age, y, fair, plain, rng = rows(BEYOND)
    curves = profile_along(y, fair, age, other=plain, rng=rng, draws=50).curves
    mean = {name: curve.mean for name, curve in curves.items()}
    assert_allclose(mean["gain"], mean["prediction"] - mean["other_prediction"], atol=1e-9)
    assert_allclose(mean["error"], mean["prediction"] - mean["target"], atol=1e-9)
    assert_allclose(mean["gain"], mean["error"] - mean["other_error"], atol=1e-9)
    paired = curves["gain"].high - curves["gain"].mean
    apart = curves["prediction"].high - curves["prediction"].mean
    assert (paired < apart).mean() > 0.9  # what both models share cancels


def test_deciles_hold_the_same_columns_in_the_same_order():
    age, y, fair, plain, rng = rows(700)
    found = profile_along(y, fair, age, other=plain, rng=rng, draws=50)
    whole = {name: column.mean() for name, column in means_of(y, fair, plain).items()}
    weights = [group.rows for group in found.groups]
    for j, name in enumerate(found.names):
        mean = np.average([group.mean[j] for group in found.groups], weights=weights)
        assert_allclose(mean, whole[name], atol=1e-9)


def test_without_another_model_there_are_four_columns():
    age, y, fair, _, rng = rows(300)
    found = profile_along(y, fair, age, rng=rng, draws=50)
    assert found.names == ("target", "prediction", "error", "absolute_error")
    assert found.other_leak is None
    assert found.leak is not None


def test_a_constant_gives_nothing_away():
    age, y, _, _, rng = rows(300)
    assert profile_along(y, np.full(300, 5.0), age, rng=rng, draws=50).leak is None


def test_within_groups_thirds_are_those_of_each_group():
    age, y, fair, *_ = rows(900)
    job = np.where(age < 50, "young trade", "old trade")
    job[:12] = "rare"
    found, left_out = profile_within(y, fair, age, control_features=job)
    assert [stratum.label for stratum in found] == ["old trade", "young trade"]
    assert [(group.label, group.rows, group.why) for group in left_out] == [
        ("rare", 12, "fewer than 30 rows")
    ]
    own = age[job == "old trade"]
    thirds = found[0].groups
    assert len(thirds) == 3
    assert thirds[0].ranges[0][0] == own.min()
    assert sum(group.rows for group in thirds) == found[0].rows == len(own)


def test_a_pair_needs_two_columns():
    age, y, fair, _, rng = rows(900)
    other = rng.normal(size=900)
    found, left_out = profile_of_pair(y, fair, np.column_stack([age, other]))
    assert len(found) + len(left_out) == 9
    with pytest.raises(ValueError, match="must be two columns here, got 1"):
        profile_of_pair(y, fair, age)


@pytest.mark.parametrize(
    ("which", "words"),
    [("y_true", "y_true must have one row per prediction"), ("other", "other must have one row")],
)
def test_columns_of_another_length_are_refused(which, words):
    columns = {"y_true": np.arange(9.0), "y_pred": np.arange(9.0), "other": np.arange(9.0)}
    columns[which] = np.arange(8.0)
    with pytest.raises(ValueError, match=words):
        means_of(**columns)

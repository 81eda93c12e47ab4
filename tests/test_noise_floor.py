"""The noise floor: what independence looks like to a measure."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fkd.measures import gdp, hgr, noise_floor


def test_four_hundred_rows_have_the_known_floor(rng):
    f, s = rng.normal(size=(2, 400))
    floor = noise_floor(f, s, rng=rng)
    assert_allclose(floor.mean, 0.103, rtol=0.15)
    assert type(floor.mean) is float
    assert floor.mean < floor.upper < 0.2


def test_more_rows_lower_the_floor(rng):
    few, many = (
        noise_floor(*rng.normal(size=(2, n)), rng=rng, permutations=20).mean for n in (200, 3200)
    )
    assert many < few / 2


def test_dependence_stands_out_of_the_floor_which_does_not_see_it(rng):
    S = rng.uniform(size=(400, 2)) * [1.0, 0.5]
    f = np.sin(6 * S[:, 0])
    floor = noise_floor(f, S, rng=rng, permutations=50)
    assert floor.mean.shape == floor.upper.shape == (2,)
    assert hgr(f, S)[0] > 3 * floor.upper[0]
    assert hgr(f, S)[1] < 1.5 * floor.upper[1]


def test_any_measure_has_a_floor(rng):
    f, s = rng.uniform(size=(2, 300))
    floor = noise_floor(f, s, rng=rng, measure=gdp, permutations=30, quantile=0.9)
    assert 0 < floor.mean < floor.upper < 0.05
    assert (floor.quantile, floor.permutations) == (0.9, 30)


def test_the_same_seed_gives_the_same_floor(rng):
    f, s = rng.normal(size=(2, 100))
    floors = [noise_floor(f, s, rng=np.random.default_rng(3), permutations=10) for _ in range(2)]
    assert floors[0] == floors[1]


def test_a_constant_prediction_has_none(rng):
    floor = noise_floor(np.ones(50), rng.normal(size=50), rng=rng, permutations=5)
    assert (floor.mean, floor.upper) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"permutations": 0}, "permutations must be at least 1, got 0"),
        ({"quantile": 0.0}, "quantile must lie between 0 and 1, got 0.0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(rng, options, rule):
    with pytest.raises(ValueError, match=rule):
        noise_floor([0.0, 1.0], [0.0, 1.0], rng=rng, **options)

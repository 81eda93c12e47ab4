"""How often intervals cover what they promise, on rows whose law is known.

`python tests/coverage_sample.py` prints the figures of
docs/explanation/measures.md, in about twenty minutes.
"""

import sys

import numpy as np
from scipy.stats import norm

from fkd.measures import MEASURES as DECLARED
from fkd.measures import compare
from fkd.measures import interval as interval_of


def mae(y, f):
    return float(np.abs(y - f).mean())


def independent(n, rng):
    """A fair prediction, one with more noise; an attribute with ties."""
    s = np.round(rng.uniform(size=n), 2)
    f = rng.normal(size=n)
    return f + rng.normal(size=n), f, 0.7 * f + 0.7 * rng.normal(size=n), s


def dependent(n, rng):
    """A prediction that has correlation 1/2 with a normal attribute, a fairer one."""
    z, talent = rng.normal(size=(2, n))
    f = 0.5 * z + np.sqrt(0.75) * talent
    fairer = 0.2 * z + np.sqrt(0.75) * talent + 0.2 * rng.normal(size=n)
    return f + 0.3 * z + rng.normal(size=n), f, fairer, np.round(norm.cdf(z), 2)


def u_shaped(n, rng):
    """High predictions for the young and for the old alike."""
    s = np.round(rng.uniform(size=n), 2)
    bend, talent = (2 * s - 1) ** 2, 0.5 * rng.normal(size=n)
    fairer = 0.3 * bend + talent + 0.1 * rng.normal(size=n)
    return talent + s + 0.5 * rng.normal(size=n), bend + talent, fairer, s


def skewed_ages(n, rng):
    """Sixty ages, more young than old; log-normal predictions whose errors grow with them."""
    s = np.floor(60 * rng.beta(1.5, 3, size=n)) / 60
    talent = 0.7 * rng.normal(size=n)
    f, fairer = np.exp(talent + s), np.exp(talent + 0.3 * s + 0.1 * rng.normal(size=n))
    return f * np.exp(0.3 * rng.normal(size=n)), f, fairer, s


# By name: a measure with the published margins, and its arguments.
MEASURES = {
    name: (DECLARED[name].scaled(), DECLARED[name].columns) for name in ("hgr", "gdp", "pf")
} | {"mae": (mae, lambda y, f, s: (y, f))}


def interval(name, y, f, s, rng, draws):
    """The interval of one measure of one prediction."""
    measure, take = MEASURES[name]
    return interval_of(measure, *take(y, f, s), rng=rng, replicates=draws)


def difference(name, y, f, other, s, rng, draws):
    """The interval of the difference of two predictions."""
    measure, take = MEASURES[name]
    sides = take(y, f, s), take(y, other, s)
    return compare(measure, *sides, rng=rng, replicates=draws).difference


def coverage(law, n, names, *, repetitions, draws=200, seed=0, paired=False):
    """Share of intervals, by measure, that hold the measure's mean over samples of n fresh rows."""
    rng = np.random.default_rng([seed, n])
    found = {name: [] for name in names}
    for _ in range(repetitions):
        y, f, other, s = law(n, rng)
        for name in names:
            if paired:
                found[name].append(difference(name, y, f, other, s, rng, draws))
            else:
                found[name].append(interval(name, y, f, s, rng, draws))
    fresh = {name: [] for name in names}
    for _ in range(repetitions):
        y, f, other, s = law(n, rng)
        for name in names:
            measure, take = MEASURES[name]
            less = measure(*take(y, other, s)) if paired else 0.0
            fresh[name].append(measure(*take(y, f, s)) - less)
    return {name: _share(found[name], fresh[name]) for name in names}


def _share(intervals, fresh):
    """Share of the intervals that hold the mean of all estimates."""
    mean = np.mean([*(each.estimate for each in intervals), *fresh])
    return float(np.mean([each.low <= mean <= each.high for each in intervals]))


# Law, rows, repetitions of single intervals, of differences.
PLAN = [
    (independent, 200, 600, 300),
    (independent, 1000, 300, 0),
    (independent, 5000, 150, 0),
    (dependent, 200, 600, 300),
    (dependent, 1000, 300, 0),
    (dependent, 5000, 150, 0),
    (u_shaped, 200, 400, 0),
    (skewed_ages, 200, 400, 0),
]


def main():
    """Print one line per law, size and kind."""
    for law, n, single, double in PLAN:
        for kind, repetitions in (("one", single), ("difference", double)):
            if repetitions:
                paired = kind == "difference"
                found = coverage(law, n, list(MEASURES), repetitions=repetitions, paired=paired)
                shares = "  ".join(f"{name} {100 * share:5.1f}" for name, share in found.items())
                sys.stdout.write(f"{law.__name__:12}{n:5} {kind:10} {repetitions:4}  {shares}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
